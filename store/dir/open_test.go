package dir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

func write(t testing.TB, parts ...string) {
	t.Helper()
	path := filepath.Join(parts[:len(parts)-1]...)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(parts[len(parts)-1]), 0o644))
}

func TestOpenFindsTheRoot(t *testing.T) {
	base := t.TempDir()
	must(t, dir.Init(filepath.Join(base, "cluster"), cluster()))
	write(t, base, "cluster/photos/deep/a.bin", "a")
	write(t, base, "plain/photos/a.bin", "a")
	for _, c := range []struct{ url, root, name string }{
		{"cluster", "cluster", "/"},
		{"cluster/photos", "cluster", "/photos"},
		{"cluster/photos/deep/a.bin", "cluster", "/photos/deep/a.bin"},
		{"cluster/not/yet", "cluster", "/not/yet"},
		{"plain", "plain", "/"},
		{"plain/photos", "plain/photos", "/"},
		{"plain/photos/", "plain/photos", "/"},
		{"plain/photos/a.bin", "plain/photos", "/a.bin"},
		{"plain/not/yet", "plain", "/not/yet"},
	} {
		for _, url := range []string{base + "/" + c.url, "dir://" + base + "/" + c.url} {
			s, name, err := dir.Open(url, dir.Options{})
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			if want := filepath.Join(base, c.root); s.Root() != want || name != c.name {
				t.Errorf("%s: root %s, name %s; want %s, %s", url, s.Root(), name, want, c.name)
			}
			s.Close()
		}
	}
	t.Chdir(filepath.Join(base, "plain"))
	s, name, err := dir.Open("photos", dir.Options{})
	if err != nil || name != "/" || s.Root() != filepath.Join(base, "plain/photos") {
		t.Errorf("a relative path: %v, %s, %v", s, name, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	root := t.TempDir()
	must(t, dir.Init(root, cluster()))
	for _, url := range []string{"", "hdfs://ns/photos", "s3://b/k", "dir://host/path", "dir://", "a\x00b"} {
		if _, _, err := dir.Open(url, dir.Options{}); !errors.Is(err, store.ErrName) {
			t.Errorf("%q: %v, want ErrName", url, err)
		}
	}
	_, _, err := dir.Open(root, dir.Options{Node: "dn9"})
	if err == nil || !strings.Contains(err.Error(), "dn1, dn2") {
		t.Errorf("an unknown node: %v, want the known ones named", err)
	}
}

func TestLinksThatLeaveTheRoot(t *testing.T) {
	base := t.TempDir()
	write(t, base, "outside/secret", "secret")
	write(t, base, "root/inside/f", "inside")
	root := filepath.Join(base, "root")
	for link, target := range map[string]string{
		"abs": filepath.Join(base, "outside/secret"), "rel": "../outside/secret", "folder": "../outside",
		"inside/up": "../../outside", "loop": "loop", "broken": "nowhere", "fine": "inside/f", "finefolder": "inside",
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	s := open(t, root, dir.Options{})
	for _, name := range []string{"/abs", "/rel", "/folder/secret", "/inside/up/secret", "/folder"} {
		if f, err := s.Open(t.Context(), name); err == nil || store.ClassOf(err) != store.Permanent || !errors.Is(err, store.ErrName) {
			t.Errorf("Open %s: %v, %v; want ErrName", name, f, err)
		}
		if _, err := s.Stat(t.Context(), name); !errors.Is(err, store.ErrName) {
			t.Errorf("Stat %s: %v, want ErrName", name, err)
		}
		if path, ok := s.LocalPath(name); ok {
			t.Errorf("LocalPath %s: %s", name, path)
		}
	}
	if _, err := s.List(t.Context(), "/folder"); !errors.Is(err, store.ErrName) {
		t.Errorf("List of a folder outside: %v", err)
	}
	for _, name := range []string{"/folder/new", "/inside/up/new"} {
		if w, err := s.Create(t.Context(), name); err == nil {
			w.Close()
			t.Errorf("Create %s went outside", name)
		}
		if err := s.Rename(t.Context(), "/inside/f", name); err == nil {
			t.Errorf("Rename to %s went outside", name)
		}
	}
	if got := string(storetest.Get(t, s, "/finefolder/f")) + string(storetest.Get(t, s, "/fine")); got != "insideinside" {
		t.Errorf("links inside the root give %q", got)
	}
	infos, err := s.List(t.Context(), "/")
	if err != nil || len(infos) != 8 {
		t.Fatalf("List: %+v, %v; want all 8 entries, broken links included", infos, err)
	}
	for _, i := range infos {
		if refused := i.Identity == "" && !i.Dir; refused == (i.Name == "/fine" || i.Name == "/finefolder" || i.Name == "/inside") {
			t.Errorf("List shows %+v", i)
		}
	}
	if _, err := os.Stat(filepath.Join(base, "outside/new")); err == nil {
		t.Error("a file was written outside the root")
	}
}

// Opening a pipe must not wait for a writer that never comes.
func TestSpecialFiles(t *testing.T) {
	root := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	s := open(t, root, dir.Options{})
	if _, err := s.Open(t.Context(), "/pipe"); store.ClassOf(err) != store.Permanent {
		t.Errorf("Open: %v", err)
	}
	if _, err := s.List(t.Context(), "/pipe"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("List: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(root, ".stepahead"), 0o755))
	must(t, syscall.Mkfifo(filepath.Join(root, ".stepahead", "root"), 0o644))
	open(t, root, dir.Options{})
	if _, err := s.Stat(t.Context(), "/pipe"); store.ClassOf(err) != store.Permanent {
		t.Errorf("Stat: %v", err)
	}
}

func TestOwnFolder(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	storetest.Put(t, s, "/.stepahead/agents/dn1.json", []byte("{}"))
	infos, err := s.List(t.Context(), "/")
	if err != nil || len(infos) != 0 {
		t.Errorf("the root lists %+v, %v; want nothing", infos, err)
	}
	infos, err = s.List(t.Context(), "/.stepahead/agents")
	if err != nil || len(infos) != 1 || infos[0].Name != "/.stepahead/agents/dn1.json" {
		t.Errorf("the registry lists %+v, %v", infos, err)
	}
}

func TestReservedNames(t *testing.T) {
	s := open(t, t.TempDir(), dir.Options{})
	w, err := s.Create(t.Context(), "/f")
	must(t, err)
	defer w.Abort()
	entries, _ := os.ReadDir(s.Root())
	if len(entries) != 1 {
		t.Fatalf("while a file is written its folder holds %v", entries)
	}
	name := "/" + entries[0].Name()
	if _, err := s.Open(t.Context(), name); !errors.Is(err, store.ErrName) {
		t.Errorf("Open of a temporary file: %v, want ErrName", err)
	}
	if err := s.Remove(t.Context(), name); !errors.Is(err, store.ErrName) {
		t.Errorf("Remove of a temporary file: %v, want ErrName", err)
	}
}

func TestErrorsNameTheFileOnce(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, dir.Options{})
	_, err := s.Open(context.Background(), "/a/missing")
	if got, want := err.Error(), "dir.Open "+root+"/a/missing: no such file or directory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("it does not match fs.ErrNotExist")
	}
}
