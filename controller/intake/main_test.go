package intake

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stores are the stores of a controller; sites that are not listed do not answer.
type stores struct {
	home  store.Store
	sites map[string]store.Store
}

func (s stores) Home() store.Store { return s.home }

func (s stores) Site(_ context.Context, name string) (store.Store, error) {
	if st := s.sites[name]; st != nil {
		return st, nil
	}
	return nil, store.ErrUnavailable
}

// folder is a store in a folder with files in it.
func folder(t testing.TB, files map[string]string) (store.Store, string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(root, name), text)
	}
	s, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, root
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o600))
}
