package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/hints"
)

// envelope is a message to the loop. Only ev, or inspect, is always set.
type envelope struct {
	ev      event
	hint    *hints.Hint        // the hint that ev comes from
	task    *task              // of a schedule; the loop takes it over
	window  *hints.Window      // of a hint that continues one
	reply   chan<- hints.Reply // takes one reply to the hint without blocking
	replies chan<- reply       // takes every answer to a fetch without blocking
	job     string             // whose preparation ended
	tensor  *tensor            // what it made
	handled chan<- struct{}    // closed when the message was handled
	inspect chan<- []jobStatus // takes the state of all jobs without blocking
}

// loop is the one goroutine that owns the planner and what its actions work on.
type loop struct {
	*Agent
	ctx     context.Context // of everything it starts
	planner *planner
	tensors map[uint64]*tensor
	cancels map[uint64]context.CancelFunc // of running preparations
	tickets map[uint64]*ticket
	lookups map[string]*lookup // by job
}

// ticket is a fetch that has answers to come.
type ticket struct {
	replies chan<- reply
	left    int
}

// lookup resolves the steps of one task, in order.
type lookup struct {
	task   *task
	steps  *mailbox[resolveAction]
	cancel context.CancelFunc
}

func (a *Agent) newLoop(ctx context.Context) *loop {
	return &loop{
		Agent: a, ctx: ctx, planner: newPlanner(a.o.limits()),
		tensors: make(map[uint64]*tensor), cancels: make(map[uint64]context.CancelFunc),
		tickets: make(map[uint64]*ticket), lookups: make(map[string]*lookup),
	}
}

// run handles messages, and time, until its context ends.
func (l *loop) run() {
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			l.close()
			return
		case <-l.mail.wake:
		case <-timer.C:
		}
		for _, env := range l.mail.take() {
			l.handle(env)
		}
		now := l.now()
		l.execute(l.planner.plan(tickEvent{}, now), envelope{})
		l.beat.Store(int64(now))
		l.gauge()
		timer.Reset(l.pause(now))
	}
}

// pause is how long to wait if nothing happens.
func (l *loop) pause(now time.Duration) time.Duration {
	at, ok := l.planner.wake()
	if !ok || at-now > time.Second {
		return time.Second
	}
	return max(at-now, 0) + time.Microsecond
}

func (l *loop) handle(env envelope) {
	if env.handled != nil {
		defer close(env.handled)
	}
	if env.inspect != nil {
		env.inspect <- l.status()
		return
	}
	if env.hint != nil { // asked again: its run may have been replaced while its dataset was opened
		if r, ok := l.inbox.Admit(*env.hint); !ok {
			l.discard(env.task)
			env.reply <- r
			return
		}
	}
	if env.window != nil && !l.fits(env.hint) {
		env.reply <- hints.Refuse(hints.ReasonBusy, fmt.Sprintf("more than %d samples are announced and not passed", maxAnnounced))
		return
	}
	switch ev := env.ev.(type) {
	case fetchEvent:
		if len(ev.keys) > 0 {
			l.tickets[ev.ticket] = &ticket{replies: env.replies, left: len(ev.keys)}
		}
	case leftEvent:
		delete(l.tickets, ev.ticket)
	case doneEvent:
		l.tensors[ev.id] = env.tensor
		l.made(env.tensor, env.job)
		delete(l.cancels, ev.id)
	case failedEvent:
		delete(l.cancels, ev.id)
	}
	l.execute(l.planner.plan(env.ev, l.now()), env)
}

// execute does what the planner decided.
func (l *loop) execute(actions []action, env envelope) {
	for _, act := range actions {
		switch act := act.(type) {
		case verdictAction:
			l.verdict(act, env)
		case resolveAction:
			if k := l.lookups[act.job]; k != nil {
				k.steps.put(act)
			}
		case prepareAction:
			l.prepare(act)
		case stopAction:
			l.cancels[act.id]()
		case answerAction:
			l.answer(act)
		case evictAction:
			l.evict(act)
		case dropAction:
			l.drop(act)
		case gateAction:
			l.o.Log.Info("gate turned", zap.Bool("open", act.open), zap.String("reason", string(act.reason)))
		}
	}
}

// verdict answers a hint, and takes over the task of a schedule that changed something.
func (l *loop) verdict(act verdictAction, env envelope) {
	r := hints.Reply{Accepted: act.accepted, Reason: act.reason, Detail: act.detail}
	if act.accepted && act.fresh {
		switch {
		case env.task != nil:
			l.take(env.task)
		case env.window != nil:
			l.continues(env.hint.Job, env.window)
		}
	} else {
		l.discard(env.task)
	}
	l.inbox.Done(*env.hint, r)
	env.reply <- r
}

