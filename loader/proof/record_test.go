package proof

import (
	"reflect"
	"strings"
	"testing"
)

func TestARecordIsOneLineOfJSON(t *testing.T) {
	r := Record{Step: 5, Position: 3, Sample: 1<<64 - 1, Fields: []Field{{Name: "a<\n>", Dtype: "bool", SHA256: [32]byte{255}}}}
	got := string(r.AppendLine([]byte("before ")))
	want := `before {"step":5,"position":3,"sample":18446744073709551615,"fields":[{"name":"a\u003c\n\u003e","dtype":"bool","shape":[],"sha256":"ff` +
		strings.Repeat("00", 31) + `"}]}` + "\n"
	if got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
	back, err := ParseRecord([]byte(got)[len("before "):])
	r.Fields[0].Shape = []int64{}
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Fatalf("%+v, %v", back, err)
	}
}

func TestParseRecordRefuses(t *testing.T) {
	good := someLines(1, 2, 2, 3)
	for name, c := range map[string]struct{ old, new, want string }{
		"no step":         {`"step":1,`, ``, "required"},
		"null sample":     {`"sample":1002`, `"sample":null`, "required"},
		"negative":        {`"position":2`, `"position":-2`, "must not be negative"},
		"fraction":        {`"position":2`, `"position":2.5`, "not a record"},
		"unknown key":     {`"sample"`, `"rank":0,"sample"`, `unknown field "rank"`},
		"no dtype":        {`"dtype":"uint8",`, ``, "fields[0]: name, dtype, shape and sha256 are required"},
		"null field":      {`"fields":[`, `"fields":[null,`, "fields[0]"},
		"negative shape":  {`[3,8,8]`, `[3,-8,8]`, "fields[0]: shape"},
		"short digest":    {`"sha256":"`, `"sha256":"0`, "fields[0]: sha256"},
		"the same field":  {`"label"`, `"image"`, `field "image" occurs twice`},
		"more data":       {"\n", " {}\n", "more data"},
		"cut":             {"]}\n", "\n", "not a record"},
		"not an object":   {good, "[]\n", "not a record"},
		"nothing at all":  {good, "", "not a record"},
		"not UTF-8 JSON":  {good, "\xff\n", "not a record"},
		"too large a pos": {`"position":2`, `"position":9223372036854775808`, "not a record"},
	} {
		if _, err := ParseRecord([]byte(strings.Replace(good, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(someLines(1, 2, 2, 3)))
	f.Add([]byte(`{"step":0,"position":0,"sample":0,"fields":[]}`))
	f.Add([]byte(`{"step":0,"position":0,"sample":0,"fields":[{"name":"b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			return
		}
		again, err := ParseRecord(r.AppendLine(nil))
		if err != nil || again.difference(&r) != "" || again.key() != r.key() {
			t.Fatalf("%+v became %+v: %v", r, again, err)
		}
		if k, err := readKey(data); err != nil || k != r.key() {
			t.Fatalf("readKey gives %v, %v for %+v", k, err, r)
		}
	})
}
