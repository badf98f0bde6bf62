package safetensors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestIndexRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "the end",
		`[]`:                          "object of the index",
		`{}`:                          "weight_map is missing",
		`{"weight_map":{}}x`:          "behind",
		`{"weight_map":[]}`:           "object of weight_map",
		`{"weight_map":{"w":1}}`:      `file of tensor "w"`,
		`{"weight_map":{"w":null}}`:   `file of tensor "w"`,
		`{"weight_map":{"w":["a"]}}`:  `file of tensor "w"`,
		`{"weight_map":{"w":"../a"}}`: "no plain name",
		`{"weight_map":{"w":"/a"}}`:   "no plain name",
		`{"weight_map":{"w":"a/b"}}`:  "no plain name",
		`{"weight_map":{"w":"a\\b"}}`: "no plain name",
		`{"weight_map":{"w":".."}}`:   "no plain name",
		`{"weight_map":{"w":""}}`:     "no plain name",
		`{"weight_map":{"w":"a\n"}}`:  "no plain name",
		`{"weight_map":{"w":"` + strings.Repeat("a", 256) + `"}}`: "no plain name",
		`{"weight_map":{"w":"a","w":"a"}}`:                        "twice",
		`{"weight_map":{},"weight_map":{}}`:                       "twice",
		`{"weight_map":{},"metadata":{},"metadata":{}}`:           "twice",
		`{"weight_map":{},"metadata":{"total_size":1.5}}`:         "no number of bytes",
		`{"weight_map":{},"metadata":{"total_size":-1}}`:          "no number of bytes",
		`{"weight_map":{},"metadata":{"total_size":1e999999999}}`: "no number of bytes",
		`{"weight_map":{},"metadata":{"total_size":1e30}}`:        "no number of bytes",
		"{\"weight_map\":{\"\xff\":\"a\"}}":                       "UTF-8",
	} {
		if _, err := ParseIndex([]byte(text)); !errors.Is(err, ErrIndex) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestIndexTotals(t *testing.T) {
	for text, want := range map[string]int64{
		`{"weight_map":{}}`:                                          -1,
		`{"weight_map":{},"metadata":null}`:                          -1,
		`{"metadata":{"total_size":null},"weight_map":{}}`:           -1,
		`{"metadata":{"total_size":"7"},"weight_map":{}}`:            -1,
		`{"metadata":{"total_size":7,"x":{}},"weight_map":{}}`:       7,
		`{"metadata":{"total_size":28966928384.0},"weight_map":{}}`:  28966928384,
		`{"metadata":{"total_size":2.5E+1},"weight_map":{},"y":[1]}`: 25,
	} {
		if x, err := ParseIndex([]byte(text)); err != nil || x.TotalSize != want {
			t.Errorf("%s: %+v, %v", text, x, err)
		}
	}
}

// TestIndexAgainstFiles breaks each agreement between an index and its files.
func TestIndexAgainstFiles(t *testing.T) {
	header := func(names ...string) *Header {
		var entries []string
		for i, n := range names {
			entries = append(entries, tensorJSON(n, fmt.Sprintf(`"dtype":"U8","shape":[4],"data_offsets":[%d,%d]`, 4*i, 4*i+4)))
		}
		data := file("{"+strings.Join(entries, ",")+"}", 4*len(names))
		h, err := Parse(data, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	index := `{"metadata":{"total_size":12},"weight_map":{"a":"1","b":"1","c":"2"}}`
	for _, c := range []struct {
		index   string
		headers map[string]*Header
		want    []string
	}{
		{index, map[string]*Header{"1": header("a", "b"), "2": header("c"), "other": header("a")}, nil},
		{index, map[string]*Header{"1": header("a", "b")}, []string{"file-missing: 2"}},
		{index, map[string]*Header{"1": header("a"), "2": header("c")}, []string{`tensor-missing: 1: tensor "b"`, "total-size"}},
		{index, map[string]*Header{"1": header("a", "b", "d"), "2": header("c")}, []string{`tensor-unlisted: 1: tensor "d"`, "total-size"}},
		{index, map[string]*Header{"1": header("a", "b"), "2": header("c", "a")}, []string{`tensor-twice: 2: tensor "a": it is in 1`, `tensor-unlisted: 2: tensor "a"`, "total-size"}},
		{index, map[string]*Header{"1": header("a", "c"), "2": header("b")}, []string{`tensor-unlisted: 1: tensor "c"`, `tensor-unlisted: 2: tensor "b"`, `tensor-missing: 1: tensor "b"`, `tensor-missing: 2: tensor "c"`}},
		{strings.Replace(index, "12", "11", 1), map[string]*Header{"1": header("a", "b"), "2": header("c")}, []string{"total-size: the index says that tensors have 11 bytes, the files hold 12"}},
	} {
		x, err := ParseIndex([]byte(c.index))
		if err != nil {
			t.Fatal(err)
		}
		found := x.Check(c.headers)
		ok := len(found) == len(c.want)
		for i := range min(len(found), len(c.want)) {
			ok = ok && strings.HasPrefix(found[i].String(), c.want[i])
		}
		if !ok {
			t.Errorf("%v: found %v, want %v", c.headers, found, c.want)
		}
	}
}

func TestSharding(t *testing.T) {
	parse := func(info string) *Header {
		data := file(`{"__metadata__":{"DCP_SHARDING_INFO":`+fmt.Sprintf("%q", info)+`},`+tensorJSON("w", u8x4)+"}", 4)
		h, err := Parse(data, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	at, ok, err := parse(`{"w":{"saved_offsets":[8]}}`).Sharding()
	if err != nil || !ok || len(at["w"]) != 1 || at["w"][0] != 8 {
		t.Errorf("%v %v %v", at, ok, err)
	}
	for _, bad := range []string{
		`[]`, `{}`, `{"v":{"saved_offsets":[8]}}`, `{"w":{"saved_offsets":[]}}`, `{"w":{"saved_offsets":[-8]}}`, `{"w":{}}`, `{"w":{"offsets":[8]}}`,
		`{"w":{"saved_offsets":[8]},"w":{"saved_offsets":[8]}}`, `{"w":{"saved_offsets":[8]}} x`, `{"w":{"saved_offsets":8}}`, `{"w":{"saved_offsets":[9223372036854775808]}}`,
	} {
		if _, _, err := parse(bad).Sharding(); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, ok, err := (&Header{}).Sharding(); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}
