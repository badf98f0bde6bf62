package hdfs

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// badFirst is how long a node is avoided after its first failure; each further one in a row doubles it.
	badFirst = 10 * time.Second
	// badMost bounds how long a node is avoided.
	badMost = 5 * time.Minute
	// badReplica is how long a replica is avoided that was wrong or missing: the NameNode replaces it meanwhile.
	badReplica = 10 * time.Minute
	// maxBad bounds what is remembered of each kind.
	maxBad = 4096
)

// How bad a place is, the best first.
const (
	fine       = iota
	nodeBad    // the node failed a short while ago
	replicaBad // this replica was wrong or missing
)

// badNodes remembers what failed, for a while. A bad node or replica is tried last, never left out. It is safe for
// concurrent use.
type badNodes struct {
	any atomic.Int64 // how much is remembered; 0 spares readers the lock

	mu       sync.Mutex
	nodes    map[*node]badMark
	replicas map[replicaKey]badMark
	slow     map[*node]int // how often a node was overtaken since it answered last
}

type replicaKey struct {
	block blockID
	node  *node
}

type badMark struct {
	until   time.Time
	strikes int
}

// nodeFailed notes that a node did not answer as it should.
func (b *badNodes) nodeFailed(n *node, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes == nil {
		b.nodes = map[*node]badMark{}
	}
	m := b.nodes[n]
	if now.Before(m.until) {
		return // readers who failed together are one failure
	}
	if now.Sub(m.until) > badMost {
		m.strikes = 0
	}
	m.strikes++
	m.until = now.Add(min(badFirst<<min(m.strikes-1, 8), badMost))
	makeRoom(b.nodes, now)
	b.nodes[n] = m
	b.count()
}

// maxOvertaken is how often in a row another node may be faster before a node counts as failed.
const maxOvertaken = 3

// nodeOvertaken notes that another node, asked later, answered earlier.
func (b *badNodes) nodeOvertaken(n *node, now time.Time) {
	b.mu.Lock()
	if b.slow == nil || len(b.slow) >= maxBad {
		b.slow = map[*node]int{}
	}
	b.slow[n]++
	failed := b.slow[n] >= maxOvertaken
	if failed {
		delete(b.slow, n)
	}
	b.count()
	b.mu.Unlock()
	if failed {
		b.nodeFailed(n, now)
	}
}

// nodeWorked forgives a node.
func (b *badNodes) nodeWorked(n *node) {
	if b.any.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, n)
	delete(b.slow, n)
	b.count()
}

// replicaFailed notes that a node's replica of a block is wrong or missing.
func (b *badNodes) replicaFailed(id blockID, n *node, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.replicas == nil {
		b.replicas = map[replicaKey]badMark{}
	}
	makeRoom(b.replicas, now)
	b.replicas[replicaKey{id, n}] = badMark{until: now.Add(badReplica)}
	b.count()
}

// badness tells how bad a node's replica of a block is.
func (b *badNodes) badness(id blockID, n *node, now time.Time) int {
	if b.any.Load() == 0 {
		return fine
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case now.Before(b.replicas[replicaKey{id, n}].until):
		return replicaBad
	case now.Before(b.nodes[n].until):
		return nodeBad
	}
	return fine
}

func (b *badNodes) count() { b.any.Store(int64(len(b.nodes) + len(b.replicas) + len(b.slow))) }

// makeRoom keeps a memory below its bound: what is over goes first, then all.
func makeRoom[K comparable](m map[K]badMark, now time.Time) {
	if len(m) < maxBad {
		return
	}
	for k, mark := range m {
		if !now.Before(mark.until) {
			delete(m, k)
		}
	}
	if len(m) >= maxBad {
		clear(m)
	}
}
