package hdfs

import (
	"context"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// gatesOf returns the gates of the lane that a read is in.
func (s *Store) gatesOf(ctx context.Context) *gates { return &s.gates[laneOf(ctx)] }

// laneOf is store.LaneOf, with store.Feed for what is no lane.
func laneOf(ctx context.Context) store.Lane {
	if l := store.LaneOf(ctx); l >= 0 && l < store.Lanes {
		return l
	}
	return store.Feed
}

// loads counts the bytes that are being read from each node, or wait for it, in the lane store.Bulk. Large reads of a few
// blocks keep all nodes busy only if each goes to the one that has least to do. The lane of small reads keeps to the order of
// its rank: there are many of them, and a node that is asked for the same bytes again has them in memory.
type loads struct {
	mu    sync.Mutex
	bytes map[*node]int64
}

func (l *loads) add(n *node, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == nil {
		l.bytes = map[*node]int64{}
	}
	if l.bytes[n] += bytes; l.bytes[n] == 0 {
		delete(l.bytes, n)
	}
}

func (l *loads) of(n *node) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[n]
}

// loadIn returns how busy nodes are for reads in the lane of ctx; nil if that does not count.
func (s *Store) loadIn(ctx context.Context) func(*node) int64 {
	if laneOf(ctx) != store.Bulk {
		return nil
	}
	return s.loads.of
}

// book counts a read that begins; the function returned ends that.
func (s *Store) book(ctx context.Context, n *node, parts []part) (done func()) {
	if laneOf(ctx) != store.Bulk {
		return func() {}
	}
	bytes := partsEnd(parts) - parts[0].Off
	s.loads.add(n, bytes)
	return func() { s.loads.add(n, -bytes) }
}
