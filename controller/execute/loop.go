package execute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
)

const (
	// atOnce bounds the actions of one means at one site that are under way, and those that remove: what takes long keeps nothing from being withdrawn. The planner's
	// budgets bound makings.
	atOnce = 16
	// callLimit is how long an action may take that is not a making; what a making may take is its lease.
	callLimit = 5 * time.Minute
	// stopLimit is how long a call may go on after it was told to end.
	stopLimit = time.Minute
	// glance is how often the calls under way are looked at.
	glance = time.Second
)

// loop is one run of an engine: it is used by the goroutine of Run alone, but for its channels.
type loop struct {
	e       *Engine
	p       *plan.Planner
	ctx     context.Context // of workers
	lines   map[plan.ID]*line
	owing   map[plan.ID]bool  // whose maker has to be told of a longer lease
	tasks   map[plan.ID]*task // under way
	pools   map[place]*pool
	events  []plan.Event // what the planner is to be told next
	jobs    map[string]*jobs
	glanced time.Duration // when the calls under way were looked at last
	done    chan func()   // what workers have to say
	workers int           // that will say something
	refused refusals
	checks  checks
}

// place is what a pool of workers is for.
type place struct {
	means   plan.Means
	site    string
	removes bool
}

// pool bounds what is under way at one place.
type pool struct {
	busy    int
	waiting []plan.ID
}

// Run recovers what a predecessor left and then does what the planner decides, until ctx ends: then it returns nil. It returns an error that matches
// store.ErrNotHeld when another controller may have become the active one, and others when the journal cannot be read. All its goroutines have ended then,
// but calls of makers that do not return, which the error names. What is there stays, for its leases or the next controller. An engine runs once.
func (e *Engine) Run(ctx context.Context) error {
	select {
	case <-e.ran:
	default:
		return errors.New("execute.Run: an engine runs once")
	}
	defer close(e.stopped)
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop{
		e: e, ctx: work, lines: make(map[plan.ID]*line), owing: make(map[plan.ID]bool), tasks: make(map[plan.ID]*task), pools: make(map[place]*pool), jobs: make(map[string]*jobs),
		done: make(chan func()), refused: newRefusals(), checks: newChecks(),
	}
	err := l.recover(work)
	if err == nil {
		err = l.run(ctx)
	}
	cancel()
	return errors.Join(err, l.wait())
}

// run handles what happens, one thing after the other.
func (l *loop) run(ctx context.Context) error {
	e := l.e
	for {
		timer := e.o.Clock.After(l.pause())
		select {
		case <-ctx.Done():
			return nil
		case <-e.over:
			return l.lost()
		case c := <-e.calls:
			c.f(l)
			close(c.done)
		case then := <-l.done:
			l.workers--
			then()
		case <-timer:
			l.glance()
			l.step(plan.Tick{})
		}
	}
}

func (l *loop) lost() error {
	err := *l.e.lost.Load()
	l.e.o.Log.Error("another controller may be the active one: this one ends", zap.Error(err))
	return fmt.Errorf("execute.Run: the lease is lost: %w", err)
}

// pause is how long nothing has to be done if nothing happens.
func (l *loop) pause() time.Duration {
	now := l.e.o.Clock.Now()
	next := time.Duration(math.MaxInt64)
	if !l.e.o.DryRun {
		next = l.checks.next
	}
	if at, ok := l.p.Wake(); ok {
		next = min(next, at)
	}
	if len(l.tasks)+len(l.owing) > 0 {
		next = min(next, l.glanced+glance) // whatever else happens, and however often
	}
	return max(next-now, 0)
}

// note remembers whether a maker has to be told of a longer lease.
func (l *loop) note(one *line) {
	if one.owesExtend() && l.lines[one.id] == one {
		l.owing[one.id] = true
	} else {
		delete(l.owing, one.id)
	}
}

// step tells the planner what happened, and begins what follows.
func (l *loop) step(ev plan.Event) {
	l.events = append(l.events, ev)
	for len(l.events) > 0 {
		ev, l.events = l.events[0], l.events[1:]
		for _, a := range l.p.Step(ev, l.e.o.Clock.Now()) {
			l.do(a)
		}
	}
	l.events = nil
	l.e.count(func(s *Stats) { s.Running, s.Waiting = len(l.tasks), l.waiting() })
}

