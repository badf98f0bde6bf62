// Package watch notices checkpoints that are committed or deleted from the folder that holds them alone.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
)

// Kind says what happened to a checkpoint.
type Kind string

// The kinds.
const (
	// Committed: the checkpoint is complete, for the first time or in another version than before.
	Committed Kind = "committed"
	// Deleted: its folder is gone.
	Deleted Kind = "deleted"
)

// Event is something that happened to a checkpoint. The same may be told again by another watch: Identity tells versions apart.
type Event struct {
	Kind Kind
	Path string
	// Checkpoint is the one that is committed; nil of one that is gone.
	Checkpoint *checkpoint.Checkpoint
}

// A Clock is the time of this process.
type Clock interface {
	// Now grows from call to call.
	Now() time.Duration
	// Sleep returns after d, or with ctx's error when that ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// Options say how to watch. The zero value is usable.
type Options struct {
	// Interval is the time between two listings of the folder, each a tenth longer or shorter by chance. After listings that fail it doubles,
	// up to 32 times. Default 10 s.
	Interval time.Duration
	// Looks bounds how many folders are looked at after a listing. Default 4.
	Looks int
	// Recent is how many of the folders that are there at the beginning, the newest, are looked at; the others are watched for changes only.
	// Less than 0: all.
	Recent int
	// WorldSize is the number of ranks that save, where it is known.
	WorldSize int
	// Settle is how long the files of a layout that does not say how many it has must stay as they are. Default 30 s.
	Settle time.Duration
	// Report, if not nil, gets what failed and will be tried again.
	Report func(error)
	// Clock is the time; Random gives numbers in [0, 1). Defaults: this process's.
	Clock  Clock
	Random func() float64
}

func (o Options) withDefaults() (Options, error) {
	o.Interval, o.Looks = cmp.Or(o.Interval, 10*time.Second), cmp.Or(o.Looks, 4)
	o.Settle = cmp.Or(o.Settle, 30*time.Second)
	if o.Interval < time.Millisecond || o.Interval > time.Hour || o.Looks < 1 || o.Settle < 0 || o.WorldSize < 0 {
		return o, fmt.Errorf("watch.Options: Interval is 1 ms to 1 h, Looks at least 1, Settle and WorldSize not negative: %w", fs.ErrInvalid)
	}
	if o.Recent < 0 {
		o.Recent = 1 << 30
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Clock == nil {
		o.Clock = realClock{time.Now()}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o, nil
}

type realClock struct{ began time.Time }

func (c realClock) Now() time.Duration { return time.Since(c.began) }

func (realClock) Sleep(ctx context.Context, d time.Duration) error { return store.Sleep(ctx, d) }

// Watch calls each with what happens to the checkpoints in a folder, until ctx ends or each fails, and returns that error. It lists the
// folder once an interval, and looks into folders that are new or have changed, at most Looks after a listing, into one that is not
// complete at growing intervals. A checkpoint is told only when it is complete, and then once a version. What is gone is told if
// it was told before, or was there from the beginning, under a name with a number, and not looked at. A folder that cannot be listed, or is not there, says nothing about
// what was in it.
func Watch(ctx context.Context, st store.Store, root string, o Options, each func(Event) error) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	w := &watcher{st: st, root: root, o: o, each: each, plan: newPlanner(limits{interval: o.Interval, settle: o.Settle, looks: o.Looks, recent: o.Recent})}
	for failures := 0; ; {
		err := w.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errListing):
			failures++
			o.Report(err)
		case err != nil:
			return err
		default:
			failures = 0
		}
		if err := o.Clock.Sleep(ctx, w.plan.pause(failures, o.Random())); err != nil {
			return err
		}
	}
}

// errListing is a folder that could not be listed.
var errListing = errors.New("the folder cannot be listed now")

type watcher struct {
	st   store.Store
	root string
	o    Options
	each func(Event) error
	plan *planner
}

// turn lists the folder once, and looks at what is due.
func (w *watcher) turn(ctx context.Context) error {
	found, err := checkpoint.Candidates(ctx, w.st, w.root)
	if err != nil {
		return fmt.Errorf("watch %s: %w: %w", w.st.Address(w.root), errListing, err)
	}
	gone, looks := w.plan.listed(w.o.Clock.Now(), found)
	for _, path := range gone {
		if err := w.each(Event{Kind: Deleted, Path: path}); err != nil {
			return err
		}
	}
	for _, path := range looks {
		if err := w.look(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// look opens a folder and tells of it if it is complete.
func (w *watcher) look(ctx context.Context, path string) error {
	c, err := checkpoint.Open(ctx, w.st, path, checkpoint.Options{WorldSize: w.o.WorldSize})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	found, version := verdictOf(c, err)
	if err != nil && found == unfinished && !errors.Is(err, fs.ErrNotExist) {
		w.o.Report(fmt.Errorf("watch %s: %w", w.st.Address(path), err))
	}
	if !w.plan.looked(w.o.Clock.Now(), path, found, version, w.o.Random()) {
		return nil
	}
	return w.each(Event{Kind: Committed, Path: path, Checkpoint: c})
}

// verdictOf says what a look found. What is not known is only how many files there should be, where a second look decides.
func verdictOf(c *checkpoint.Checkpoint, err error) (verdict, string) {
	switch {
	case errors.Is(err, checkpoint.ErrNone):
		return no, ""
	case err != nil:
		return unfinished, ""
	case len(c.Problems) == 0:
		return whole, c.Identity()
	case len(c.Problems) == 1 && c.Problems[0].Kind == "ranks-unknown":
		return perhaps, c.Identity()
	}
	return unfinished, ""
}
