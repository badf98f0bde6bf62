package store_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// spoil gives a node a replica of /f of its own.
func spoil(t testing.TB, s *dir.Store, node string, data []byte) {
	t.Helper()
	path := filepath.Join(s.Root(), ".stepahead/replicas", node, "f")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o644))
}

// Of indexes too: one bad node does no harm, wherever it stands among the replicas of each block; bad
// bytes everywhere are an error; and so is, of another kind, a node that is down.
func TestCacheLocalAvoidsABadNode(t *testing.T) {
	data := random(300_000) // 10 blocks on 2 nodes
	bad := make([]byte, len(data))
	for _, node := range []string{"dn1", "dn2"} {
		s := newCluster(t)
		storetest.Put(t, s, "/f", data)
		spoil(t, s, node, bad)
		wantCached(t, s, data, t.TempDir())
	}
	s := newCluster(t)
	storetest.Put(t, s, "/f", data)
	spoil(t, s, "dn1", bad)
	must(t, os.MkdirAll(filepath.Join(s.Root(), ".stepahead/down"), 0o755))
	must(t, os.WriteFile(filepath.Join(s.Root(), ".stepahead/down/dn2"), nil, 0o644))
	cache := t.TempDir()
	if _, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(data), cache); store.ClassOf(err) != store.Retryable {
		t.Errorf("one node bad, one down: %v has class %s, want retryable", err, store.ClassOf(err))
	}
	spoil(t, s, "dn2", bad)
	must(t, os.Remove(filepath.Join(s.Root(), ".stepahead/down/dn2")))
	var wrong *store.DigestError
	if _, err := store.CacheLocal(t.Context(), s, "/f", sha256.Sum256(data), cache); !errors.As(err, &wrong) {
		t.Errorf("both nodes bad: %v, want a DigestError", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}
