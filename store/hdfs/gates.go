package hdfs

import (
	"context"
	"sync"
)

// gates bound the requests of one lane in flight, in all and at each node. Waiting here is not the node's slowness, so it is
// not counted as that.
type gates struct {
	most, mostNode int

	mu      sync.Mutex
	in      int
	nodes   map[*node]int
	waiting []*gateWait // first come, first served, as far as nodes have room
}

type gateWait struct {
	node *node
	pass chan struct{} // closed when it may pass
}

// enter waits for room for a request to n. leave gives it back.
func (g *gates) enter(ctx context.Context, n *node) error {
	g.mu.Lock()
	if g.admit(n) {
		g.mu.Unlock()
		return nil
	}
	w := &gateWait{n, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.pass:
		return nil
	case <-ctx.Done():
		g.giveUp(w)
		return ctx.Err()
	}
}

// tryEnter is enter if there is room at once.
func (g *gates) tryEnter(n *node) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admit(n)
}

func (g *gates) leave(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.nodes[n]--; g.nodes[n] == 0 {
		delete(g.nodes, n)
	}
	left := g.waiting[:0]
	for _, w := range g.waiting {
		if g.admit(w.node) {
			close(w.pass)
		} else {
			left = append(left, w)
		}
	}
	clear(g.waiting[len(left):])
	g.waiting = left
}

func (g *gates) admit(n *node) bool {
	if g.in >= g.most || g.nodes[n] >= g.mostNode {
		return false
	}
	if g.nodes == nil {
		g.nodes = map[*node]int{}
	}
	g.in++
	g.nodes[n]++
	return true
}

func (g *gates) giveUp(w *gateWait) {
	g.mu.Lock()
	for i, x := range g.waiting {
		if x == w {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			g.mu.Unlock()
			return
		}
	}
	g.mu.Unlock()
	g.leave(w.node) // it was let in just then
}
