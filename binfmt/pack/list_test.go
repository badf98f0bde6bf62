package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
)

func parseList(name, text string, kinds map[string]binfmt.Kind) (*Listing, error) {
	return List{Path: name, Kinds: kinds}.parse(context.Background(), strings.NewReader(text))
}

// TestLists: the same rows as CSV and as JSON lines give the same listing, but for the order of the
// columns.
func TestLists(t *testing.T) {
	csvText := "\ufeffpath,age,weight,ok,code,note\n" +
		"b/2.jpg,7,1.5,true,007,\"two\nlines\"\n" +
		"\n" +
		"./a/../a/1.jpg,-3,2,False,12a,x\n" +
		"/abs/3.jpg,9007199254740993,1e-3,TRUE,x,\"a,b\"\n"
	jsonText := `{"path":"b/2.jpg","age":7,"weight":1.5,"ok":true,"code":"007","note":"two\nlines"}` + "\n\n" +
		`{"path":"./a/../a/1.jpg","age":-3,"weight":2,"ok":false,"code":"12a","note":"x"}` + "\r\n" +
		`{"note":"a,b","path":"/abs/3.jpg","age":9007199254740993,"weight":1e-3,"ok":true,"code":"x"}`
	row := func(age int64, weight float64, ok bool, code, note string) []binfmt.Value {
		return []binfmt.Value{{Kind: binfmt.Int64, Int: age}, {Kind: binfmt.Float64, Float: weight}, {Kind: binfmt.Bool, Bool: ok},
			{Kind: binfmt.UTF8, Str: code}, {Kind: binfmt.UTF8, Str: note}}
	}
	want := map[string][]binfmt.Value{
		"/abs/3.jpg": row(9007199254740993, 1e-3, true, "x", "a,b"),
		"a/1.jpg":    row(-3, 2, false, "12a", "x"),
		"b/2.jpg":    row(7, 1.5, true, "007", "two\nlines"),
	}
	kinds := map[string]binfmt.Kind{"age": binfmt.Int64, "weight": binfmt.Float64, "ok": binfmt.Bool, "code": binfmt.UTF8, "note": binfmt.UTF8}
	for name, text := range map[string]string{"/data/l.csv": csvText, "/data/l.jsonl": jsonText} {
		l, err := parseList(name, text, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(l.Entries) != 3 || l.Entries[0].Path != "/abs/3.jpg" || l.Entries[1].Path != "/data/a/1.jpg" || !l.Explicit || len(l.Classes) != 0 {
			t.Fatalf("%s: %+v", name, l)
		}
		for _, e := range l.Entries {
			for i, f := range l.Fields[1:] {
				if f.Kind != kinds[f.Name] {
					t.Errorf("%s: column %s is %s, want %s", name, f.Name, f.Kind, kinds[f.Name])
				}
				order := slices.Index([]string{"age", "weight", "ok", "code", "note"}, f.Name)
				if e.Scalars[i] != want[e.Key][order] {
					t.Errorf("%s: %s: %s = %+v, want %+v", name, e.Key, f.Name, e.Scalars[i], want[e.Key][order])
				}
			}
		}
	}
}

// TestListLabels: text in a column called label becomes classes.
func TestListLabels(t *testing.T) {
	text := "path,label\n1,dog\n2,ant\n3,dog\n"
	l, err := parseList("l.csv", text, nil)
	if err != nil || !slices.Equal(l.Classes, []string{"ant", "dog"}) || l.Fields[1] != (binfmt.Field{Name: "label", Kind: binfmt.Int64}) {
		t.Fatalf("%+v, %v", l, err)
	}
	if got := []int64{l.Entries[0].Scalars[0].Int, l.Entries[1].Scalars[0].Int, l.Entries[2].Scalars[0].Int}; !slices.Equal(got, []int64{1, 0, 1}) {
		t.Errorf("labels %v", got)
	}
	l, err = parseList("l.csv", text, map[string]binfmt.Kind{"label": binfmt.UTF8})
	if err != nil || len(l.Classes) != 0 || l.Fields[1].Kind != binfmt.UTF8 || l.Entries[1].Scalars[0].Str != "ant" {
		t.Errorf("kept as text: %+v, %v", l, err)
	}
}

func TestListsRefuse(t *testing.T) {
	long := strings.Repeat("x", maxRecord)
	for _, c := range []struct {
		name, text string
		kinds      map[string]binfmt.Kind
		says       []string
	}{
		{"l.txt", "", nil, []string{".csv, .jsonl or .ndjson"}},
		{"l.csv", "", nil, []string{"empty"}},
		{"l.csv", "path\n", nil, []string{"no files to pack"}},
		{"l.csv", "file,x\na,1\n", nil, []string{"line 1", `no column "path"`, `"file" "x"`}},
		{"l.csv", "path,x,x\na,1,1\n", nil, []string{"line 1", `"x" occurs twice`}},
		{"l.csv", "path,a.b\na,1\n", nil, []string{"line 1", "column 2", "dot"}},
		{"l.csv", "path,key\na,1\n", nil, []string{"line 1", "taken"}},
		{"l.csv", "path,image\na,1\n", nil, []string{`"image" has the name of the media field`}},
		{"l.csv", "path,x\na,1\nb\n", nil, []string{"record on line 3", "wrong number of fields"}},
		{"l.csv", "path,x\na,1\nb,\"2\n", nil, []string{"line 3"}},
		{"l.csv", "path,x\na,1\n,2\n", nil, []string{"line 3", `"path" is empty`}},
		{"l.csv", "path,x\na,1\nb,\n", nil, []string{"line 3", `"x"`, "missing"}},
		{"l.csv", "path,x\na,1\nb,2\nc,two\n", nil, []string{"line 4", `"two" is utf8`, "int64 since line 2", "--column x=utf8"}},
		{"l.csv", "path,x\na,true\nb,1\n", nil, []string{"line 3", "bool since line 2"}},
		{"l.csv", "path,x\na,0.5\nb,9007199254740993\n", nil, []string{"line 3", "no exact float64"}},
		{"l.csv", "path,x\na,1\na,2\n", nil, []string{"line 3", `"a" occurs twice`, "line 2"}},
		{"l.csv", "path,x\na,1\n./b/../a,2\n", nil, []string{"line 3", `"a" occurs twice`}},
		{"l.csv", "path\n\"a\nb\"\n", nil, []string{"line 2", "newline", "another place"}},
		{"l.csv", "path\na\xff\n", nil, []string{"line 2", "not UTF-8"}},
		{"l.csv", "path,x\na,\xff\n", nil, []string{"line 2", "UTF-8"}},
		{"l.csv", "path,x\na," + long[:20000] + "\n", nil, []string{"line 2", "20000 bytes"}},
		{"l.csv", "path,x\na,\"" + long + long, nil, []string{"more than 1048576 bytes"}},
		{"l.csv", "path,x\na,b\n", map[string]binfmt.Kind{"x": binfmt.Int64}, []string{"line 2", `"b" is utf8, not the int64`}},
		{"l.csv", "path,x\na,b\n", map[string]binfmt.Kind{"y": binfmt.Int64}, []string{`no scalar column "y"`}},
		{"l.csv", "path,x\na,b\n", map[string]binfmt.Kind{"path": binfmt.UTF8}, []string{`no scalar column "path"`}},
		{"l.csv", "path,x\na,b\n", map[string]binfmt.Kind{"x": "media"}, []string{`"media" is none of`}},
		{"l.jsonl", "", nil, []string{"empty"}},
		{"l.jsonl", "[1]\n", nil, []string{"line 1", "not an object"}},
		{"l.jsonl", "{\"path\":\"a\"}\n{\"path\":\n", nil, []string{"line 2", "not valid JSON"}},
		{"l.jsonl", "{\"path\":\"a\"} {}\n", nil, []string{"line 1", "not valid JSON"}},
		{"l.jsonl", "{\"path\":\"a\",\"path\":\"b\"}\n", nil, []string{"line 1", `"path" occurs twice`}},
		{"l.jsonl", "{\"file\":\"a\"}\n", nil, []string{"line 1", `no column "path"`}},
		{"l.jsonl", "{\"path\":1}\n", nil, []string{"line 1", "not text"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":null}\n", nil, []string{"line 1", "null"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":[1]}\n", nil, []string{"line 1", "no scalars"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":{}}\n", nil, []string{"line 1", "no scalars"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":1}\n{\"path\":\"b\"}\n", nil, []string{"line 2", `"x" is missing`}},
		{"l.jsonl", "{\"path\":\"a\"}\n{\"path\":\"b\",\"x\":1}\n", nil, []string{"line 2", `"x" is not in the first line`}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":1}\n{\"path\":\"b\",\"x\":\"1\"}\n", nil, []string{"line 2", "int64 since line 1"}},
		{"l.jsonl", "{\"path\":\"a\",\"label\":\"\"}\n", nil, []string{"line 1", "empty text is no class"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":1e999}\n", nil, []string{"line 1", "1e999"}},
		{"l.jsonl", "{\"path\":\"a\",\"x\":99999999999999999999}\n", nil, []string{"line 1", "does not fit"}},
		{"l.jsonl", "{\"path\":\"a\xff\"}\n", nil, []string{"line 1", "UTF-8"}},
		{"l.jsonl", "{\"path\":\"" + long + "\"}\n", nil, []string{"line 1", "more than 1048576 bytes"}},
	} {
		_, err := parseList(c.name, c.text, c.kinds)
		if !errors.Is(err, ErrSource) {
			t.Errorf("%.60q: error %v, want ErrSource", c.text, err)
		}
		for _, w := range c.says {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%.60q: error %v, want one that says %q", c.text, err, w)
			}
		}
	}
}

// TestPackList packs a list that names files elsewhere, one of no known type.
func TestPackList(t *testing.T) {
	source := photos(t, 6)
	put(t, source, "blob.npy", []byte("\x93NUMPY..."))
	other := t.TempDir()
	put(t, other, "list.csv", []byte(fmt.Sprintf("file,score\n%s/blob.npy,1\n%s/cat/0000.jpg,0.5\n", source, source)))
	st, root := openDir(t)
	src := List{Path: filepath.Join(other, "list.csv"), PathColumn: "file", Field: "blob"}
	m := mustPack(t, src, st, Options{})
	if want := []binfmt.Field{{Name: "blob", Kind: binfmt.Media}, {Name: "score", Kind: binfmt.Float64}}; !reflect.DeepEqual(m.Fields, want) {
		t.Fatalf("fields %+v", m.Fields)
	}
	readAll(t, m, root, "/")
	clean(t, st)
	put(t, other, "list.csv", []byte("path\nnot/there.jpg\n"))
	_, err := Pack(context.Background(), List{Path: filepath.Join(other, "list.csv")}, st, "/other", Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	words(t, err, "line 2", "not/there.jpg")
	put(t, other, "list.csv", []byte("path\n.\n"))
	_, err = Pack(context.Background(), List{Path: filepath.Join(other, "list.csv")}, st, "/other", Options{})
	words(t, err, "line 2", "want a file")
	if _, err := Pack(context.Background(), List{Path: filepath.Join(other, "none.csv")}, st, "/other", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// checkListing holds what every accepted list has to be.
func checkListing(t *testing.T, l *Listing) {
	for i, e := range l.Entries {
		if i > 0 && l.Entries[i-1].Key >= e.Key {
			t.Fatalf("keys %q and %q", l.Entries[i-1].Key, e.Key)
		}
		if len(e.Scalars) != len(l.Fields)-1 || binfmt.CheckKey(e.Key) != nil {
			t.Fatalf("entry %+v", e)
		}
		for j, v := range e.Scalars {
			if v.Kind != l.Fields[j+1].Kind || math.IsNaN(v.Float) || math.IsInf(v.Float, 0) {
				t.Fatalf("%s = %+v, want %s", l.Fields[j+1].Name, v, l.Fields[j+1].Kind)
			}
		}
	}
	m := binfmt.Manifest{Format: 1, Fields: l.Fields, Classes: l.Classes, Bins: []binfmt.Bin{{
		Name: "b", UUID: strings.Repeat("0", 32), Samples: 1, Bytes: 64, IndexSHA256: strings.Repeat("0", 64)}}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
}

func fuzzList(f *testing.F, name string) {
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseList(name, text, nil)
		if err != nil {
			if !errors.Is(err, ErrSource) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		checkListing(t, l)
	})
}

func FuzzCSV(f *testing.F) {
	f.Add("path,label,x\na/1.jpg,cat,1\na/2.jpg,dog,2.5\n")
	f.Add("\ufeffpath,x\n\"a \"\"1\"\"\",-0\nb,1e9\n")
	f.Add("path\n\n\"\n")
	f.Add("x,path\ntrue,a\nFalse,b\n")
	fuzzList(f, "l.csv")
}

func FuzzJSONL(f *testing.F) {
	f.Add(`{"path":"a","label":"cat","x":1}` + "\n" + `{"x":-2.5e3,"path":"b","label":"dog"}`)
	f.Add(`{"path":"a","x":true}` + "\r\n\r\n")
	f.Add(`{"path":"\u0000"}`)
	f.Add(`{"path":"a","path":1}`)
	fuzzList(f, "l.jsonl")
}