// tell has the planner told when it is its turn.
func (l *loop) tell(ev plan.Event) { l.events = append(l.events, ev) }

// do begins an action, or puts it behind those of its placement.
func (l *loop) do(a plan.Action) {
	l.e.o.Log.Debug("planned", zap.Stringer("action", a))
	if l.e.o.DryRun && l.pretend(a) {
		return
	}
	switch a := a.(type) {
	case plan.Look:
		l.look(a)
	case plan.Inspect:
		l.inspect(a)
	case plan.Refuse:
		l.refuse(a)
	case plan.Make:
		l.lines[a.ID] = &line{id: a.ID, means: a.Means, site: a.Site, rate: newRate()}
		l.take(a.ID, a)
	case plan.Publish:
		if l.lines[a.ID] == nil {
			l.lines[a.ID] = &line{past: past{make: madeUp(a)}, id: a.ID, means: a.Means, site: a.Site, rate: newRate()}
		}
		l.take(a.ID, a)
	case plan.Extend:
		l.take(a.ID, a)
	case plan.Pace:
		l.take(a.ID, a)
	case plan.Withdraw:
		l.take(a.ID, a)
	case plan.Remove:
		l.take(a.ID, a)
	}
}

func (l *loop) take(id plan.ID, a plan.Action) {
	one := l.lines[id]
	if one == nil {
		l.nothing(id, a)
		return
	}
	for _, o := range one.take(a, l.e.o.Clock.Now()) {
		l.tell(plan.Failed{ID: id, Action: o.verb, Reason: plan.ReasonUnneeded, Detail: "it is undone before it was begun"})
	}
	if t := l.tasks[id]; t != nil && one.cancel {
		l.stop(t)
	}
	l.note(one)
	l.begin(one)
}

// nothing answers for a placement of which there is nothing.
func (l *loop) nothing(id plan.ID, a plan.Action) {
	switch a.(type) {
	case plan.Withdraw:
		l.tell(plan.Done{ID: id, Action: withdrawVerb})
	case plan.Remove:
		l.tell(plan.Done{ID: id, Action: removeVerb})
	}
}

// stop tells a call to end.
func (l *loop) stop(t *task) {
	if t.stopped == 0 {
		t.stopped = max(l.e.o.Clock.Now(), 1)
		t.stop()
	}
}

// begin starts what comes next for a placement, if there is room.
func (l *loop) begin(one *line) {
	if one.active != "" {
		return
	}
	next, ok := one.peek(l.e.o.Clock.Now())
	if !ok {
		return
	}
	if next.undoes() && !one.begun {
		l.unbegun(one, next)
		return
	}
	if next.verb != makeVerb {
		pool := l.pool(one, next.verb)
		if pool.busy >= atOnce {
			if !slices.Contains(pool.waiting, one.id) {
				pool.waiting = append(pool.waiting, one.id)
			}
			return
		}
		pool.busy++
	}
	l.start(one)
}

// unbegun undoes what was never begun.
func (l *loop) unbegun(one *line, o order) {
	one.queue = one.queue[1:]
	if o.verb == removeVerb || one.means == plan.Even {
		delete(l.lines, one.id)
		l.note(one)
	}
	l.tell(plan.Done{ID: one.id, Action: o.verb})
}

func (l *loop) pool(one *line, verb string) *pool {
	at := place{one.means, one.site, verb == removeVerb}
	if l.pools[at] == nil {
		l.pools[at] = &pool{}
	}
	return l.pools[at]
}

// start has a worker do what comes next for a placement.
func (l *loop) start(one *line) {
	now := l.e.o.Clock.Now()
	o, _ := one.next(now)
	ctx, stop := context.WithCancel(l.ctx)
	t := &task{
		order: o, id: one.id, maker: l.e.o.Makers[one.means], on: l.placement(one, o), fact: o.verb == makeVerb && !one.begun,
		until: one.until, rate: one.rate, stop: stop,
	}
	if o.verb != makeVerb {
		t.limit = now + callLimit
	}
	t.action = t.current(now)
	l.tasks[one.id] = t
	l.audit(one, o.verb, o.why, nil, doneMake{})
	l.e.count(func(s *Stats) { s.Begun[o.verb]++ })
	l.spawn(func() func() {
		r := l.e.work(ctx, t)
		t.ended.Store(true)
		return func() { l.finish(r) }
	})
}

