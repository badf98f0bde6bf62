package hdfs

import (
	"context"
	"math/rand/v2"
	"time"
)

// now is the only clock of this package. It measures durations; no decision compares it with another host's.
func now() time.Time { return time.Now() }

// sleep returns after d, or with ctx's error as soon as it ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endsWithin tells whether ctx ends before d has passed: waiting so long would be of no use.
func endsWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(now()) <= d
}

// jitter is a random share that keeps readers who failed together apart.
func jitter() float64 { return rand.Float64() }
