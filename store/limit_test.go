package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
)

// still is a store of one endless file, whose calls take a second each.
type still struct {
	store.Store
	running, most atomic.Int32
}

func (s *still) Address(name string) string { return name }

func (s *still) Open(context.Context, string) (store.File, error) { return &stillFile{s: s}, nil }

type stillFile struct {
	store.File
	s *still
}

func (f *stillFile) ReadRanges(context.Context, []store.Range) error {
	n := f.s.running.Add(1)
	for old := f.s.most.Load(); n > old && !f.s.most.CompareAndSwap(old, n); old = f.s.most.Load() {
	}
	time.Sleep(time.Second)
	f.s.running.Add(-1)
	return nil
}

func TestLimitConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &still{}
		f, _ := store.Limit(inner, store.LimitOptions{Concurrency: 3}).Open(t.Context(), "/f")
		start := time.Now()
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() { f.ReadRanges(t.Context(), nil) })
		}
		wg.Wait()
		if most, took := inner.most.Load(), time.Since(start); most != 3 || took != 3*time.Second {
			t.Errorf("%d at a time, %v in all; want 3 and 3s", most, took)
		}
	})
}

func TestLimitBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := store.Limit(&still{}, store.LimitOptions{BytesPerSecond: 1 << 20}).Open(t.Context(), "/f")
		start := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { read(t.Context(), f, 0, 1<<20) })
		}
		wg.Wait()
		if took := time.Since(start) - time.Second; took < 4*time.Second-time.Millisecond || took > 4*time.Second+time.Millisecond {
			t.Errorf("4 MiB at 1 MiB/s took %v", took)
		}
	})
}

// What a call that gave up had booked must not hold up the others.
func TestLimitGivesBackWhatACancelledCallBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := store.Limit(&still{}, store.LimitOptions{BytesPerSecond: 1 << 20, Concurrency: 1}).Open(t.Context(), "/f")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := read(ctx, f, 0, 1<<30) // would take 17 minutes
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := read(t.Context(), f, 0, 1<<20); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 2100*time.Millisecond {
			t.Errorf("1 MiB after a cancelled call took %v, want 2s", took)
		}
	})
}

func TestLimitWaitForAPlaceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := store.Limit(&still{}, store.LimitOptions{Concurrency: 1}).Open(t.Context(), "/f")
		go f.ReadRanges(context.Background(), nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := f.ReadRanges(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // the first call's end
	})
}

func TestPacer(t *testing.T) {
	if p := store.NewPacer(0); p.Reserve(time.Now(), 1<<50) != 0 || p.Piece() <= 0 {
		t.Error("a link without a limit makes one wait")
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 1<<34).Draw(t, "rate")
		p := store.NewPacer(rate)
		start := time.Unix(1e9, 0)
		now, sent := start, int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "transfers") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "idle")))
			n := rapid.Int64Range(0, 1<<24).Draw(t, "bytes")
			sent += n
			wait := p.Reserve(now, n)
			alone := time.Duration(float64(n) / float64(rate) * 1e9)
			if wait < alone {
				t.Fatalf("%d bytes passed in %v, at %d/s", n, wait, rate)
			}
			done := now.Add(wait).Sub(start)
			if n > 0 && done.Seconds()*float64(rate) < float64(sent)*(1-1e-9)-float64(rate)*1e-7 {
				t.Fatalf("%d bytes were through after %v, at %d/s", sent, done, rate)
			}
		}
		if piece := p.Piece(); piece < 1024 || piece > 8<<20 {
			t.Fatalf("piece %d", piece)
		}
	})
}
