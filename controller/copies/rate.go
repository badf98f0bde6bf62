package copies

import (
	"context"
	"time"
)

// Clock is the controller's time.
type Clock interface {
	// Now is the time since a fixed moment.
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
}

// realClock is this process's.
type realClock struct{ began time.Time }

func (c realClock) Now() time.Duration                     { return time.Since(c.began) }
func (c realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	// slack is what an idle link saves up, as time: what timers that fire late would lose otherwise.
	slack = 50 * time.Millisecond
	// A slice is what is read with one permission: 1/shares of a second's bytes. So little is on its way when the rate falls to 0.
	shares                = 16
	leastSlice, mostSlice = 64 << 10, 16 << 20
)

// bucket is the account of a link whose rate changes. It reads no clock.
type bucket struct {
	at    time.Duration
	rate  int64
	level float64 // bytes; below 0 what was taken ahead
}

// pass brings the account to a moment, and then changes the rate.
func (b *bucket) pass(now time.Duration, rate int64) {
	if now > b.at {
		b.level += float64(b.rate) * (now - b.at).Seconds()
	}
	b.at, b.rate = now, rate
	b.level = min(b.level, float64(rate)*slack.Seconds())
}

// due is how long nothing may be taken: until what was taken ahead has passed.
func (b *bucket) due() time.Duration {
	if b.level >= 0 {
		return 0
	}
	return time.Duration(-b.level/float64(b.rate)*float64(time.Second)) + 1
}

// sliceOf is how many bytes are taken at a time.
func sliceOf(rate int64) int64 { return min(max(rate/shares, leastSlice), mostSlice) }

// gate lets bytes pass at the rate that Tools.Rate gives.
type gate struct {
	clock Clock
	rate  func() (int64, <-chan struct{})
	turn  chan struct{} // holds one value while nobody is at the head of the queue
	b     bucket        // of whoever has the turn
}

// newGate has no bound without a rate.
func newGate(clock Clock, rate func() (int64, <-chan struct{})) *gate {
	g := &gate{clock: clock, rate: rate, turn: make(chan struct{}, 1), b: bucket{at: clock.Now()}}
	g.turn <- struct{}{}
	return g
}

// slice is how much to take at a time, now.
func (g *gate) slice() int64 {
	if g.rate == nil {
		return mostSlice
	}
	rate, _ := g.rate()
	return sliceOf(rate)
}

// open returns when the rate is not 0, or with ctx's error.
func (g *gate) open(ctx context.Context) error {
	for g.rate != nil {
		rate, changed := g.rate()
		if rate > 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// take returns when n bytes may pass, or with ctx's error. At rate 0 nothing passes.
func (g *gate) take(ctx context.Context, n int64) error {
	if g.rate == nil {
		return ctx.Err()
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { g.turn <- struct{}{} }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rate, changed := g.rate()
		g.b.pass(g.clock.Now(), rate)
		var due <-chan time.Time
		if rate > 0 {
			wait := g.b.due()
			if wait == 0 {
				g.b.level -= float64(n)
				return nil
			}
			due = g.clock.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
