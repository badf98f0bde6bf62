package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// file makes a file of a header and data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func tensorJSON(name, rest string) string { return fmt.Sprintf(`%q:{%s}`, name, rest) }

const u8x4 = `"dtype":"U8","shape":[4],"data_offsets":[0,4]`

// TestRules breaks each rule on its own and wants it named, with the place and the tensor.
func TestRules(t *testing.T) {
	w := func(rest string) string { return "{" + tensorJSON("w", rest) + "}" }
	for _, c := range []struct {
		name   string
		file   []byte
		rule   Rule
		tensor string
		want   string
	}{
		{"short", make([]byte, 7), RuleLength, "", "8 say how long"},
		{"over the limit", binary.LittleEndian.AppendUint64(nil, MaxHeader+1), RuleLength, "", "allows 100000000"},
		{"2^64-1", binary.LittleEndian.AppendUint64(nil, 1<<64-1), RuleLength, "", "18446744073709551615"},
		{"longer than the file", binary.LittleEndian.AppendUint64(nil, 1), RuleJSON, "", "end at byte 9 of a file of 8"},
		{"not UTF-8", file("{\"\xff\":1}", 0), RuleJSON, "", "byte 10: the header is not UTF-8"},
		{"no object", file("[]", 0), RuleJSON, "", `byte 8: '[' where '{' must be`},
		{"two objects", file("{}{}", 0), RuleJSON, "", "byte 10"},
		{"metadata of numbers", file(`{"__metadata__":{"a":1}}`, 0), RuleMetadata, "", `string of __metadata__ "a"`},
		{"metadata null", file(`{"__metadata__":null}`, 0), RuleMetadata, "", "'n' where the object"},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), RuleUnique, "", "twice"},
		{"no dtype", file(w(`"shape":[4],"data_offsets":[0,4]`), 4), RuleTensor, "w", "dtype is missing"},
		{"no shape", file(w(`"dtype":"U8","data_offsets":[0,4]`), 4), RuleTensor, "w", "shape is missing"},
		{"no offsets", file(w(`"dtype":"U8","shape":[4]`), 4), RuleTensor, "w", "data_offsets is missing"},
		{"null shape", file(w(`"dtype":"U8","shape":null,"data_offsets":[0,4]`), 4), RuleTensor, "w", "list of shape"},
		{"shape twice", file(w(u8x4+`,"shape":[4]`), 4), RuleTensor, "w", "shape is there twice"},
		{"dtype of later", file(w(`"dtype":"F3","shape":[4],"data_offsets":[0,4]`), 4), RuleTensor, "w", `"F3" is none of BOOL, F4,`},
		{"three offsets", file(w(`"dtype":"U8","shape":[4],"data_offsets":[0,4,4]`), 4), RuleTensor, "w", "3 numbers"},
		{"fraction", file(w(`"dtype":"U8","shape":[4.0],"data_offsets":[0,4]`), 4), RuleTensor, "w", "fraction"},
		{"negative", file(w(`"dtype":"U8","shape":[-4],"data_offsets":[0,4]`), 4), RuleTensor, "w", "'-' where an unsigned"},
		{"over 64 bits", file(w(`"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4]`), 4), RuleTensor, "w", "64 bits"},
		{"hole", file(w(`"dtype":"U8","shape":[4],"data_offsets":[1,5]`), 5), RuleContiguous, "w", "hole: it begins at 1"},
		{"overlap", file("{"+tensorJSON("a", u8x4)+","+tensorJSON("b", `"dtype":"U8","shape":[2],"data_offsets":[3,5]`)+"}", 5), RuleContiguous, "b", "overlap"},
		{"backwards", file(w(`"dtype":"U8","shape":[4],"data_offsets":[4,0]`), 4), RuleContiguous, "w", "before they begin"},
		{"size", file(w(`"dtype":"U16","shape":[4],"data_offsets":[0,4]`), 4), RuleBytes, "w", "has 8 bytes, data_offsets have 4"},
		{"half a byte", file(w(`"dtype":"F4","shape":[7],"data_offsets":[0,4]`), 4), RuleBytes, "w", "whole number of bytes"},
		{"overflow", file(w(`"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]`), 0), RuleBytes, "w", "more elements"},
		{"overflow of bits", file(w(`"dtype":"U64","shape":[576460752303423488],"data_offsets":[0,0]`), 0), RuleBytes, "w", "more bytes"},
		{"dimension over 63 bits", file(w(`"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]`), 0), RuleBytes, "w", "more than any file"},
		{"cut", file(w(u8x4), 3), RuleEnd, "", "tensors have 4 bytes, the file has 3"},
		{"appended", file(w(u8x4), 5), RuleEnd, "", "the file has 5"},
		{"far beyond the file", file(w(`"dtype":"U8","shape":[2305843009213693951],"data_offsets":[0,2305843009213693951]`), 1), RuleEnd, "", "2305843009213693951"},
		{"twice", file("{"+tensorJSON("w", u8x4)+","+tensorJSON("w", `"dtype":"U8","shape":[2],"data_offsets":[4,6]`)+"}", 6), RuleUnique, "w", "two tensors"},
	} {
		_, err := Parse(c.file, int64(len(c.file)))
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Rule != c.rule || e.Tensor != c.tensor || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `rule "`+c.rule.String()+`"`) {
			t.Errorf("%s: %v, want rule %s, tensor %q, %q", c.name, err, c.rule, c.tensor, c.want)
		}
	}
}

// TestRealFiles compares with what the safetensors package says of real files and of files that break one rule each.
func TestRealFiles(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(testdata.Read(t, "expect-safetensors.tsv"))), "\n")[1:]
	if len(rows) < 15 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, "\t")
		data, err := os.ReadFile(testdata.Path(t, cells[0]))
		if err != nil {
			t.Fatal(err)
		}
		h, err := Parse(data, int64(len(data)))
		if (err == nil) != (cells[1] == "ok") {
			t.Errorf("%s: %v, want %s", cells[0], err, cells[1])
		}
		if err != nil {
			continue
		}
		var list []string
		for _, name := range sortedNames(h) {
			tensor, _ := h.Lookup(name)
			list = append(list, fmt.Sprintf("'%s':%s:%s", name, tensor.Dtype, strings.ReplaceAll(fmt.Sprint(tensor.Shape), " ", ", ")))
		}
		want := ""
		if len(cells) > 3 {
			want = cells[3]
		}
		if got := strings.Join(list, " "); got != want || fmt.Sprint(len(list)) != cells[2] {
			t.Errorf("%s: %d %s\nwant %s %s", filepath.Base(cells[0]), len(list), got, cells[2], want)
		}
	}
}

func TestDtypes(t *testing.T) {
	names := map[string]bool{}
	for d := Bool; d.Bits() > 0; d++ {
		names[d.String()] = true
		if back, ok := ParseDtype(d.String()); !ok || back != d {
			t.Errorf("%s is read as %s", d, back)
		}
	}
	if len(names) != 22 {
		t.Errorf("%d dtypes, and the format has 22", len(names))
	}
	for _, bad := range []string{"", "f32", "F32 ", "invalid"} {
		if d, ok := ParseDtype(bad); ok {
			t.Errorf("%q is %s", bad, d)
		}
	}
}
