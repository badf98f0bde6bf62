package pickle

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// golden is testdata/golden.json, which testdata/golden.py makes with Python's own pickler.
type golden struct {
	Values []struct {
		Protocol int
		Pickle   []byte
		Value    any
	}
	Hostile []struct {
		Name   string
		Pickle []byte
		Names  string
	}
	Broken []struct {
		Name   string
		Pickle []byte
	}
}

func readGolden(t testing.TB) golden {
	t.Helper()
	return testdata.ReadJSON[golden](t, "testdata/golden.json")
}

// thing is an instance of the one class that tests allow.
type thing struct{ args, state any }

func (t *thing) SetState(state any) error {
	if _, ok := state.(Tuple); ok {
		return errors.New("a thing has attributes")
	}
	t.state = state
	return nil
}

var thingClass = &Class{Name: "Thing", Make: func(args Tuple) (any, error) {
	if len(args) > 1 {
		return nil, errors.New("a thing takes one argument")
	}
	return &thing{args: args}, nil
}}

func allow(module, name string) *Class {
	switch module + " " + name {
	case "allowed Thing":
		return thingClass
	case "allowed constant":
		return &Class{Name: "constant"}
	}
	return nil
}

// show writes a value as golden.py does.
func show(v any) any {
	list := func(kind string, items []any) []any {
		out := []any{kind}
		for _, i := range items {
			out = append(out, show(i))
		}
		return out
	}
	switch v := v.(type) {
	case nil:
		return []any{"none"}
	case bool:
		return []any{"bool", v}
	case int64:
		return []any{"int", fmt.Sprint(v)}
	case float64:
		return []any{"float", hex.EncodeToString(big(math.Float64bits(v)))}
	case string:
		return []any{"text", v}
	case []byte:
		return []any{"bytes", base64.StdEncoding.EncodeToString(v)}
	case Tuple:
		return list("tuple", v)
	case *List:
		return list("list", v.Items)
	case *Dict:
		out := []any{"dict"}
		for _, p := range v.Pairs {
			out = append(out, []any{show(p.Key), show(p.Value)})
		}
		return out
	}
	return []any{"instance"}
}

func big(v uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(v >> (56 - 8*i))
	}
	return b
}

// asSet makes the shown list a set, in golden.py's order.
func asSet(v any) any {
	items := v.([]any)[1:]
	sort.Slice(items, func(i, j int) bool { return fmt.Sprint(items[i]) < fmt.Sprint(items[j]) })
	return append([]any{"set"}, items...)
}

func TestGoldenValues(t *testing.T) {
	g := readGolden(t)
	if len(g.Values) < 200 {
		t.Fatalf("%d values", len(g.Values))
	}
	for i, c := range g.Values {
		v, err := Load(c.Pickle, Options{})
		if err != nil {
			t.Errorf("value %d, protocol %d: %v", i, c.Protocol, err)
			continue
		}
		got, want := show(v), c.Value
		if want.([]any)[0] == "set" {
			got, want = asSet(got), asSet(want)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("value %d, protocol %d: %.200v, want %.200v", i, c.Protocol, got, want)
		}
	}
}

func TestHostileIsRefusedByName(t *testing.T) {
	g := readGolden(t)
	if len(g.Hostile) < 60 {
		t.Fatalf("%d pickles", len(g.Hostile))
	}
	for _, c := range g.Hostile {
		_, err := Load(c.Pickle, Options{Class: allow})
		if !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), c.Names) {
			t.Errorf("%s: %v, want a refusal that names %s", c.Name, err, c.Names)
		}
	}
}

func TestBrokenIsRefused(t *testing.T) {
	g := readGolden(t)
	if len(g.Broken) < 80 {
		t.Fatalf("%d pickles", len(g.Broken))
	}
	for _, c := range g.Broken {
		if v, err := Load(c.Pickle, Options{Class: allow}); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", c.Name, v, err)
		}
	}
}

