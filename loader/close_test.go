package loader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

func TestNextHonoursContextAndKeepsThePosition(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	o := k.options(t)
	pool := &fakePool{}
	gate := make(chan struct{})
	pool.hold = func(ctx context.Context, _ uint64) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o.Runner = pool
	l := mustOpen(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	close(gate)
	equal(t, "after cancelled waits", take(t, l, 1), ids(l, 0))
	if most := pool.most.Load(); most > int64(o.Workers) {
		t.Fatalf("%d jobs at once, %d workers", most, o.Workers)
	}
}

func TestCloseInterruptsNextAndKeepsBatches(t *testing.T) {
	k := newKit(t, 40, 40, nil)
	o := k.options(t)
	pool := &fakePool{}
	o.Runner = pool
	l, err := Open(t.Context(), o)
	must(t, err)
	b, err := l.Next(t.Context())
	must(t, err)
	want := bytes.Clone(b.Fields[0].Bytes)

	held := make(chan struct{})
	l2o := k.options(t)
	l2o.Runner = &fakePool{hold: func(ctx context.Context, _ uint64) error {
		select {
		case <-held:
		default:
			close(held)
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	l2o.Workers = 1
	l2, err := Open(t.Context(), l2o)
	must(t, err)
	got := make(chan error)
	go func() {
		_, err := l2.Next(context.Background())
		got <- err
	}()
	<-held
	must(t, l2.Close())
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Fatalf("Next during Close: %v", err)
	}
	if _, err := l2.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatalf("Next after Close: %v", err)
	}

	must(t, l.Close())
	must(t, l.Close())
	if pool.closed.Load() != 1 {
		t.Fatalf("the runner was closed %d times", pool.closed.Load())
	}
	if !bytes.Equal(b.Fields[0].Bytes, want) {
		t.Fatal("a batch in use changed after Close")
	}
	b.Release()
	b.Release()
	if live, bytes := l.slabs.usage(); live != 0 || bytes != 0 {
		t.Fatalf("after the last release: %d batches, %d bytes mapped", live, bytes)
	}
}

// Wherever a loader is closed, nothing is left behind: TestMain looks for goroutines.
func TestCloseAnywhere(t *testing.T) {
	k := newKit(t, 48, 20, nil, with(7, kindBad), with(20, kindOnce))
	for n := range int64(40) {
		c := newCluster(t, k, kitNodes...)
		for i, a := range c.agents {
			a.set([]conduct{honest, rawOnly, hanging, lyingCRC, cutting}[(n+int64(i))%5])
		}
		o := c.options(t)
		o.CanaryEvery, o.testing.minWait, o.FetchDeadline = 3, 5*time.Millisecond, 5*time.Millisecond
		at := make(chan struct{})
		pool := &fakePool{}
		pool.hold = func(context.Context, uint64) error {
			if pool.runs.Load() == n {
				close(at)
			}
			return nil
		}
		o.Runner = pool
		l, err := Open(t.Context(), o)
		must(t, err)
		done := make(chan error)
		go func() {
			for {
				b, err := l.Next(context.Background())
				if errors.Is(err, ErrClosed) {
					done <- nil
					return
				}
				if err != nil && err != io.EOF {
					done <- err
					return
				}
				if err == nil {
					b.Release()
				}
			}
		}()
		if n > 0 {
			<-at
		}
		must(t, l.Close())
		must(t, <-done)
		if live, mapped := l.slabs.usage(); live != 0 || mapped != 0 {
			t.Fatalf("closed at job %d: %d mappings, %d bytes left", n, live, mapped)
		}
		nothingHeld(t, l)
		for _, a := range c.agents {
			a.kill()
		}
	}
}

// A batch in use is never written to again, and memory stays bounded.
func TestMemoryIsReusedOnlyAfterRelease(t *testing.T) {
	k := newKit(t, 80, 80, nil)
	o := k.options(t)
	o.Prefetch = 3
	l := mustOpen(t, o)
	b, err := l.Next(t.Context())
	must(t, err)
	want := bytes.Clone(b.Fields[0].Bytes)
	for range 4 {
		epoch(t, l)
	}
	if !bytes.Equal(b.Fields[0].Bytes, want) {
		t.Fatal("a batch in use was written to")
	}
	if s := l.Stats(); s.MappedBytes > int64(2*o.Prefetch+4)*slabUnit {
		t.Fatalf("%d bytes mapped for %d batches of one unit each", s.MappedBytes, o.Prefetch)
	}
	b.Release()
}
