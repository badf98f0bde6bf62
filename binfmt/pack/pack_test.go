package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/store/dir"
)

// dataset opens a packed dataset of a local store for reading.
func dataset(t testing.TB, m *binfmt.Manifest, root string) *binfmt.Dataset {
	t.Helper()
	d := binfmt.NewDataset(m, func(_ context.Context, bin int) (binfmt.LocalIndex, error) {
		return binfmt.LocalIndex{Path: filepath.Join(root, "set", m.Bins[bin].IndexName())}, nil
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// readAll reads every sample's media and compares it with its source file.
func readAll(t testing.TB, m *binfmt.Manifest, root, source string) (keys []string) {
	t.Helper()
	d := dataset(t, m, root)
	bins := make([][]byte, len(m.Bins))
	for i, b := range m.Bins {
		var err error
		if bins[i], err = os.ReadFile(filepath.Join(root, "set", b.DataName())); err != nil {
			t.Fatal(err)
		}
	}
	for s := range uint64(m.Samples()) {
		key, err := d.Key(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Part(context.Background(), s, m.Fields[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(key)))
		if err != nil {
			t.Fatal(err)
		}
		got := bins[p.Bin][p.Off : p.Off+p.Len]
		if string(got) != string(want) || p.Check(got) != nil {
			t.Fatalf("sample %d (%s): other bytes than the source", s, key)
		}
		keys = append(keys, key)
	}
	return keys
}

func TestPackFolder(t *testing.T) {
	source := photos(t, 40)
	put(t, source, ".DS_Store", []byte("x"))
	put(t, source, "cat/.hidden", []byte("x"))
	put(t, source, ".git/config", []byte("x"))
	st, root := openDir(t)
	report := new(Report)
	m := mustPack(t, Folder{Root: source}, st, Options{Workers: 3, BinSize: 8 << 10, BlockSize: 1024, Report: report})
	if report.Hidden != 3 || report.Already || len(report.Skipped) != 0 {
		t.Errorf("report %+v", report)
	}
	if m.Samples() != 40 || len(m.Bins) < 3 || !slices.Equal(m.Classes, []string{"cat", "dog", "eel"}) {
		t.Fatalf("manifest %+v", m)
	}
	keys := readAll(t, m, root, source)
	if !slices.IsSorted(keys) {
		t.Errorf("samples are not in the order of their keys: %q", keys)
	}
	d := dataset(t, m, root)
	for s, key := range keys {
		label, err := d.Scalar(context.Background(), uint64(s), "label")
		if err != nil || m.Classes[label.Int] != strings.Split(key, "/")[0] {
			t.Errorf("%s: label %v, %v", key, label, err)
		}
		p, err := d.Part(context.Background(), uint64(s), "image")
		if err != nil || p.Height != 16 || p.Width < 20 || p.Width > 28 {
			t.Errorf("%s: %+v, %v", key, p, err)
		}
		var i int
		fmt.Sscanf(key[4:], "%d.jpg", &i)
		if want := map[bool]string{true: "image/png", false: "image/jpeg"}[i%4 == 3]; p.Type != want {
			t.Errorf("%s is %s by its content, the index says %s", key, want, p.Type)
		}
	}
	clean(t, st)
	for name := range drafttest.Tree(t, root) {
		if strings.Contains(name, "stepahead-") {
			t.Errorf("%s is left", name)
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "set", binfmt.ManifestName))
	if err != nil || string(data) != string(m.Canonical()) {
		t.Errorf("the manifest on disk is not the canonical one: %v", err)
	}
}

// TestPackAlignment: a part that fits into a block lies in one.
func TestPackAlignment(t *testing.T) {
	source := photos(t, 60)
	put(t, source, "cat/large.jpg", append(picture(t, 10, 10, 1, false), make([]byte, 5000)...))
	st, root := openDir(t)
	const block = 2048
	m := mustPack(t, Folder{Root: source}, st, Options{BlockSize: block, BinSize: 20_000})
	d := dataset(t, m, root)
	end, bin, large := int64(0), -1, 0
	for s := range uint64(m.Samples()) {
		p, err := d.Part(context.Background(), s, "image")
		if err != nil {
			t.Fatal(err)
		}
		if p.Bin != bin {
			end, bin = binfmt.HeaderSize, p.Bin
		}
		if p.Off%binfmt.Alignment != 0 || p.Off < end {
			t.Errorf("sample %d: offset %d after %d", s, p.Off, end)
		}
		if p.Len > block {
			large++
		} else if p.Off/block != (p.Off+p.Len-1)/block {
			t.Errorf("sample %d straddles a block: offset %d, length %d", s, p.Off, p.Len)
		}
		end = p.Off + p.Len
		if size := m.Bins[p.Bin].Bytes; size > 20_000+5_000 || end > size {
			t.Errorf("bin %d has %d bytes", p.Bin, size)
		}
	}
	if large != 1 {
		t.Errorf("%d large parts, want 1", large)
	}
	clean(t, st)
}

// TestPackIsDeterministic: workers do not show in the result.
func TestPackIsDeterministic(t *testing.T) {
	source := photos(t, 50)
	var want map[string]string
	for _, workers := range []int{1, 2, 7} {
		st, root := openDir(t)
		o := Options{Workers: workers, BinSize: 10_000}
		o.testing.chunk = workers
		mustPack(t, Folder{Root: source}, st, o)
		got := drafttest.Tree(t, root)
		if want != nil {
			sameTree(t, got, want)
		}
		want = got
	}
}

func TestPackTwice(t *testing.T) {
	source := photos(t, 20)
	st, root := openDir(t)
	o := Options{BinSize: 5_000}
	first := mustPack(t, Folder{Root: source}, st, o)
	before := drafttest.Tree(t, root)

	report := new(Report)
	o.Report = report
	if again := mustPack(t, Folder{Root: source}, st, o); !report.Already || again.Identity() != first.Identity() {
		t.Fatalf("packed again: %+v", report)
	}
	sameTree(t, drafttest.Tree(t, root), before)

	// A bin that was lost since is made again.
	if err := os.Remove(filepath.Join(root, "set", first.Bins[1].DataName())); err != nil {
		t.Fatal(err)
	}
	mustPack(t, Folder{Root: source}, st, o)
	sameTree(t, drafttest.Tree(t, root), before)

	// Another dataset is not replaced unless asked for, and then leaves nothing behind.
	put(t, source, "cat/new.jpg", picture(t, 9, 9, 9, false))
	o.Report = nil
	_, err := Pack(context.Background(), Folder{Root: source}, st, "/set", o)
	if !errors.Is(err, ErrExists) {
		t.Fatalf("error %v, want ErrExists", err)
	}
	words(t, err, "--force", "/set/dataset.json")
	if got := drafttest.Tree(t, root); got["set/dataset.json"] != before["set/dataset.json"] {
		t.Fatal("the old dataset was touched")
	}
	clean(t, st)
	o.Force = true
	second := mustPack(t, Folder{Root: source}, st, o)
	clean(t, st)
	if n := len(drafttest.Tree(t, root)); n != 2*len(second.Bins)+1 {
		t.Errorf("%d files, want %d: %q", n, 2*len(second.Bins)+1, drafttest.Names(drafttest.Tree(t, root)))
	}
}

func TestPackRefusesFolders(t *testing.T) {
	good := picture(t, 8, 8, 1, false)
	for name, c := range map[string]struct {
		make func(root string)
		want error
		says []string
	}{
		"nothing":              {func(string) {}, ErrSource, []string{"no files to pack"}},
		"a file beside class":  {func(r string) { put(t, r, "a/1.jpg", good); put(t, r, "2.jpg", good) }, ErrSource, []string{`"2.jpg"`, `"a/1.jpg"`, "beside class folders"}},
		"an empty class":       {func(r string) { put(t, r, "a/1.jpg", good); os.Mkdir(filepath.Join(r, "b"), 0o755) }, ErrSource, []string{`"b" has no files`}},
		"a zero-length file":   {func(r string) { put(t, r, "1.jpg", good); put(t, r, "2.jpg", nil) }, ErrSource, []string{`2.jpg" is empty`, "--skip-bad"}},
		"HTML under .jpg":      {func(r string) { put(t, r, "1.jpg", good); put(t, r, "2.jpg", []byte("<html>")) }, ErrSource, []string{`2.jpg" is of no known media type`}},
		"a newline in a name":  {func(r string) { put(t, r, "1\n.jpg", good) }, ErrSource, []string{`"1\n.jpg"`, "newline", "rename"}},
		"a name not in UTF-8":  {func(r string) { put(t, r, "\xff.jpg", good) }, ErrSource, []string{`"\xff.jpg"`, "UTF-8"}},
		"a link to a folder":   {func(r string) { put(t, r, "1.jpg", good); os.Symlink("/", filepath.Join(r, "l")) }, ErrSource, []string{"link to a folder"}},
		"a link to nothing":    {func(r string) { put(t, r, "1.jpg", good); os.Symlink("none", filepath.Join(r, "l.jpg")) }, ErrSource, []string{"l.jpg", "link to nothing"}},
		"a pipe":               {func(r string) { put(t, r, "1.jpg", good); syscall.Mkfifo(filepath.Join(r, "p"), 0o600) }, ErrSource, []string{"neither a file nor a folder"}},
		"a file instead":       {func(r string) { os.Remove(r); put(t, filepath.Dir(r), filepath.Base(r), good) }, ErrSource, []string{"not a folder"}},
		"a folder not there":   {func(r string) { os.Remove(r) }, fs.ErrNotExist, nil},
		"nothing but bad ones": {func(r string) { put(t, r, "1.jpg", nil) }, ErrSource, []string{"1.jpg"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "source")
			if err := os.Mkdir(source, 0o755); err != nil {
				t.Fatal(err)
			}
			c.make(source)
			st, root := openDir(t)
			_, err := Pack(context.Background(), Folder{Root: source}, st, "/set", Options{})
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			words(t, err, c.says...)
			if _, err := os.Stat(filepath.Join(root, "set", binfmt.ManifestName)); err == nil {
				t.Fatal("there is a manifest")
			}
		})
	}
}

// TestPackRefusesFields: a media field that cannot be one is refused before any file is read.
func TestPackRefusesFields(t *testing.T) {
	source := photos(t, 2)
	for field, says := range map[string]string{"label": `"label" occurs twice`, "a.b": "dot", "a\nb": "unprintable", "key": "taken"} {
		st, _ := openDir(t)
		scanned := false
		_, err := Pack(context.Background(), Folder{Root: source, Field: field}, st, "/set", Options{Progress: func(Progress) { scanned = true }})
		if !errors.Is(err, ErrSource) || scanned {
			t.Errorf("field %q: error %v, want ErrSource; files were read: %t", field, err, scanned)
		}
		words(t, err, says)
	}
}

func TestPackSkipBad(t *testing.T) {
	source := photos(t, 5)
	put(t, source, "cat/empty.jpg", nil)
	put(t, source, "cat/page.jpg", []byte("<html></html>"))
	put(t, source, "dog/notes.txt", []byte("notes"))
	os.Symlink(filepath.Join(source, "cat/0000.jpg"), filepath.Join(source, "cat/link.jpg"))
	st, _ := openDir(t)
	report := new(Report)
	m := mustPack(t, Folder{Root: source}, st, Options{SkipBad: true, Report: report})
	if m.Samples() != 6 || len(report.Skipped) != 3 || !strings.Contains(strings.Join(report.Skipped, " "), "notes.txt") {
		t.Fatalf("%d samples, skipped %q", m.Samples(), report.Skipped)
	}
	clean(t, st)
}

func TestPackInsideItsSource(t *testing.T) {
	st, root := openDir(t)
	put(t, root, "a/1.jpg", picture(t, 8, 8, 1, false))
	_, err := Pack(context.Background(), Folder{Root: root}, st, "/a/deep/set", Options{})
	words(t, err, "lies inside the source")
}

// TestPackSimulatedStore: without options the blocks are the store's, and a part lies in one of them.
func TestPackSimulatedStore(t *testing.T) {
	root := t.TempDir()
	topology := dir.Topology{BlockSize: 2048, Replication: 2}
	for _, name := range []string{"a", "b", "c"} {
		topology.Nodes = append(topology.Nodes, dir.Node{Name: name})
	}
	if err := dir.Init(root, topology); err != nil {
		t.Fatal(err)
	}
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := mustPack(t, Folder{Root: photos(t, 40)}, st, Options{})
	d := dataset(t, m, root)
	blocks := make(map[int64]bool)
	for s := range uint64(m.Samples()) {
		p, err := d.Part(context.Background(), s, "image")
		if err != nil {
			t.Fatal(err)
		}
		where, err := st.Locate(context.Background(), "/set/"+m.Bins[p.Bin].DataName(), p.Off, p.Len)
		if err != nil || len(where) != 2 {
			t.Fatalf("sample %d is in %+v, %v: want one block on two nodes", s, where, err)
		}
		blocks[where[0].Off] = true
	}
	if len(blocks) < 5 {
		t.Errorf("all in %d blocks", len(blocks))
	}
	clean(t, st)
}

func TestOptionsValidate(t *testing.T) {
	err := Options{Workers: -1, BlockSize: 1000, BinSize: -1}.Validate()
	words(t, err, "Workers is -1", "a block has 1000 bytes", "a bin has -1 bytes")
}
