package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform"
)

func TestGateLetsTheEarliestStepInFirst(t *testing.T) {
	g := newGate(1)
	must(t, g.enter(t.Context(), 9, 1))
	steps := []int64{5, 3, 8, 3, 1, 7}
	in := make(chan int64, len(steps))
	var wg sync.WaitGroup
	for i, s := range steps {
		wg.Go(func() {
			if err := g.enter(context.Background(), s, 1); err == nil {
				in <- s
				g.leave(1)
			}
		})
		for waiting := 0; waiting != i+1; { // it is in the queue before the next one comes
			g.mu.Lock()
			waiting = len(g.waiting)
			g.mu.Unlock()
		}
	}
	g.leave(1)
	wg.Wait()
	close(in)
	var got []int64
	for s := range in {
		got = append(got, s)
	}
	if !slices.IsSorted(got) || len(got) != len(steps) {
		t.Fatalf("let in: %v", got)
	}
	if g.free != 1 {
		t.Fatalf("%d places free", g.free)
	}
}

func TestGateCancelledWaiterTakesNoPlace(t *testing.T) {
	g := newGate(2)
	var wg sync.WaitGroup
	var inside, most atomic.Int64
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			if i%3 == 0 {
				go cancel()
			}
			defer cancel()
			if g.enter(ctx, int64(i%7), 1) != nil {
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			inside.Add(-1)
			g.leave(1)
		})
	}
	wg.Wait()
	if g.free != 2 || len(g.waiting) != 0 || most.Load() > 2 {
		t.Fatalf("%d free, %d waiting, %d at once", g.free, len(g.waiting), most.Load())
	}
}

func TestSlabsAreReusedByOneUserAtATime(t *testing.T) {
	p := &slabs{keep: 1}
	a, err := p.get(100)
	must(t, err)
	b, err := p.get(100)
	must(t, err)
	if &a.mem[0] == &b.mem[0] || len(a.mem) != slabUnit {
		t.Fatal("two users of one slab, or a wrong size")
	}
	big, err := p.get(3 * slabUnit)
	must(t, err)
	p.put(a)
	c, err := p.get(slabUnit)
	must(t, err)
	if c != a {
		t.Fatal("a free slab was not reused")
	}
	p.put(b)
	p.put(big) // one too many: the older goes
	if live, bytes := p.usage(); live != 1 || bytes != 4*slabUnit {
		t.Fatalf("%d in use, %d bytes", live, bytes)
	}
	p.close()
	p.put(c)
	if live, bytes := p.usage(); live != 0 || bytes != 0 {
		t.Fatalf("after close: %d in use, %d bytes", live, bytes)
	}
	if _, err := p.get(1 << 62); err == nil || !strings.Contains(err.Error(), "lower the batch size") {
		t.Fatalf("an impossible size: %v", err)
	}
}

// Free slabs are kept for as long as they are few beside those in use.
func TestFreeSlabsAreBoundedInBytes(t *testing.T) {
	p := &slabs{keep: 9}
	var used []*slab
	for range 3 {
		s, err := p.get(keptBytes)
		must(t, err)
		used = append(used, s)
	}
	for i, want := range []int64{3, 2, 1} { // in all: one free beside two in use, one beside one, and the one that is kept anyway
		p.put(used[i])
		if live, bytes := p.usage(); live != 2-i || bytes != want*keptBytes {
			t.Fatalf("%d in use, %d bytes", live, bytes)
		}
	}
	p.close()
}

func TestBuffers(t *testing.T) {
	var b buffers
	for _, n := range []int{0, 1, 2, 3, 4, 5, 1023, 1024, 1025} {
		s := b.get(n)
		if len(s) != n || cap(s) > 2*max(n, 1) {
			t.Fatalf("get(%d): length %d, capacity %d", n, len(s), cap(s))
		}
		b.put(s)
		if s = b.get(n); len(s) != n {
			t.Fatalf("second get(%d): length %d", n, len(s))
		}
	}
}

func TestTasksTurnPanicsIntoErrors(t *testing.T) {
	g := newTasks(t.Context(), "test")
	g.start(func(ctx context.Context) error { panic("on purpose") })
	g.start(func(ctx context.Context) error { <-ctx.Done(); return nil }) // the panic ends it
	var p *PanicError
	if err := g.wait(); !errors.As(err, &p) || p.Value != "on purpose" || !strings.Contains(string(p.Stack), "parts_test.go") {
		t.Fatalf("got %v", err)
	}
	g = newTasks(t.Context(), "test")
	g.start(func(context.Context) error { return nil })
	must(t, g.wait())
}

