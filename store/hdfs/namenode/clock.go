package namenode

import (
	"context"
	"math/rand/v2"
	"time"
)

// Clock is a source of time.
type Clock interface {
	Now() time.Time
	// After sends the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func randomJitter() float64 { return 0.5 + rand.Float64() }

// pause waits for d, or until ctx or the client ends.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-c.options.Clock.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return errClosed
	}
}
