// Package execute does what the planner decides: it is the part of the controller with goroutines, a clock and stores. One goroutine owns the planner; what
// takes time is done by workers, of which one placement has at most one at a time.
package execute

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// Clock is the controller's.
type Clock interface {
	// Now is monotonic, since any fixed moment.
	Now() time.Duration
	// Wall is for people, and for what has to be compared after a restart.
	Wall() time.Time
	// After sends once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Looker finds out what the planner asks for. It is safe for concurrent use.
type Looker interface {
	// Look returns one file for each path; where there is none, its Identity is empty.
	Look(ctx context.Context, paths []string) []plan.File
	Inspect(ctx context.Context, path string) plan.Checkpoint
}

// Lease is what makes this controller the active one; a store.Claim is one.
type Lease interface {
	// Held returns nil while no other controller can have become the active one. An error that matches store.ErrNotHeld says that one may have;
	// after any other nothing is changed until the next call returns nil.
	Held(ctx context.Context) error
}

// Journal is what a [journal.Journal] does.
type Journal interface {
	Append(records ...journal.Record) (first uint64, err error)
	Read(from uint64, each func(journal.Record) error) error
	LastPlacement() (uint64, error)
	Compact(over func(placement uint64) bool) error
}

// Options configure an [Engine]. Only Makers, Looker and Clock have no default, and, but for a dry run, Journal and Lease.
type Options struct {
	// Plan configures the planner. Its NextID is not used: the journal knows.
	Plan    plan.Options
	Journal Journal
	// Name is the controller's, in the marks of what it makes: see [Name].
	Name   string
	Makers map[plan.Means]controller.Maker
	Looker Looker
	Lease  Lease
	// World finds what controllers left in the stores. Nil: nothing is looked for, and the journal alone says what there is.
	World World
	Clock Clock
	// Audit takes what is done, one call at a time. It holds up everything, so it must be quick.
	Audit func(audit.Entry)
	Log   *zap.Logger
	// Reconcile is how often the world is compared with what should be there. Default 1 min.
	Reconcile time.Duration
	// DryRun plans and does nothing: the audit log says what would be done, and the planner is told that it was.
	DryRun bool
	// Settings are budgets, prices, policy, the cluster and sites as they are at the beginning.
	Settings []plan.Event
}

// Stats are counts since the start, for metrics.
type Stats struct {
	// Begun are actions by their name, Failed those of them that failed.
	Begun, Failed map[string]int64
	// Running are those under way, Waiting those that wait for their turn.
	Running, Waiting int
	// JournalErrors are records that could not be written; JournalDown says that the last one could not.
	JournalErrors int64
	JournalDown   bool
	// Strays are leavings of other controllers, or of this one's past, that were undone, Lost placements that were not there any more.
	Strays, Lost int64
	// Refused are the planner's refusals, by their reason.
	Refused map[plan.Reason]int64
	// Abandoned are calls of makers that did not return long after they were to end.
	Abandoned int64
}

// Engine does what a planner decides.
type Engine struct {
	o       Options
	calls   chan call
	ran     chan struct{} // has one element: Run takes it
	stopped chan struct{} // closed when Run returns
	lost    atomic.Pointer[error]
	over    chan struct{} // closed when the lease is lost

	mu     sync.Mutex
	stats  Stats
	meters map[plan.ID]*meter // of makings under way
}

// call is something that the loop is to do.
type call struct {
	f    func(*loop)
	done chan struct{}
}

var errStopped = errors.New("the controller has stopped")

// New returns an engine. It does no I/O.
func New(o Options) (*Engine, error) {
	switch {
	case o.Clock == nil || o.Looker == nil:
		return nil, errors.New("execute.New: a clock and a looker are needed")
	case !o.DryRun && (o.Journal == nil || o.Lease == nil):
		return nil, errors.New("execute.New: without a journal and a lease nothing can be done: only a dry run")
	}
	if o.Audit == nil {
		o.Audit = func(audit.Entry) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Reconcile <= 0 {
		o.Reconcile = time.Minute
	}
	e := &Engine{o: o, calls: make(chan call), ran: make(chan struct{}, 1), stopped: make(chan struct{}), over: make(chan struct{})}
	e.ran <- struct{}{}
	e.stats = Stats{Begun: make(map[string]int64), Failed: make(map[string]int64), Refused: make(map[plan.Reason]int64)}
	e.meters = make(map[plan.ID]*meter)
	return e, nil
}

// Tell gives the planner an event, and returns when what follows was begun. who said so is audited where it is an operator's doing.
func (e *Engine) Tell(ctx context.Context, who string, ev plan.Event) error {
	return e.call(ctx, func(l *loop) {
		l.auditEvent(who, ev)
		l.step(ev)
	})
}

// Ask runs f in the goroutine that owns the planner. f must be quick and only read.
func (e *Engine) Ask(ctx context.Context, f func(p *plan.Planner, now time.Duration)) error {
	return e.call(ctx, func(l *loop) { f(l.p, e.o.Clock.Now()) })
}

func (e *Engine) call(ctx context.Context, f func(*loop)) error {
	c := call{f, make(chan struct{})}
	select {
	case e.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		return errStopped
	}
	select {
	case <-c.done:
		return nil
	case <-e.stopped: // it may have been done last
		select {
		case <-c.done:
			return nil
		default:
			return errStopped
		}
	}
}

// Stats returns counts as they are now.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Begun, s.Failed, s.Refused = maps.Clone(s.Begun), maps.Clone(s.Failed), maps.Clone(s.Refused)
	return s
}

func (e *Engine) count(f func(*Stats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.stats)
}

// body is an action as the journal has it, with the end of its lease by the wall clock.
func body(a plan.Action, until time.Time) json.RawMessage {
	var v any
	switch a := a.(type) {
	case plan.Make:
		v = struct {
			plan.Make
			Until time.Time `json:"until"`
		}{a, until}
	case plan.Publish:
		v = struct {
			plan.Publish
			Until time.Time `json:"until"`
		}{a, until}
	case plan.Extend:
		v = struct {
			plan.Extend
			Until time.Time `json:"until"`
		}{a, until}
	default:
		v = a
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // actions are plain values
	}
	return b
}
