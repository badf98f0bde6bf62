package sources

import (
	"context"
	"sync"
	"time"
)

// pace has a making take no more bytes a second than its rate allows, which may change at any time.
type pace struct {
	clock Clock
	rate  func() (bytesPerSecond int64, changed <-chan struct{})

	mu   sync.Mutex
	owed float64 // bytes that were taken and whose time has not passed
	at   time.Duration
	last float64 // the rate since at
}

func newPace(c Clock, rate func() (int64, <-chan struct{})) *pace {
	return &pace{clock: c, rate: rate, at: c.Now()}
}

// take waits until n more bytes may be moved.
func (p *pace) take(ctx context.Context, n int64) error {
	if p.rate == nil {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		rate, changed := p.rate()
		now := p.clock.Now()
		p.owed = max(0, p.owed-float64(p.last*(now-p.at).Seconds()))
		p.at, p.last = now, float64(rate)
		if rate > 0 && p.owed < 1 {
			p.owed += float64(n)
			return ctx.Err()
		}
		var passed <-chan time.Time // for ever, while it is paused
		if rate > 0 {
			passed = p.clock.After(max(time.Millisecond, time.Duration(p.owed/p.last*float64(time.Second))))
		}
		select {
		case <-passed:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
