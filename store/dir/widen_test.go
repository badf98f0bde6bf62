package dir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

func TestWiden(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "shards/a.tar"))
	set := filepath.Join(root, "sets/one")
	if err := Widen(set, filepath.Join(root, "shards/a.tar"), filepath.Join(root, "shards")); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{"", "dataset.json", "deep/er"} {
		st, name, err := Open(filepath.Join(set, inside), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if st.Root() != root || name != filepath.Join("/sets/one", inside) {
			t.Errorf("%q: root %s, name %s", inside, st.Root(), name)
		}
		if _, err := st.Stat(t.Context(), "/shards/a.tar"); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"/", "../x", "../..\nmore", ""} {
		if err := os.WriteFile(filepath.Join(set, rootFile), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := findRoot(set, false); got != set {
			t.Errorf("%q is taken for a root: %s", bad, got)
		}
	}
	if err := Widen(filepath.Join(root, "shards/in"), filepath.Join(root, "shards")); err != nil || findRoot(filepath.Join(root, "shards/in"), true) != filepath.Join(root, "shards") {
		t.Errorf("inside: %v", err)
	}
}

// TestWidenKeepsStores: a store that has a topology stays what it is.
func TestWidenKeepsStores(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "outside/a.tar"))
	if err := Init(filepath.Join(root, "store"), Topology{Nodes: []Node{{Name: "n", Rack: "/r"}}}); err != nil {
		t.Fatal(err)
	}
	set := filepath.Join(root, "store/set")
	if err := Widen(set, filepath.Join(root, "outside/a.tar")); !errors.Is(err, store.ErrName) {
		t.Errorf("a source outside of the store: %v", err)
	}
	if err := Widen(set, filepath.Join(root, "store/shards")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(set, rootFile)); err == nil {
		t.Error("a root was written into a store that has one")
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}
