package store

import (
	"context"
	"time"
)

// now is the only clock of this package; it measures durations and never decides by a date.
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
