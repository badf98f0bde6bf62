package store_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// counter opens files that do nothing and counts them.
type counter struct {
	now, most, ever atomic.Int64
}

type countedFile struct {
	store.File
	c *counter
}

func (f *countedFile) Close() error { f.c.now.Add(-1); return nil }

func (c *counter) open(context.Context, int) (store.File, error) {
	now := c.now.Add(1)
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			break
		}
	}
	c.ever.Add(1)
	return &countedFile{c: c}, nil
}

func acquire(t *testing.T, o *store.OpenFiles, n int) *store.OpenFile {
	t.Helper()
	f, err := o.Acquire(t.Context(), n)
	must(t, err)
	return f
}

func TestOpenFilesStayBounded(t *testing.T) {
	var c counter
	unlucky := errors.New("unlucky")
	o := store.NewOpenFiles(4, func(ctx context.Context, n int) (store.File, error) {
		if n == 13 {
			return nil, unlucky
		}
		return c.open(ctx, n)
	})
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			f, err := o.Acquire(t.Context(), i%20)
			if errors.Is(err, unlucky) != (i%20 == 13) {
				t.Errorf("file %d: %v", i%20, err)
			}
			if err != nil {
				return
			}
			if rand.IntN(8) == 0 {
				o.Forget(f)
			}
			o.Release(f)
		})
	}
	wg.Wait()
	if c.most.Load() > 4 || c.now.Load() > 4 {
		t.Fatalf("%d open at once, %d now", c.most.Load(), c.now.Load())
	}
	var held []*store.OpenFile
	for n := range 4 {
		held = append(held, acquire(t, o, n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Acquire(ctx, 9); !errors.Is(err, context.Canceled) {
		t.Fatalf("no room and a cancelled context: %v", err)
	}
	for _, f := range held {
		o.Release(f)
	}
	must(t, o.Close())
	if c.now.Load() != 0 {
		t.Fatalf("%d still open", c.now.Load())
	}
	if _, err := o.Acquire(t.Context(), 1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A file is opened once for all who ask, is closed when it is the longest unused, and anew after Forget.
func TestOpenFilesAreReused(t *testing.T) {
	var c counter
	o := store.NewOpenFiles(2, c.open)
	use := func(n int, opened int64) {
		t.Helper()
		o.Release(acquire(t, o, n))
		if c.ever.Load() != opened {
			t.Fatalf("file %d: %d were opened, want %d", n, c.ever.Load(), opened)
		}
	}
	use(1, 1)
	use(2, 2)
	use(1, 2)
	use(3, 3) // in place of 2
	use(1, 3)
	use(2, 4)
	old, same := acquire(t, o, 2), acquire(t, o, 2)
	o.Forget(old)
	o.Forget(same)
	o.Release(old)
	use(2, 5) // the old one is still open for its other user
	if c.now.Load() != 2 {
		t.Errorf("%d are open, want the old and the new", c.now.Load())
	}
	o.Release(same)
	if c.now.Load() != 1 {
		t.Errorf("%d are open, want the new one", c.now.Load())
	}
	last := acquire(t, o, 2)
	must(t, o.Close())
	if c.now.Load() != 1 {
		t.Error("a file in use was closed")
	}
	o.Release(last)
	if c.now.Load() != 0 {
		t.Error("the last user left a file open")
	}
}

// One who gives up while he opens a file does not make the others fail.
func TestOpenFilesGivenUp(t *testing.T) {
	var c counter
	began := make(chan struct{})
	o := store.NewOpenFiles(2, func(ctx context.Context, n int) (store.File, error) {
		if c.ever.Load() == 0 && n == 1 {
			c.ever.Add(1)
			close(began)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return c.open(ctx, n)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := o.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("the one who gave up: %v", err)
		}
	})
	<-began
	for range 3 {
		wg.Go(func() {
			f, err := o.Acquire(t.Context(), 1)
			if err != nil {
				t.Errorf("another: %v", err)
				return
			}
			o.Release(f)
		})
	}
	cancel()
	wg.Wait()
	must(t, o.Close())
}

func TestAbsent(t *testing.T) {
	o := store.NewOpenFiles(2, func(context.Context, int) (store.File, error) { return nil, errors.New("no") })
	if got := o.Absent([]int{3, 1, 3}); !slices.Equal(got, []int{3, 1}) {
		t.Errorf("nothing is open: %v", got)
	}
	s := newDir(t)
	storetest.Put(t, s, "/f", nil)
	o = store.NewOpenFiles(2, func(ctx context.Context, _ int) (store.File, error) { return s.Open(ctx, "/f") })
	f, err := o.Acquire(t.Context(), 1)
	must(t, err)
	if got := o.Absent([]int{3, 1, 3}); !slices.Equal(got, []int{3}) {
		t.Errorf("1 is in use: %v", got)
	}
	o.Release(f)
	if got := o.Absent([]int{1}); got != nil {
		t.Errorf("1 is idle: %v", got)
	}
	must(t, o.Close())
}