// current is the action with the lease as it is when it is begun: it may have waited.
func (t *task) current(now time.Duration) plan.Action {
	switch a := t.action.(type) {
	case plan.Make:
		a.Lease = max(t.until-now, 0)
		return a
	case plan.Publish:
		a.Lease = max(t.until-now, 0)
		return a
	}
	return t.action
}

// finish goes on when a worker has ended.
func (l *loop) finish(r result) {
	r.stop()
	one := l.lines[r.id]
	if r.abandoned.Load() || one == nil || l.tasks[r.id] != r.task {
		return // it was answered for
	}
	if l.e.lost.Load() != nil {
		return // the run ends
	}
	for _, rec := range r.records {
		if err := one.add(rec); err != nil {
			l.e.o.Log.Error("a record that was written cannot be read", zap.Error(err))
		}
	}
	l.settle(one, r)
	l.step(plan.Tick{})
}

// settle takes the end of a task, and tells the planner.
func (l *loop) settle(one *line, r result) {
	now := l.e.o.Clock.Now()
	delete(l.tasks, r.id)
	goesOn := one.ended(r.err == nil, now)
	l.audit(one, wordFor(r), r.why, r.err, r.done)
	if r.err != nil && !goesOn {
		l.e.count(func(s *Stats) { s.Failed[r.verb]++ })
	}
	switch {
	case goesOn || r.verb == extendVerb:
	case r.err != nil:
		l.tell(plan.Failed{ID: r.id, Action: r.verb, Reason: reasonOf(r.err), Detail: r.err.Error()})
	default:
		l.tell(plan.Done{ID: r.id, Action: r.verb, Reused: r.done.Reused, Took: r.done.Took, Short: r.done.Short})
	}
	if one.over {
		delete(l.lines, one.id)
		l.checks.over[one.id] = true
		l.checks.unsaid = l.checks.unsaid || r.unsaid
	}
	l.note(one)
	if !one.over {
		l.begin(one)
	}
	if r.verb != makeVerb {
		l.vacate(l.pool(one, r.verb))
	}
}

// waiting is how many placements wait for a place in a pool.
func (l *loop) waiting() (n int) {
	for _, p := range l.pools {
		n += len(p.waiting)
	}
	return n
}

// vacate gives a place in a pool to the next that waits.
func (l *loop) vacate(p *pool) {
	p.busy--
	for len(p.waiting) > 0 && p.busy < atOnce {
		one := l.lines[p.waiting[0]]
		p.waiting = p.waiting[1:]
		if one != nil {
			l.begin(one)
		}
	}
}

// glance looks after the calls under way: those that take too long are told to end, those that do not are given up, and makings are cut for a longer lease.
func (l *loop) glance() {
	now := l.e.o.Clock.Now()
	l.glanced = now
	for _, id := range byID(l.tasks) {
		t, one := l.tasks[id], l.lines[id]
		switch {
		case t.stopped > 0 && now >= t.stopped+stopLimit:
			l.abandon(one, t)
		case t.limit > 0 && now >= t.limit:
			l.stop(t)
		case one.due(now):
			one.cut = true
			l.stop(t)
		}
	}
	for _, id := range byID(l.owing) {
		l.begin(l.lines[id])
	}
	l.check(now)
}

// abandon goes on without a call that does not end. Whatever it still asks for is refused.
func (l *loop) abandon(one *line, t *task) {
	t.abandoned.Store(true)
	l.e.o.Log.Error("a call of a maker does not end: it is given up", zap.Uint64("placement", uint64(t.id)), zap.String("action", t.verb))
	l.e.count(func(s *Stats) { s.Abandoned++ })
	one.begun = true // it may have begun
	one.cut = false
	l.settle(one, result{task: t, err: errAbandoned})
}

// placement is what a maker works on.
func (l *loop) placement(one *line, o order) controller.Placement {
	p := controller.Placement{Make: one.make, Fact: one.fact}
	if one.publish != nil && (one.published || o.undoes()) {
		pub := *one.publish
		p.Publish = &pub
	}
	if a, ok := o.action.(plan.Publish); ok {
		p.Publish = &a
	}
	if of := l.lines[one.make.Of]; one.make.Of != 0 && of != nil {
		its := l.placement(of, order{})
		p.Of = &its
	}
	return p
}
