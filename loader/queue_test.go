package loader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
)

// nothingHeld fails if a step that has ended keeps something that other steps wait for.
func nothingHeld(t testing.TB, l *Loader) {
	t.Helper()
	for name, c := range map[string]struct {
		g    *gate
		want int64
	}{"turns": {l.turns, int64(l.o.Workers)}, "reads": {l.reads, maxReads}, "room": {l.room, roomFor(l.o.Workers)}} {
		if c.g.free != c.want || len(c.g.waiting) != 0 {
			t.Fatalf("%s: %d of %d places are free, %d wait", name, c.g.free, c.want, len(c.g.waiting))
		}
	}
}

// Who asks for much is not overtaken by later steps that ask for little, and no more is given out than there is.
func TestGateGivesManyPlacesAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 20).Draw(t, "size")
		g := newGate(size)
		asks := rapid.SliceOfN(rapid.Int64Range(1, size), 1, 12).Draw(t, "asks")
		if err := g.enter(t.Context(), 0, size); err != nil {
			t.Fatal(err)
		}
		in := make(chan int64, len(asks))
		for step, n := range asks {
			go func() {
				if g.enter(context.Background(), int64(step), n) == nil {
					in <- n
				}
			}()
			waitUntilRapid(t, func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return len(g.waiting) == step+1
			})
		}
		g.leave(size)
		held, free := int64(0), size
		for _, n := range asks {
			if n > free { // the next in turn waits until enough is back
				g.leave(held)
				held, free = 0, size
			}
			if got := <-in; got > size-held {
				t.Fatalf("%d of %d places are taken, and %d are given out", held, size, got)
			} else {
				held += got
			}
			free -= n
		}
		g.leave(held)
		if g.free != size || len(g.waiting) != 0 {
			t.Fatalf("%d of %d free", g.free, size)
		}
	})
}

// An earlier step that asks for little does not wait behind a later one that there is no room for.
func TestGateLetsAnEarlierStepPass(t *testing.T) {
	g := newGate(4)
	must(t, g.enter(t.Context(), 0, 3))
	late := make(chan error)
	go func() { late <- g.enter(context.Background(), 9, 2) }()
	waitUntil(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == 1
	})
	must(t, g.enter(t.Context(), 5, 1))
	g.leave(1)
	g.leave(3)
	must(t, <-late)
	g.leave(2)
	if g.free != 4 {
		t.Fatalf("%d places free", g.free)
	}
}

func waitUntilRapid(t *rapid.T, ok func() bool) {
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal("it did not happen")
		}
	}
}

// Groups are runs of one bin, within the bounds of number and bytes, and lose nothing.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 9).Draw(t, "most")
		stored := rapid.Bool()
		if rapid.Bool().Draw(t, "nothing else") {
			stored = rapid.Just(true)
		}
		var entries []*entry
		for range rapid.IntRange(1, 3*filesTogether).Draw(t, "entries") {
			entries = append(entries, &entry{stored: stored.Draw(t, "stored"), part: binfmt.Part{Extent: binfmt.Extent{
				Bin: rapid.IntRange(0, 2).Draw(t, "bin"), Len: rapid.OneOf(rapid.Int64Range(0, 200), rapid.Int64Range(0, 2*groupBytes)).Draw(t, "len"),
			}}})
		}
		for len(entries) > 0 {
			n := firstGroup(entries, most)
			if n < 1 || n > min(filesTogether, len(entries)) {
				t.Fatalf("a group of %d of %d", n, len(entries))
			}
			bytes, transforms := int64(0), 0
			for _, e := range entries[:n] {
				bytes += e.part.Len
				if !e.stored {
					transforms++
				}
				if e.part.Bin != entries[0].part.Bin {
					t.Fatal("two bins in one group")
				}
			}
			if bytes > groupBytes && n > 1 {
				t.Fatalf("%d parts of %d bytes together", n, bytes)
			}
			if transforms > most {
				t.Fatalf("%d parts for a worker that gets %d", transforms, most)
			}
			fits := n < min(filesTogether, len(entries)) && entries[n].part.Bin == entries[0].part.Bin && bytes+entries[n].part.Len <= groupBytes
			if fits && (entries[n].stored || transforms < most) {
				t.Fatal("the next part would have fitted")
			}
			entries = entries[n:]
		}
	})
}

