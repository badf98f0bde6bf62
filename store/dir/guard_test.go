package dir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// TestLinksInMetaFolder: nothing is removed, renamed, written or let open through a symbolic link in .stepahead, wherever on the way it is; the link itself can go.
func TestLinksInMetaFolder(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(root, "users", "ada", "thesis")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Dir(victim), 0o755))
	must(os.MkdirAll(filepath.Join(root, metaDir, "agents"), 0o755))
	must(os.WriteFile(victim, []byte("years"), 0o600))
	must(os.Symlink("../users/ada", filepath.Join(root, metaDir, "data")))
	must(os.Symlink("../users", filepath.Join(root, metaDir, "deep")))
	s, _, err := Open(root, Options{})
	must(err)
	defer s.Close()
	ctx := t.Context()
	for what, err := range map[string]error{
		"remove":           s.Remove(ctx, "/.stepahead/data/thesis"),
		"remove deeper":    s.Remove(ctx, "/.stepahead/deep/ada/thesis"),
		"rename from":      s.Rename(ctx, "/.stepahead/data/thesis", "/mine"),
		"rename over":      s.Rename(ctx, "/.stepahead/agents", "/.stepahead/data/agents"),
		"create":           store.ReplaceFile(ctx, s, "/.stepahead/data/new", nil),
		"replace":          store.ReplaceFile(ctx, s, "/.stepahead/data/thesis", nil),
		"make a folder":    s.MakeFolder(ctx, "/.stepahead/data/x/y"),
		"let everybody in": s.Protect(ctx, "/.stepahead/data/thesis", store.Access{Mode: 0o777}),
	} {
		if !errors.Is(err, store.ErrName) {
			t.Errorf("%s: %v", what, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(victim))
	info, stated := os.Stat(victim)
	if err != nil || stated != nil || len(entries) != 1 || info.Mode() != 0o600 || info.Size() != 5 {
		t.Errorf("there are %v, %v", entries, errors.Join(err, stated))
	}
	must(s.Remove(ctx, "/.stepahead/data"))
	if _, err := os.Lstat(victim); err != nil {
		t.Error(err)
	}
}