func (l *loop) take(t *task) {
	before := l.tasks.set(t)
	if before != nil {
		l.lookups[t.job].cancel()
		l.discard(before)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	k := &lookup{task: t, steps: newMailbox[resolveAction](), cancel: cancel}
	l.lookups[t.job] = k
	l.group.Go(func() { l.resolve(ctx, k) })
	l.o.Log.Info("job taken", zap.String("job", t.job), zap.String("run", t.run), zap.Uint64("generation", t.generation),
		zap.String("dataset", t.data.String()), zap.Int("agents", len(t.agents)))
}

// continues adds a window to the order of a job that has one: before its steps are looked up.
func (l *loop) continues(job string, w *hints.Window) {
	l.lookups[job].task.announced.add(w)
}

// fits tells whether what a window announces has room beside what its job has announced and not passed.
func (l *loop) fits(h *hints.Hint) bool {
	j, k := l.planner.jobs[h.Job], l.lookups[h.Job]
	return j == nil || j.run != h.Run || k.task.announced == nil || k.task.announced.fits(h.Window, j.progress)
}

// discard gives up what a task uses.
func (l *loop) discard(t *task) {
	if t == nil {
		return
	}
	if err := l.tasks.releaseAll(t.data.members); err != nil {
		l.o.Log.Warn("dataset not closed", zap.Error(err))
	}
}

func (l *loop) drop(act dropAction) {
	if k := l.lookups[act.job]; k != nil {
		k.cancel()
		delete(l.lookups, act.job)
	}
	l.discard(l.tasks.drop(act.job, act.run))
	l.o.Log.Info("job dropped", zap.String("job", act.job), zap.String("run", act.run), zap.String("why", act.why))
}

// resolve looks up the steps of a task until ctx ends.
func (l *loop) resolve(ctx context.Context, k *lookup) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.steps.wake:
		}
		for _, act := range k.steps.take() {
			items, err := l.items(ctx, k.task, act.step)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				l.metrics.resolveFailures.Inc()
				l.o.Log.Warn("step not looked up in full", zap.String("job", act.job), zap.Int64("step", act.step), zap.Error(err))
			}
			l.mail.put(envelope{ev: resolvedEvent{job: act.job, run: act.run, generation: act.generation, number: act.number, step: act.step, items: items}})
		}
	}
}

func (l *loop) items(ctx context.Context, t *task, step int64) (items []item, err error) {
	defer l.recovered("agent.resolve", &err)
	return t.items(ctx, step)
}

func (l *loop) prepare(act prepareAction) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.cancels[act.id] = cancel
	t := act.item.task
	open := l.tasks.holdAll(t.data)
	l.group.Go(func() {
		defer cancel()
		l.Agent.prepare(ctx, act, open)
		if open {
			l.discard(t)
		}
	})
}

func (l *loop) answer(act answerAction) {
	t := l.tickets[act.ticket]
	if t == nil { // its reader left in the meantime
		if act.id != 0 {
			l.mail.put(envelope{ev: releasedEvent{id: act.id}})
		}
		return
	}
	t.replies <- reply{want: act.index, reason: act.reason, lead: act.lead, id: act.id, tensor: l.tensors[act.id]}
	if t.left--; t.left == 0 {
		delete(l.tickets, act.ticket)
	}
}

// made counts a tensor.
func (l *loop) made(t *tensor, job string) {
	l.metrics.preparedBytes.Add(float64(len(t.data)))
	l.metrics.preparedCPU.Add(t.cpu.Seconds())
	if k := l.lookups[job]; k != nil {
		k.task.ledger.Prepared(int64(len(t.data)), t.cpu)
	}
}

func (l *loop) evict(act evictAction) {
	t := l.tensors[act.id]
	delete(l.tensors, act.id)
	if act.unused {
		l.metrics.unusedBytes.Add(float64(len(t.data)))
		l.metrics.unusedCPU.Add(t.cpu.Seconds())
		if k := l.lookups[act.job]; k != nil {
			k.task.ledger.Unused(int64(len(t.data)), t.cpu)
		}
	}
	l.buffers.put(t.data)
}

// close ends everything that the loop started, but does not wait for it.
func (l *loop) close() {
	for job, k := range l.lookups {
		l.drop(dropAction{job: job, run: k.task.run, why: "stop"})
	}
}

func (l *loop) gauge() {
	p, m := l.planner, l.metrics
	m.shelf.Set(float64(p.held))
	m.jobs.Set(float64(len(p.jobs)))
	m.queued.Set(float64(len(p.queued)))
	m.waiting.Set(float64(len(p.waiting)))
	m.running.Set(float64(len(p.runs)))
	m.cores.Set(float64(p.gate.granted))
	m.open.Set(0)
	if p.gate.open {
		m.open.Set(1)
	}
}
