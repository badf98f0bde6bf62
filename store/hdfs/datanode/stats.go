package datanode

import "sync/atomic"

// Stats is what a Pool has done since it was made, and what it holds now.
type Stats struct {
	// Opened and Reused count connections made and requests on a connection that lay idle.
	Opened, Reused int64
	// Stale counts requests that were sent again on a fresh connection, because the idle one had been closed.
	Stale int64
	// Wire is the bytes received, whatever they were; Delivered those of the blocks that were verified or accepted without,
	// gaps between parts included; Unverified those of the latter that had no checksums.
	Wire, Delivered, Unverified int64
	// Connections and Idle are how many there are now for reading; Waiting is the reads that wait for one.
	Connections, Idle, Waiting int
	// Pipelines is how many there are now through which blocks are written, each over a connection of its own.
	Pipelines int
}

type counters struct {
	opened, reused, stale, wire, delivered, unverified atomic.Int64
}

// Stats returns the counts.
func (p *Pool) Stats() Stats {
	n := &p.counters
	s := Stats{
		Opened: n.opened.Load(), Reused: n.reused.Load(), Stale: n.stale.Load(),
		Wire: n.wire.Load(), Delivered: n.delivered.Load(), Unverified: n.unverified.Load(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Connections, s.Waiting, s.Pipelines = p.total, len(p.waiting), p.pipelines
	for _, at := range p.nodes {
		s.Idle += len(at.idle)
	}
	return s
}
