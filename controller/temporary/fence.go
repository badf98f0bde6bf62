package temporary

import (
	"context"
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// changeTime bounds a change of the world from the moment before the fence was checked. It is shorter than what a claim outlives its holder's last sign of life
// (a minute, see store.Claimer), so that a process that was stopped after the check, and goes on when another has the claim, changes nothing.
const changeTime = 30 * time.Second

// Change makes one change of the world: it calls fence, nil for none, and then do, whose context ends before another process can have the claim.
func Change(ctx context.Context, fence func(context.Context) error, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	if fence != nil {
		if err := fence(bounded); err != nil {
			return &FenceError{Err: err}
		}
	}
	err := over(bounded)
	if err == nil {
		err = do(bounded)
	}
	if err != nil && over(bounded) != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: it took more than %v: %w", store.ErrUnavailable, changeTime, err)
	}
	return err
}

// over returns why nothing may be done under a context any more. A process that was stopped and goes on can run before its own timers do: the clock counts.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return nil
}

// FenceError says that this process may not change anything any more.
type FenceError struct{ Err error }

func (e *FenceError) Error() string { return "nothing was changed: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FenceError) Unwrap() error { return e.Err }
