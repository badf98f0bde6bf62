package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/foreigntest"
)

// tree writes files, whose content is their name for what ends in .txt and .cls, else a small picture.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		content := []byte(name)
		switch filepath.Ext(name) {
		case ".png", ".PNG":
			content = picture(t, i)
		case ".cls":
			content = []byte("7\n")
		case "":
			content = nil
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func picture(t testing.TB, i int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, i+1, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func source(t testing.TB, dir string, names ...string) foreign.Source {
	if len(names) == 0 {
		names = []string{"/"}
	}
	return foreign.Source{Store: foreigntest.Store(t, dir), Names: names}
}

// TestAsImageFolder compares files, their bytes, classes and order with what torchvision's ImageFolder gives (testdata/make.py).
func TestAsImageFolder(t *testing.T) {
	var want struct {
		Classes []string
		Samples [][2]any
	}
	data, err := os.ReadFile("testdata/imagefolder.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range want.Samples {
		names = append(names, s[0].(string))
	}
	dir := tree(t, names...)
	c := New(Options{})
	got, warnings, err := foreigntest.Read(t.Context(), c, source(t, dir))
	if err != nil || len(got) != len(names) || len(warnings) > 0 {
		t.Fatalf("%d samples, %q, %v; want %d", len(got), warnings, err, len(names))
	}
	for i, s := range got {
		content, err := os.ReadFile(filepath.Join(dir, names[i]))
		if err != nil {
			t.Fatal(err)
		}
		p := s.Parts[Field]
		if s.Key != names[i] || p.File != names[i] || p.Version == "" || !bytes.Equal(s.Bytes[Field], content) || s.Scalars[binfmt.LabelField].Int != int64(want.Samples[i][1].(float64)) {
			t.Errorf("sample %d: key %q, %+v, label %v; want %v", i, s.Key, p, s.Scalars, want.Samples[i])
		}
		if p.Type != "image/png" || p.Width != uint32(i+1) || p.Height != 2 || p.Off != 0 {
			t.Errorf("sample %d: %+v", i, p)
		}
	}
	shards, err := c.Shards(t.Context(), source(t, dir))
	if err != nil || strings.Join(c.Classes(shards), ",") != strings.Join(want.Classes, ",") {
		t.Errorf("classes %v, %v; want %v", c.Classes(shards), err, want.Classes)
	}
}

// TestManyFiles crosses from one batch of reads to the next.
func TestManyFiles(t *testing.T) {
	var names []string
	for i := range together + 3 {
		names = append(names, string(rune('a'+i/26))+string(rune('a'+i%26))+".png")
	}
	got, _, err := foreigntest.Read(t.Context(), New(Options{}), source(t, tree(t, names...)))
	if err != nil || len(got) != len(names) {
		t.Fatalf("%d samples, %v", len(got), err)
	}
	for i, s := range got {
		if s.Key != names[i] || s.Scalars != nil {
			t.Errorf("sample %d: %q, %v", i, s.Key, s.Scalars)
		}
	}
}

// TestGroups: files of one name up to the first dot are one sample, wherever they come among the others.
func TestGroups(t *testing.T) {
	dir := tree(t, "v1.0/a.png", "v1.0/a.txt", "v1.0/a.d/x.png", "v1.0/b.PNG", "v1.0/b.txt", "v1.0/b.seg.png", "v1.0/a.cls", "v1.0/README", ".hidden/c.png", "c.txt")
	c := New(Options{Group: true})
	got, warnings, err := foreigntest.Read(t.Context(), c, source(t, dir))
	if err != nil || len(warnings) != 1 {
		t.Fatalf("%v, warnings %q", err, warnings)
	}
	var said []string
	for _, s := range got {
		said = append(said, s.Key)
		for _, f := range []string{"cls", "png", "seg_png", "txt"} {
			if p, ok := s.Parts[f]; ok {
				said = append(said, f+"="+p.File)
			}
		}
	}
	want := "c txt=c.txt v1.0/a cls=v1.0/a.cls png=v1.0/a.png txt=v1.0/a.txt v1.0/a.d/x png=v1.0/a.d/x.png v1.0/b png=v1.0/b.PNG seg_png=v1.0/b.seg.png txt=v1.0/b.txt"
	if strings.Join(said, " ") != want {
		t.Errorf("%s\nwant %s", strings.Join(said, " "), want)
	}
	a := got[1]
	if a.Scalars["cls"] != (binfmt.Value{Kind: binfmt.Int64, Int: 7}) || a.Scalars["txt"].Str != "v1.0/a.txt" || len(c.Defaults()) == 0 {
		t.Errorf("scalars %v", a.Scalars)
	}
}

// TestRefused: what would give other samples than one thinks is an error that names it.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		o     Options
		files []string
		names []string
		words string
	}{
		"a file beside classes":   {Options{}, []string{"cat/1.png", "x.png"}, nil, `"x.png" lies beside`},
		"an empty class":          {Options{}, []string{"cat/1.png", "dog/.x"}, nil, `"dog" has no files`},
		"an empty file":           {Options{}, []string{"cat/1.png", "cat/2"}, nil, "cat/2: the file is empty"},
		"no picture":              {Options{}, []string{"cat/1.png", "cat/2.txt"}, nil, "cat/2.txt: the content is of no known media type"},
		"only what is no picture": {Options{Policy: foreign.AsPeer}, []string{"cat/2.txt"}, nil, "no file is left"},
		"nothing":                 {Options{}, []string{".x/1.png"}, nil, "no files (1 hidden"},
		"other classes":           {Options{}, []string{"a/cat/1.png", "b/dog/1.png"}, []string{"/a", "/b"}, "the class folders are"},
		"a field twice":           {Options{Group: true}, []string{"1.png", "1.PNG"}, nil, `field "png"`},
		"no groups":               {Options{Group: true}, []string{"README"}, nil, "no file has a name with a dot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := foreigntest.Read(t.Context(), New(c.o), source(t, tree(t, c.files...), c.names...))
			if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}
	if shards, err := New(Options{}).Shards(t.Context(), source(t, tree(t, "a.png"), "/a.png")); shards != nil || err != nil {
		t.Errorf("a file: %v, %v", shards, err)
	}
}

// TestAsPeer: files that ImageFolder would not take are left out, and named.
func TestAsPeer(t *testing.T) {
	got, warnings, err := foreigntest.Read(t.Context(), New(Options{Policy: foreign.AsPeer}), source(t, tree(t, "cat/1.png", "cat/Thumbs.db", "cat/empty")))
	if err != nil || len(got) != 1 || len(warnings) != 2 || !strings.Contains(warnings[0], "cat/Thumbs.db") {
		t.Errorf("%d samples, %q, %v", len(got), warnings, err)
	}
}

// TestTooManyFiles: the files of all folders are counted, hidden ones left out, and one too many is refused while they are listed.
func TestTooManyFiles(t *testing.T) {
	dir := tree(t, "a/x/1.png", "a/x/.hidden.png", "a/y/2.png", "b/x/3.png", "b/y/4.png")
	src := source(t, dir, "/a", "/b")
	c := New(Options{})
	c.most = 4
	if shards, err := c.Shards(t.Context(), src); err != nil || len(shards) != 2 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	c.most = 3
	_, err := c.Shards(t.Context(), src)
	if !errors.Is(err, foreign.ErrContainer) || !strings.Contains(err.Error(), "/b: at ") || !strings.Contains(err.Error(), "more than 3 files") {
		t.Errorf("%v, want that /b has too many", err)
	}
}
