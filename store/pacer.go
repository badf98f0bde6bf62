package store

import (
	"sync"
	"time"
)

const (
	minPiece = 1 << 10
	maxPiece = 8 << 20
)

// Pacer is the account of a link of limited bandwidth that concurrent transfers share in the order
// in which they ask. It reads no clock and never waits; its callers do. It is safe for concurrent
// use.
type Pacer struct {
	perSecond float64
	mu        sync.Mutex
	free      time.Time // when everything reserved so far has passed
}

// NewPacer returns the account of a link of bytesPerSecond; 0 or less is a link without a limit.
func NewPacer(bytesPerSecond int64) *Pacer { return &Pacer{perSecond: float64(bytesPerSecond)} }

// Piece is how many bytes to reserve at a time, so that transfers take turns fairly and timers that fire
// late cost little: what passes in 10 ms, from 1 KiB to 8 MiB.
func (p *Pacer) Piece() int64 {
	if p.perSecond <= 0 {
		return maxPiece
	}
	return int64(min(max(p.perSecond/100, minPiece), maxPiece))
}

// Reserve books n bytes behind all that was booked before, and returns how long after now the last
// of them has passed. An idle link saves nothing up: there is no burst.
func (p *Pacer) Reserve(now time.Time, n int64) time.Duration {
	if p.perSecond <= 0 || n <= 0 {
		return 0
	}
	took := time.Duration(float64(n) / p.perSecond * float64(time.Second))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(took)
	return p.free.Sub(now)
}
