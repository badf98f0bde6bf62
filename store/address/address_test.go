package address

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string, o Options) *Place {
	t.Helper()
	p, err := Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// TestFolders: all ways to write a folder lead to the same file, and back.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	odd := "a b%41\u00e9"
	must(t, os.WriteFile(filepath.Join(root, odd), []byte("found"), 0o600))
	escaped := "a%20b%2541%C3%A9" // as RFC 8089 has it, and pathlib.Path.as_uri
	for _, url := range []string{root + "/" + odd, "dir://" + root + "/" + odd, "file://" + root + "/" + escaped, "file://localhost" + root + "/" + escaped} {
		p := open(t, url, Options{})
		if got := storetest.Get(t, p.Store, p.Name); string(got) != "found" {
			t.Errorf("%s: %q", url, got)
		}
		if back := p.Store.Address(p.Name); back != root+"/"+odd {
			t.Errorf("%s is %s again", url, back)
		}
		if p.Simulated {
			t.Errorf("%s is simulated", url)
		}
	}
}

// TestRoot: one store has one root in all ways to write its address, and two have two, also if both are written alike.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/data", "b/data"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, os.Symlink(dir+"/a", dir+"/link"))
	t.Chdir(dir + "/a")
	root := open(t, "data", Options{}).Root()
	for _, url := range []string{"./data/", "../a/data", dir + "/a/data", dir + "/link/data", "file://" + dir + "/a/data/", "dir://" + dir + "/link/data"} {
		if got := open(t, url, Options{}).Root(); got != root {
			t.Errorf("%s is %s, not %s", url, got, root)
		}
	}
	t.Chdir(dir + "/b")
	if got := open(t, "data", Options{}).Root(); got == root {
		t.Errorf("another store is %s too", got)
	}
}

// TestWhole: a folder that nothing marks is one of the whole file system, and links lead out of it.
func TestWhole(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "set"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "file"), []byte("found"), 0o600))
	must(t, os.Symlink("../file", filepath.Join(root, "set", "link")))
	must(t, os.Symlink(root+"/file", filepath.Join(root, "set", "absolute")))
	must(t, os.Symlink(root+"/set", filepath.Join(root, "folder")))
	for _, url := range []string{root + "/set", "dir://" + root + "/set", "file://" + root + "/set/"} {
		p := open(t, url, Options{Whole: true})
		if p.Name != root+"/set" || p.Store.Address(p.Name) != root+"/set" {
			t.Errorf("%s is %s, %s", url, p.Name, p.Store.Address(p.Name))
		}
		if got := storetest.Get(t, p.Store, p.Name+"/link"); string(got) != "found" {
			t.Errorf("%s: %q", url, got)
		}
		if infos, err := p.Store.List(t.Context(), p.Name); err != nil || len(infos) < 2 || infos[0].Size != 5 || infos[1].Size != 5 {
			t.Errorf("%s: it lists %v, %v", url, infos, err)
		}
		storetest.Put(t, p.Store, root+"/folder/new/file", []byte("written"))
		if got := storetest.Get(t, p.Store, p.Name+"/new/file"); string(got) != "written" {
			t.Errorf("%s: %q was written through a link", url, got)
		}
		must(t, p.Store.Remove(t.Context(), p.Name+"/new/file"))
	}
	if p := open(t, root+"/set", Options{}); p.Name != "/" {
		t.Errorf("without it the name is %s", p.Name)
	}
	must(t, dir.Init(root, dir.Topology{Nodes: []dir.Node{{Name: "dn1"}}}))
	if p := open(t, root+"/set", Options{Whole: true}); p.Name != "/set" {
		t.Errorf("in a folder that is marked the name is %s", p.Name)
	}
}

func TestNodes(t *testing.T) {
	root := t.TempDir()
	must(t, dir.Init(root, dir.Topology{Nodes: []dir.Node{{Name: "dn1"}, {Name: "dn2"}}}))
	p, err := Open(t.Context(), root, Options{Node: "dn2"})
	must(t, err)
	defer p.Close()
	if p.Node != "dn2" || !p.Simulated {
		t.Errorf("%+v", p)
	}
	if _, err := Open(t.Context(), root, Options{Node: "dn9"}); !errors.Is(err, dir.ErrNode) {
		t.Errorf("a node that is not there: %v", err)
	}
}

// TestRefused: each mistake is named, with what would be right.
func TestRefused(t *testing.T) {
	for url, want := range map[string]string{
		"s3://bucket/photos": "no store has the scheme s3",
		"stepahead://ns/a":   "stepahead:// is for fsspec alone: write hdfs://cluster/path",
		"://x":               "scheme",
		"file://host/photos": "file:///absolute/path",
		"file:///photos%2":   "%25",
		"file:/photos":       "file:///photos",
		"dir:/photos":        "dir:///photos",
		"hdfs:/ns/photos":    "has joined slashes, the text hdfs://ns/photos",
		"dir://photos":       "dir:///absolute/path",
		"":                   "empty",
		"/a\x00b":            "NUL",
	} {
		_, err := Open(t.Context(), url, Options{})
		if !errors.Is(err, store.ErrName) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "pho tos"), 0o755))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(root, link))
	p := open(t, root, Options{})
	wantResolved(t, p, map[string]string{
		root: "/", root + "/pho tos": "/pho tos", "dir://" + root + "/pho tos": "/pho tos", link + "/pho tos": "/pho tos",
		"file://" + root + "/pho%20tos": "/pho tos", "file://h" + root: "",
		root + "/../x": "", "photos": "", "s3://ns/photos": "", "dir://photos": "", "/": "",
	})
}

// wantResolved: URLs mean these names in a store; "" stands for an error.
func wantResolved(t *testing.T, p *Place, names map[string]string) {
	t.Helper()
	for url, want := range names {
		got, err := p.Resolve(url)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Resolve(%s) = %q, %v, want %q", url, got, err, want)
		}
	}
}