func TestPanicOfTheRunnerIsAnErrorOfNext(t *testing.T) {
	k := newKit(t, 16, 16, nil)
	o := k.options(t)
	o.Runner = &fakePool{hold: func(context.Context, uint64) error { panic("on purpose") }}
	l := mustOpen(t, o)
	var p *PanicError
	if _, err := l.Next(t.Context()); !errors.As(err, &p) {
		t.Fatalf("got %v", err)
	}
}

func TestManyBinsFewFiles(t *testing.T) {
	k := newKit(t, 400, 2, nil) // 200 bins
	counting := &tally{Store: k.store}
	o := k.options(t)
	o.Store, o.GlobalBatch, o.Prefetch = counting, 100, 4
	l := mustOpen(t, o)
	if got := len(epoch(t, l)); got != 4 {
		t.Fatalf("%d steps", got)
	}
	if most := counting.most.Load(); most > maxOpenBins {
		t.Fatalf("%d data files open at once", most)
	}
}

func TestPhaseClockSplitsWithoutRemainder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(0)
		c := newPhaseClock(func() time.Duration { return now })
		var leave []func()
		var want split
		transforms, networks := 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			d := time.Duration(rapid.IntRange(0, 9).Draw(t, "pause"))
			switch {
			case transforms > 0:
				want[waitTransform] += d
			case networks > 0:
				want[waitNetwork] += d
			default:
				want[waitQueue] += d
			}
			now += d
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				l := c.enter(waitTransform)
				transforms++
				leave = append(leave, func() { l(); transforms-- })
			case 1:
				l := c.enter(waitNetwork)
				networks++
				leave = append(leave, func() { l(); networks-- })
			case 2:
				if len(leave) > 0 {
					leave[0]()
					leave = leave[1:]
				}
			}
			if got := c.read(); got != want || got.sum() != now {
				t.Fatalf("got %v, want %v, at %v", got, want, now)
			}
		}
	})
}

func TestStepClock(t *testing.T) {
	var c stepClock
	if _, known := c.lead(0, 0); known {
		t.Fatal("a lead without steps")
	}
	for i := range int64(20) {
		c.delivered(i, time.Duration(i)*100)
	}
	if c.step() != 100 {
		t.Fatalf("step time %d", c.step())
	}
	if lead, known := c.lead(22, 1930); !known || lead != 1900+300-1930 {
		t.Fatalf("lead %d, %v", lead, known)
	}
	c.restart(5)
	if _, known := c.lead(6, 0); known || c.step() != 100 {
		t.Fatal("after a restart the step time is known, the moment is not")
	}
}

func TestPlanesAgainstNaive(t *testing.T) {
	for dtype, size := range map[transform.Dtype]int{transform.Uint8: 1, transform.Float16: 2, transform.Float32: 4} {
		for _, channels := range []int{1, 2, 3, 4} {
			for _, height := range []int{1, 3, 9} {
				checkPlanes(t, transform.TensorSpec{Dtype: dtype, Shape: []int{2, height, 5, channels}}, size)
			}
		}
	}
	shape, strides := logical(2, []int{9, 6, 5, 3}, false)
	if fmt.Sprint(shape, strides) != "[2 9 3 6 5] [810 90 1 15 3]" {
		t.Fatalf("video: %v %v", shape, strides)
	}
}

// checkPlanes compares planes with its definition, element by element, for a tensor of frames, height, width, channels.
func checkPlanes(t *testing.T, spec transform.TensorSpec, size int) {
	t.Helper()
	src := make([]byte, spec.Bytes())
	for i := range src {
		src[i] = byte(rand.Uint32())
	}
	dst := make([]byte, len(src))
	planes(dst, src, spec)
	pixels, channels := spec.Shape[1]*spec.Shape[2], spec.Shape[3]
	for f := range spec.Shape[0] {
		for p := range pixels {
			for c := range channels {
				from, to := ((f*pixels+p)*channels+c)*size, ((f*channels+c)*pixels+p)*size
				if !slices.Equal(dst[to:to+size], src[from:from+size]) {
					t.Fatalf("%s %v: frame %d, pixel %d, channel %d", spec.Dtype, spec.Shape, f, p, c)
				}
			}
		}
	}
}

func TestChoicesCoverAllCombinations(t *testing.T) {
	blocks := store.Blocks{{Nodes: []string{"a", "b"}}, {Nodes: []string{"c", "d", "e"}}}
	seen := map[string]bool{}
	for c := range choices(blocks) {
		seen[fmt.Sprint(c)] = true
	}
	if len(seen) != 6 {
		t.Fatalf("choices: %v", seen)
	}
	for range choices(nil) {
		t.Fatal("a choice of nothing")
	}
}

func TestBoundedLists(t *testing.T) {
	var s []int
	for i := range 10 {
		s = appendBounded(s, i, 3)
	}
	if fmt.Sprint(s) != "[7 8 9]" {
		t.Fatalf("got %v", s)
	}
}
