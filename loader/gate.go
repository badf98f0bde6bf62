package loader

import (
	"container/heap"
	"context"
	"sync"
)

// gate lets a bounded number of holders in, the earliest step first: work for the step the trainer
// waits for never queues behind work for a later one. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting turns
	seq     uint64
}

func newGate(n int) *gate { return &gate{free: n} }

// enter waits for a place. The caller leaves with leave if and only if the error is nil.
func (g *gate) enter(ctx context.Context, step int64) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	g.seq++
	t := &turn{step: step, seq: g.seq, open: make(chan struct{})}
	heap.Push(&g.waiting, t)
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
		g.pass() // the place was given to us in the meantime
	}
	return ctx.Err()
}

// leave gives the place to the earliest step that waits.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

func (g *gate) pass() {
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	close(heap.Pop(&g.waiting).(*turn).open)
}

// turn is one waiter; at is its place in the heap, -1 once it was let in.
type turn struct {
	step int64
	seq  uint64
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
