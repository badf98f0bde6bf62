package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// task is one order under way, as the worker has it.
type task struct {
	order
	id        plan.ID
	maker     controller.Maker
	on        controller.Placement
	fact      bool          // what was there before has to be read first
	until     time.Duration // the end of its lease
	rate      *rate
	stop      context.CancelFunc
	limit     time.Duration // when it is to end; 0: never
	stopped   time.Duration // when it was told to; 0: it was not
	abandoned atomic.Bool   // it did not end, and may change nothing any more
	ended     atomic.Bool
}

// result is what came of a task.
type result struct {
	*task
	records []journal.Record // what the journal says of it by now
	done    doneMake
	err     error
	unsaid  bool // the journal does not have its end
}

// heldLimit is how long reading the lease may take.
const heldLimit = 30 * time.Second

var errAbandoned = errors.New("the call was given up: it did not end when it was told to")

// work does a task: it journals it, asks whether this controller still is the active one, acts, and journals what came of it.
func (e *Engine) work(ctx context.Context, t *task) (r result) {
	r.task = t
	func() {
		defer func() {
			if p := recover(); p != nil {
				e.o.Log.Error("a maker panicked", zap.Uint64("placement", uint64(t.id)), zap.String("action", t.verb), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
				r.err = fmt.Errorf("the maker panicked: %v", p)
			}
		}()
		if t.maker == nil {
			r.err = &controller.Error{Reason: plan.ReasonMeans, Err: fmt.Errorf("this controller makes no %s", t.on.Make.Means)}
			return
		}
		if r.err = e.intend(ctx, &r); r.err != nil {
			return
		}
		if r.err = e.fence(ctx, t); r.err != nil {
			return
		}
		r.err = e.act(ctx, &r)
	}()
	if r.records != nil && !t.abandoned.Load() {
		e.record(&r)
	}
	return r
}

// intend journals what will be done, and how the world is before it. What takes something away is done also when that cannot be written: the marks in the
// stores say that it has to be.
func (e *Engine) intend(ctx context.Context, r *result) error {
	t := r.task
	at := e.o.Clock.Wall()
	var records []journal.Record
	add := func(kind journal.Kind, body json.RawMessage) {
		records = append(records, journal.Record{At: at, Placement: uint64(t.id), Kind: kind, Action: t.verb, Body: body})
	}
	if t.fact {
		fact, err := t.maker.Fact(ctx, t.on.Make)
		if err != nil {
			return err
		}
		if fact != nil {
			add(journal.Fact, fact)
			t.on.Fact = fact
		}
	}
	add(journal.Intent, body(t.action, at.Add(t.until-e.o.Clock.Now())))
	if err := e.append(t, records...); err != nil && !t.undoes() {
		return err
	}
	r.records = records
	return nil
}

// append writes records, and raises the alarm where that fails.
func (e *Engine) append(t *task, records ...journal.Record) error {
	_, err := e.o.Journal.Append(records...)
	e.count(func(s *Stats) {
		s.JournalDown = err != nil
		if err != nil {
			s.JournalErrors++
		}
	})
	if err != nil {
		e.o.Log.Error("the journal cannot be written: nothing new begins until it can; what is undone goes on",
			zap.Uint64("placement", uint64(t.id)), zap.String("action", t.verb), zap.Error(err))
		return fmt.Errorf("the journal cannot be written: %w", err)
	}
	return nil
}

// fence asks whether the world may be changed.
func (e *Engine) fence(ctx context.Context, t *task) error {
	if t.abandoned.Load() {
		return errAbandoned
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.held(ctx); err != nil {
		return fmt.Errorf("the lease of the active controller: %w", err)
	}
	return nil
}

// held asks whether this controller still is the active one. Once it is not, it never is again.
func (e *Engine) held(ctx context.Context) error {
	if err := e.lost.Load(); err != nil {
		return *err
	}
	ctx, cancel := context.WithTimeout(ctx, heldLimit)
	defer cancel()
	err := e.o.Lease.Held(ctx)
	if errors.Is(err, store.ErrNotHeld) && e.lost.CompareAndSwap(nil, &err) {
		close(e.over)
	}
	return err
}

// act calls the maker.
func (e *Engine) act(ctx context.Context, r *result) error {
	t := r.task
	t.on.Lease = max(t.until-e.o.Clock.Now(), 0)
	tools := controller.Tools{
		Fence:    func(ctx context.Context) error { return e.fence(ctx, t) },
		Rate:     t.rate.get,
		Progress: func(int64) {}, // only of makings
	}
	switch t.verb {
	case makeVerb:
		m, end := e.measure(t)
		defer end()
		tools.Progress = func(bytes int64) { m.told(bytes, e.o.Clock.Now()) }
		t.rate.begin(e.o.Clock.Now())
		defer func() { r.done.Took = t.rate.end(e.o.Clock.Now()) }()
		made, err := t.maker.Make(ctx, t.on, tools)
		r.done.Digest, r.done.Reused, r.done.Short = made.Digest, made.Reused, made.Short
		return err
	case publishVerb:
		return t.maker.Publish(ctx, t.on, tools)
	case extendVerb:
		return t.maker.Extend(ctx, t.on, tools)
	case withdrawVerb:
		return t.maker.Withdraw(ctx, t.on, tools)
	}
	return t.maker.Remove(ctx, t.on, tools)
}

// record journals what came of a task. If that fails the planner is told all the same: after a restart it is done again, which does no harm.
func (e *Engine) record(r *result) {
	rec := journal.Record{At: e.o.Clock.Wall(), Placement: uint64(r.id), Kind: journal.Done, Action: r.verb}
	switch {
	case r.err != nil:
		rec.Kind, rec.Body = journal.Failed, mustJSON(failure{reasonOf(r.err), r.err.Error()})
	case r.verb == makeVerb:
		rec.Body = mustJSON(r.done)
	}
	r.unsaid = e.append(r.task, rec) != nil
	r.records = append(r.records, rec)
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values
	}
	return b
}

// reasonOf is what an error means for planning.
func reasonOf(err error) plan.Reason {
	var known *controller.Error
	if errors.As(err, &known) {
		return known.Reason
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, full) {
			return plan.ReasonSite
		}
	}
	switch store.ClassOf(err) {
	case store.IdentityChanged:
		return plan.ReasonIdentity
	case store.NotFound:
		return plan.ReasonSource
	}
	return plan.ReasonFailed
}
