package agent

import (
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// limits are the budgets that a planner keeps.
type limits struct {
	memory  int64         // bytes of the shelf, reserved and used together
	window  int64         // steps looked up beyond those that readers fetch
	workers int           // preparations at once
	queue   int           // preparations with reserved bytes at once
	egress  int64         // prepared bytes a second, 0: no limit
	jobs    int           // jobs at once
	high    float64       // share of CPU used by others that closes the gate
	low     float64       // share below which it opens again
	dwell   time.Duration // how long it must have been below
}

// event is something that happened. The planner's events are the types named ...Event.
type event interface{ apply(*planner, time.Duration) }

// action is something to be done. The planner's actions are the types in action.go.
type action interface{ String() string }

// planner decides what the agent does next: which samples to look up, which to prepare and when, how
// to answer, what to throw away. It performs no I/O, reads no clock and starts nothing: the same
// events at the same times give the same actions. It is used by one goroutine.
type planner struct {
	limits    limits
	jobs      map[string]*job
	byID      map[uint64]*entry // every entry that holds bytes or is wanted
	byKey     map[key]*entry    // the wanted ones
	waiting   []*entry          // in order of start
	queued    []*entry          // in order of start
	unordered bool              // the two lists must be sorted again
	runs      []*entry          // running or stopping
	served    []*entry          // ready and handed out, in order of first time
	asked     []*entry          // entries with waiters
	held      int64             // bytes reserved or used; never above limits.memory
	gate      gate
	costs     costs
	poison    poison
	bucket    bucket
	nextID    uint64
	out       []action
}

func newPlanner(l limits) *planner {
	return &planner{
		limits: l,
		jobs:   make(map[string]*job),
		byID:   make(map[uint64]*entry),
		byKey:  make(map[key]*entry),
		costs:  make(costs),
		gate:   gate{high: l.high, low: l.low, dwell: l.dwell, max: l.workers},
		bucket: bucket{rate: l.egress, level: l.egress},
	}
}

// plan takes an event that happened at now, and returns the actions that follow, in the order in
// which they must be executed. The slice is valid until the next call. now never decreases.
func (p *planner) plan(ev event, now time.Duration) []action {
	p.out = p.out[:0]
	ev.apply(p, now)
	p.expire(now)
	p.admit(now)
	return p.out
}

// wake returns the next moment at which a deadline passes or work must start; false if there is none.
// Besides that, the planner wants to be called about once a second, as the load is sampled.
func (p *planner) wake() (time.Duration, bool) {
	at, found := p.nextStart()
	sooner := func(waiters []waiter) {
		for _, w := range waiters {
			if !found || w.until < at {
				at, found = w.until, true
			}
		}
	}
	for _, e := range p.asked {
		sooner(e.waiters)
	}
	for _, j := range p.jobs {
		for _, s := range j.steps {
			sooner(s.waiters)
		}
	}
	return at, found
}

func (p *planner) do(a action) { p.out = append(p.out, a) }

// tickEvent says that time passed.
type tickEvent struct{}

func (tickEvent) apply(*planner, time.Duration) {}

// loadEvent says how loaded the node is by others; known is false if it could not be measured.
type loadEvent struct {
	load  LoadSample
	known bool
}

func (ev loadEvent) apply(p *planner, now time.Duration) {
	s := ev.load
	if !ev.known {
		s = LoadSample{CPU: 1}
	}
	was := p.gate.open
	p.gate.observe(s, len(p.runs) == 0, len(p.runs) >= p.gate.granted, now)
	if p.gate.open != was {
		p.do(gateAction{open: p.gate.open, reason: p.gate.reason()})
	}
	if was && !p.gate.open {
		p.shed(now)
	}
}

// expire answers the readers whose deadline has passed and frees the jobs that went silent.
func (p *planner) expire(now time.Duration) {
	for _, j := range p.sortedJobs() {
		p.expireSaving(j, now)
		if now-j.seen >= j.ttl && !j.saving.active() {
			p.free(j, now, "ttl")
			continue
		}
		j.expire(p, now)
	}
	for _, e := range p.asked {
		p.expireWaiters(e, now)
	}
	p.asked = slices.DeleteFunc(p.asked, func(e *entry) bool {
		e.asked = len(e.waiters) > 0
		return !e.asked
	})
}

// expireWaiters answers the readers of e whose deadline has passed. Once nobody waits any more, the
// work would come too late for all who asked.
func (p *planner) expireWaiters(e *entry, now time.Duration) {
	before := len(e.waiters)
	e.waiters = slices.DeleteFunc(e.waiters, func(w waiter) bool {
		if w.until > now {
			return false
		}
		p.answerRaw(w, fetch.ReasonNotReady)
		return true
	})
	if len(e.waiters) == 0 && before > 0 {
		p.abandon(e, fetch.ReasonNotReady, now)
	}
}
