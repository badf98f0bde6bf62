package controller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// Maker carries out the actions of some means: controller/copies those of copies, controller/sources those of hot files. Every method may be called
// again with the same placement, after it succeeded, failed or was cut off at any point, and by another process: it then goes on, or does nothing. It is
// safe for concurrent use by different placements. Errors that say more than "try again" are an [Error]. Each returns soon after ctx ends.
type Maker interface {
	// Fact reads what has to be known to undo the making: how the world is before it. It changes nothing. It is journaled before Make is called.
	Fact(ctx context.Context, m plan.Make) (json.RawMessage, error)
	Make(ctx context.Context, p Placement, t Tools) (Made, error)
	// Publish lets readers find it, or renews that for its lease.
	Publish(ctx context.Context, p Placement, t Tools) error
	// Extend changes how long what was made may last, in the world, from now on. It is never called while Make is under way: a Make whose lease would end before
	// the maker hears of the longer one is cut off, and goes on after Extend.
	Extend(ctx context.Context, p Placement, t Tools) error
	Withdraw(ctx context.Context, p Placement, t Tools) error
	// Remove undoes what Make did, in part or whole, and returns nil only when nothing is left.
	Remove(ctx context.Context, p Placement, t Tools) error
}

// Placement is what a Maker works on.
type Placement struct {
	Make plan.Make
	// Fact is what Maker.Fact returned before the making; nil for means without one, and where a predecessor did not come so far.
	Fact json.RawMessage
	// Publish is the last one; nil before the first, and, but for Withdraw and Remove, after it was withdrawn.
	Publish *plan.Publish
	// Of is the placement that Make.Of names, nil for none.
	Of *Placement
	// Lease is how long it may last, from now on.
	Lease time.Duration
}

// Tools are what a Maker gets with a call.
type Tools struct {
	// Fence is to be called before each change of the world: after an error the controller is not the active one any more, and nothing may be changed.
	Fence func(ctx context.Context) error
	// Rate returns the bytes a second that a making may take now, 0 for a pause, and a channel that is closed when that changes. Without bounds it is math.MaxInt64.
	Rate func() (bytesPerSecond int64, changed <-chan struct{})
	// Progress takes the bytes that were made so far.
	Progress func(bytes int64)
}

// Made is what came of a making.
type Made struct {
	// Digest is that of a copy's content, as checkpoint.Digest.Sum.
	Digest string
	// Reused is how many bytes of a copy lay at the site already, and were not sent.
	Reused int64
	// Short is how many extra sources were not made of those that were asked for, because the store has no place for more.
	Short int
}

// Error is a failure with what it means for planning.
type Error struct {
	Reason plan.Reason
	Err    error
}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Stores are those that the controller works with. It is safe for concurrent use.
type Stores interface {
	// Home is the store of the files.
	Home() store.Store
	// Site is the store of another site; an [Error] of plan.ReasonSite for one that is not known or does not answer.
	Site(ctx context.Context, name string) (store.Store, error)
}
