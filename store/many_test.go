package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// ableStore is a store that can do in one call what others do in many, and counts.
type ableStore struct {
	store.Store
	many, ahead, forgot int
}

func (c *ableStore) ReadMany(ctx context.Context, files []store.FileRanges) error {
	c.many++
	return store.ReadMany(ctx, c.Store, files)
}

func (c *ableStore) Prefetch(context.Context, []string) error { c.ahead++; return nil }

func (c *ableStore) Forget([]string) { c.forgot++ }

func (c *ableStore) ReadStats() store.ReadStats { return store.ReadStats{Asked: 7} }

func TestReadMany(t *testing.T) {
	plain := newDir(t)
	storetest.Put(t, plain, "/a", []byte("12345"))
	storetest.Put(t, plain, "/b", []byte("67"))
	able := &ableStore{Store: plain}
	for _, s := range []store.Store{plain, able} {
		files := []store.FileRanges{
			{File: storetest.Open(t, s, "/a"), Ranges: []store.Range{{Off: 1, Buf: make([]byte, 2)}, {Off: 4, Buf: make([]byte, 1)}}},
			{File: storetest.Open(t, s, "/b"), Ranges: []store.Range{{Off: 2, Buf: make([]byte, 1)}}, Err: errors.New("of a read before")},
			{File: storetest.Open(t, s, "/b"), Ranges: []store.Range{{Buf: make([]byte, 2)}}, Err: errors.New("of a read before")},
		}
		must(t, store.ReadMany(t.Context(), s, files))
		if a := files[0]; a.Err != nil || string(a.Ranges[0].Buf) != "23" || string(a.Ranges[1].Buf) != "5" {
			t.Errorf("the first file gave %+v", a)
		}
		if !errors.Is(files[1].Err, store.ErrRange) {
			t.Errorf("a range behind the end gave %v", files[1].Err)
		}
		if b := files[2]; b.Err != nil || string(b.Ranges[0].Buf) != "67" {
			t.Errorf("the file after a failed one gave %+v", b)
		}
	}
	if able.many != 1 {
		t.Errorf("the store was asked %d times for all files", able.many)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.ReadMany(ended, plain, make([]store.FileRanges, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// Decorators pass on what the store can do, and do nothing where it cannot.
func TestDecoratorsPassOn(t *testing.T) {
	able := &ableStore{Store: newDir(t)}
	var m store.Metrics
	for _, s := range []store.Store{store.Measure(able, &m), store.Measure(newDir(t), &m)} {
		must(t, s.(store.Prefetcher).Prefetch(t.Context(), []string{"/a"}))
		s.(store.Prefetcher).Forget([]string{"/a"})
	}
	if able.ahead != 1 || able.forgot != 1 {
		t.Errorf("prefetched %d times, forgot %d times", able.ahead, able.forgot)
	}
	storetest.Put(t, able, "/small", []byte("1"))
	files := store.Files{Store: able}
	files.ExpectFiles(t.Context(), []string{"/small"})
	if data, err := files.ReadFile(t.Context(), "/small", 1); string(data) != "1" || err != nil || able.ahead != 2 || able.forgot != 2 {
		t.Errorf("%q, %v; prefetched %d times, forgot %d times", data, err, able.ahead, able.forgot)
	}
	if got := store.Measure(able, &m).(store.ReadCounter).ReadStats(); got.Asked != 7 {
		t.Errorf("counts %+v", got)
	}
}

func TestIdentityErrorNamesBoth(t *testing.T) {
	for now, want := range map[store.Identity]string{
		"v2": "identity changed: /f: opened as v1, now v2: open it again",
		"":   "identity changed: /f: opened as v1, now there is no such file",
	} {
		err := &store.IdentityError{Name: "/f", Pinned: "v1", Now: now}
		if err.Error() != want || store.ClassOf(err) != store.IdentityChanged {
			t.Errorf("%q has class %s", err, store.ClassOf(err))
		}
	}
}
