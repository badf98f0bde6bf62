package loader

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// TestOverwrittenBin: a bin that is overwritten under a running loader is an error that names both versions,
// again and again, and no sample of the new version is delivered.
func TestOverwrittenBin(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	o := k.options(t)
	o.GlobalBatch, o.Prefetch = 4, 1
	l := mustOpen(t, o)
	take(t, l, 1)
	name := "/data/" + k.bins[0].DataName()
	was, err := k.store.Stat(t.Context(), name)
	must(t, err)
	file := filepath.Join(k.root, name)
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(data, 0), 0o644)) // in place: the open file is the new version
	now, err := k.store.Stat(t.Context(), name)
	must(t, err)
	if b, err := l.Next(t.Context()); err == nil {
		b.Release() // was being built
	}
	for range 3 {
		_, err := l.Next(t.Context())
		var changed *store.IdentityError
		if !errors.As(err, &changed) || changed.Pinned != was.Identity || changed.Now != now.Identity || !strings.Contains(err.Error(), "identity changed") {
			t.Fatalf("%v, want both %s and %s", err, was.Identity, now.Identity)
		}
	}
}

// TestReplacedBin: a bin that was closed in between, and is another file when it is opened again, is refused
// even though header and content are the same.
func TestReplacedBin(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	d, err := openDataset(t.Context(), k.store, "/data", "")
	must(t, err)
	defer func() { must(t, d.close()) }()
	h, err := d.acquire(t.Context(), 0)
	must(t, err)
	d.bins.Forget(h)
	d.bins.Release(h)
	file := filepath.Join(k.root, d.binName(0))
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file+".copy", data, 0o644))
	rename(t, file+".copy", file)
	var changed *store.IdentityError
	if _, err := d.acquire(t.Context(), 0); !errors.As(err, &changed) || changed.Name != file {
		t.Errorf("opened again: %v", err)
	}
}

// farsighted learns of files ahead, and notes of which.
type farsighted struct {
	store.Store
	mu    sync.Mutex
	calls [][]string
	opens map[string]int
}

func (s *farsighted) Prefetch(_ context.Context, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, names)
	return errors.New("not today") // which must not matter
}

func (s *farsighted) Forget([]string) {}

func (s *farsighted) Open(ctx context.Context, name string) (store.File, error) {
	s.mu.Lock()
	s.opens[name]++
	s.mu.Unlock()
	return s.Store.Open(ctx, name)
}

func (s *farsighted) ReadStats() store.ReadStats { return store.ReadStats{Wire: 77} }

// TestBinsAreLearnedAhead: the store is told of a step's bins in one call, of each bin once, and is not asked
// any more when all are open.
func TestBinsAreLearnedAhead(t *testing.T) {
	k := newKit(t, 40, 2, nil) // 20 bins
	far := &farsighted{Store: k.store, opens: map[string]int{}}
	o := k.options(t)
	o.Store, o.GlobalBatch, o.Prefetch, o.CacheDir = far, 20, 1, t.TempDir()
	l := mustOpen(t, o)
	for range 3 {
		epoch(t, l)
	}
	if reads := l.Stats().Reads; reads == nil || reads.Wire != 77 {
		t.Errorf("the store's counts are %+v", reads)
	}
	must(t, l.Close())
	var all []string
	for _, names := range far.calls {
		all = append(all, names...)
	}
	slices.Sort(all)
	if len(far.calls) > 2 || len(slices.Compact(all)) != 20 || len(all) != 20 {
		t.Errorf("%d calls of %d names", len(far.calls), len(all))
	}
	for name, n := range far.opens {
		if n != 1 && strings.HasSuffix(name, ".bin") {
			t.Errorf("%s was opened %d times", name, n)
		}
	}
}
