package loader

import (
	"container/heap"
	"context"
	"sync"
)

// gate gives out a bounded number of places, the earliest step first: work for the step the trainer
// waits for never queues behind work for a later one. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int64
	waiting turns
	seq     uint64
}

func newGate(places int64) *gate { return &gate{free: places} }

// enter waits for n of the places, which must not be more than there are. The caller gives them back with leave
// if and only if the error is nil.
func (g *gate) enter(ctx context.Context, step, n int64) error {
	g.mu.Lock()
	if len(g.waiting) == 0 && g.free >= n {
		g.free -= n
		g.mu.Unlock()
		return nil
	}
	g.seq++
	t := &turn{step: step, seq: g.seq, n: n, open: make(chan struct{})}
	heap.Push(&g.waiting, t)
	g.pass() // it may be the first in turn, before one that waits for more
	g.mu.Unlock()
	select {
	case <-t.open:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.at >= 0 {
		heap.Remove(&g.waiting, t.at)
	} else {
		g.free += t.n // they were given to us in the meantime
	}
	g.pass()
	return ctx.Err()
}

// leave gives n places back.
func (g *gate) leave(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += n
	g.pass()
}

// pass lets in who waits, the earliest step first, as far as there is room. Nobody is overtaken, however
// little they ask for.
func (g *gate) pass() {
	for len(g.waiting) > 0 && g.waiting[0].n <= g.free {
		t := heap.Pop(&g.waiting).(*turn)
		g.free -= t.n
		close(t.open)
	}
}

// turn is one waiter for n places; at is its place in the heap, -1 once it was let in.
type turn struct {
	step int64
	seq  uint64
	n    int64
	at   int
	open chan struct{}
}

type turns []*turn

func (t turns) Len() int { return len(t) }
func (t turns) Less(i, j int) bool {
	if t[i].step != t[j].step {
		return t[i].step < t[j].step
	}
	return t[i].seq < t[j].seq
}
func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}
func (t *turns) Push(x any) {
	x.(*turn).at = len(*t)
	*t = append(*t, x.(*turn))
}
func (t *turns) Pop() any {
	old := *t
	last := old[len(old)-1]
	last.at = -1
	*t = old[:len(old)-1]
	return last
}