func TestClasses(t *testing.T) {
	head := "\x80\x02callowed\nThing\n"
	for text, want := range map[string]string{
		head + ")R.":                      "",
		head + "(K\x01K\x02tR.":           "one argument",
		head + ")\x81}b.":                 "",
		head + ")\x81)b.":                 "has attributes",
		head + ".":                        "",
		"\x80\x02callowed\nconstant\n)R.": "a call of constant is refused",
	} {
		_, err := Load([]byte(text), Options{Class: allow})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	v, err := Load([]byte("\x80\x02callowed\nThing\n)\x81q\x00}X\x01\x00\x00\x00xh\x00sb."), Options{Class: allow}) // refers to itself
	if me, ok := v.(*thing); err != nil || !ok || me.state.(*Dict).Pairs[0].Value != any(me) {
		t.Errorf("%v, %v", v, err)
	}
}

func TestPersistent(t *testing.T) {
	o := Options{Persistent: func(id any) (any, error) {
		if id != "known" {
			return nil, fmt.Errorf("id %v is unknown", id)
		}
		return int64(7), nil
	}}
	if v, err := Load([]byte("\x80\x04\x8c\x05knownQ."), o); v != int64(7) || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := Load([]byte("\x80\x04NQ."), o); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "is unknown") {
		t.Error(err)
	}
}

func TestLoadPrefix(t *testing.T) {
	data := []byte("\x80\x04K\x07.more")
	if v, n, err := LoadPrefix(data, Options{}); v != int64(7) || n != 5 || err != nil {
		t.Errorf("%v, %d, %v", v, n, err)
	}
	for n := range 5 {
		if _, _, err := LoadPrefix(data[:n], Options{}); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := Load(data, Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "byte 5: 4 bytes behind") {
		t.Error(err)
	}
}

// TestMemoryIsBounded holds for pickles whose every byte asks for as much memory as it can.
func TestMemoryIsBounded(t *testing.T) {
	repeat := func(first, each string, last string) []byte {
		return []byte("\x80\x04" + first + strings.Repeat(each, 300_000/len(each)) + last)
	}
	for name, data := range map[string][]byte{
		"dicts":           repeat("(", "}", "t."),
		"dicts in dicts":  repeat("", "}", "."),
		"lists kept":      append(repeat("(", "]\x94", ""), append(bytes.Repeat([]byte("h\x00"), 1000), "t."...)...),
		"tuples":          repeat("N", "\x85", "."),
		"marks":           repeat("", "(", "."),
		"nones":           repeat("(", "N", "t."),
		"empty texts":     repeat("(", "\x8c\x00", "t."),
		"small integers":  repeat("(", "M\xff\xff", "t."),
		"one list":        repeat("](", "N", "e."),
		"appends":         repeat("]", "Na", "."),
		"instances":       repeat("callowed\nThing\n\x94(", "h\x00)\x81", "t."),
		"a tuple, copied": repeat("(((((NNNNNNNNt\x94(", "h\x00", "tttttt."),
		"bytes":           repeat("(", "C\x00", "t."),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(data, Options{Class: allow})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 3*perByte*uint64(len(data))+4*spare {
			t.Errorf("%s: %d bytes taken for a pickle of %d: %v", name, took, len(data), err)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	g := readGolden(f)
	for _, c := range g.Values {
		if len(c.Pickle) < 4096 {
			f.Add(c.Pickle)
		}
	}
	for _, c := range g.Hostile {
		f.Add(c.Pickle)
	}
	for _, c := range g.Broken {
		f.Add(c.Pickle)
	}
	f.Add([]byte("\x80\x02callowed\nThing\n)\x81q\x00}X\x01\x00\x00\x00xh\x00sb."))
	f.Fuzz(func(t *testing.T, data []byte) {
		persistent := func(id any) (any, error) { return id, nil }
		_, err := Load(data, Options{Class: allow, Persistent: persistent})
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrForbidden) {
			t.Fatalf("%v", err)
		}
		if e := (*Error)(nil); err != nil && (!errors.As(err, &e) || e.Off > len(data)) {
			t.Fatalf("%v", err)
		}
	})
}
