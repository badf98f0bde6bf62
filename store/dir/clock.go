package dir

import (
	"context"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// Clock is the time that simulated nodes take. Tests give one of their own and never wait.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with ctx's error as soon as it ends.
	Sleep(ctx context.Context, d time.Duration) error
}

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Sleep(ctx context.Context, d time.Duration) error { return store.Sleep(ctx, d) }