func TestSharesLeaveWorkForEveryWorker(t *testing.T) {
	for _, c := range []struct{ parts, workers, want int }{
		{64, 2, 8}, {8, 2, 2}, {64, 8, 4}, {1, 8, 1}, {0, 1, 1}, {1000, 1, 8},
	} {
		if got := shareOf(c.parts, c.workers); got != c.want {
			t.Errorf("%d parts for %d workers: %d at once, want %d", c.parts, c.workers, got, c.want)
		}
	}
	k := newKit(t, 64, 64, nil)
	o := k.options(t)
	pool := o.Runner.(*fakePool)
	o.GlobalBatch = 32
	l := mustOpen(t, o)
	epoch(t, l)
	must(t, l.Close()) // it reads ahead
	for n := range pool.shares {
		if n > 8 {
			t.Fatalf("calls by items: %v", pool.shares)
		}
	}
	if !slices.Contains(slices.Collect(maps.Keys(pool.shares)), 8) {
		t.Fatalf("nothing was given to a worker together: %v", pool.shares)
	}
}

// What one part of a share does to a worker does not touch the others: every fate in one step.
func TestShareOfManyFates(t *testing.T) {
	k := newKit(t, 48, 48, nil, with(1, kindBad), with(2, kindOnce), with(3, kindOnce), with(5, kindBad), with(7, kindOnce))
	k.damage(t, 4)
	o := k.options(t)
	o.GlobalBatch, o.Shuffle, o.Workers = 16, sampler.ShuffleNone, 1
	l := mustOpen(t, o)
	equal(t, "epoch", epoch(t, l), wantIDs(l, 1, 4, 5))
	if s := l.Stats(); s.Substituted != 3 {
		t.Fatalf("%d substituted", s.Substituted)
	}
	must(t, l.Close())
	nothingHeld(t, l)
}

// A step that fails gives back what it read ahead, whatever was waiting for a worker.
func TestFailedStepHoldsNothing(t *testing.T) {
	k := newKit(t, 64, 64, nil, with(3, kindCrash))
	o := k.options(t)
	o.GlobalBatch, o.Shuffle, o.Workers = 32, sampler.ShuffleNone, 1
	l := mustOpen(t, o)
	var te *transform.Error
	for range 3 {
		if _, err := l.Next(t.Context()); !errors.As(err, &te) || te.Kind != transform.KindCrash {
			t.Fatalf("got %v", err)
		}
	}
	must(t, l.Close())
	nothingHeld(t, l)
}

// Reading ahead is bounded by bytes, not by steps.
func TestReadingAheadIsBounded(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	large := make([]byte, groupBytes/2+groupBytes/4)
	large[0] = kindGood
	for i := range k.parts {
		k.parts[i] = large
	}
	k.pack(t, nil)
	counting := &tally{Store: k.store}
	gate := make(chan struct{})
	reached := make(chan struct{})
	var waiting atomic.Bool
	o := k.options(t)
	o.Store, o.GlobalBatch, o.Workers = counting, 16, 1
	o.Runner = &fakePool{hold: func(ctx context.Context, _ uint64) error {
		if !waiting.Swap(true) {
			close(reached)
		}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	l := mustOpen(t, o)
	done := make(chan error)
	go func() {
		b, err := l.Next(context.Background())
		if err == nil {
			b.Release()
		}
		done <- err
	}()
	<-reached
	waitUntil(t, func() bool {
		l.room.mu.Lock()
		defer l.room.mu.Unlock()
		return len(l.room.waiting) > 0 && l.room.free < int64(len(large))
	})
	if read := counting.bytes.Load(); read > roomFor(1)+binfmt.HeaderSize {
		t.Fatalf("%d bytes were read before the first was transformed, there is room for %d", read, roomFor(1))
	}
	close(gate)
	must(t, <-done)
}
