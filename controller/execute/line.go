package execute

import (
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// order is one action of a placement.
type order struct {
	verb   string
	action plan.Action
	why    string
}

// undoes tells whether the order takes something away.
func (o order) undoes() bool { return o.verb == withdrawVerb || o.verb == removeVerb }

// line is what one placement is and what is to be done for it, one after the other.
type line struct {
	past
	id    plan.ID
	means plan.Means
	site  string
	queue []order
	// active is under way; "" if nothing is.
	active string
	// cancel says that what is under way is to end, cut that the making is then to go on.
	cancel, cut bool
	// until is the end of its lease, in the time of the planner, and given the one that the maker was told, at givenAt.
	until, given, givenAt time.Duration
	whyExtend             string
	extendAt              time.Duration // not before, after failures
	extendTries           int
	rate                  *rate
}

// take puts an action at the end of the line, and returns those that are not done for its sake.
func (l *line) take(a plan.Action, now time.Duration) (dropped []order) {
	switch a := a.(type) {
	case plan.Make:
		l.make = a
		l.until = max(l.until, now+a.Lease)
		l.rate.set(a.Rate, now)
		if a.Of != 0 {
			l.rate.set(unbounded, now) // nothing is sent
		}
		l.queue = append(l.queue, order{makeVerb, a, a.Why})
	case plan.Publish:
		l.until = max(l.until, now+a.Lease)
		l.queue = append(l.queue, order{publishVerb, a, a.Why})
	case plan.Extend:
		l.until = max(l.until, now+a.Lease)
		l.whyExtend = a.Why
	case plan.Withdraw:
		l.queue = append(l.queue, order{withdrawVerb, a, a.Why})
	case plan.Remove:
		dropped = l.queue
		l.queue = []order{{removeVerb, a, a.Why}}
		l.cancel = l.active != "" && l.active != removeVerb
		l.cut = false
	case plan.Pace:
		l.rate.set(a.Rate, now)
		decided := func(verb string) bool { return verb == makeVerb || verb == removeVerb }
		making := decided(l.active) || slices.ContainsFunc(l.queue, func(o order) bool { return decided(o.verb) })
		if a.Rate > 0 && !making && !l.made { // it failed before, or a predecessor began it; a longer lease may be told meanwhile
			l.queue = append(l.queue, order{makeVerb, l.make, a.Why})
		}
	}
	return dropped
}

// next takes the order whose turn it is; false if there is none now.
func (l *line) next(now time.Duration) (order, bool) {
	if l.active != "" {
		return order{}, false
	}
	o, ok := l.peek(now)
	if !ok {
		return order{}, false
	}
	if o.verb != extendVerb {
		l.queue = l.queue[1:]
	}
	l.active, l.cancel, l.cut = o.verb, false, false
	if !o.undoes() {
		l.given, l.givenAt = l.until, now
	}
	return o, true
}

// peek is the order that comes next. A longer lease is told when nothing else is to be done, and before a making goes on.
func (l *line) peek(now time.Duration) (order, bool) {
	if l.owesExtend() && now >= l.extendAt && (len(l.queue) == 0 || l.queue[0].verb == makeVerb) {
		return order{extendVerb, plan.Extend{ID: l.id, Lease: l.until - now, Why: l.whyExtend}, l.whyExtend}, true
	}
	if len(l.queue) > 0 {
		return l.queue[0], true
	}
	return order{}, false
}

// owesExtend tells whether the lease is longer than the maker knows.
func (l *line) owesExtend() bool { return l.begun && !l.over && l.until > l.given }

// due tells whether a making has to be cut so that the maker hears of the longer lease before the shorter one ends: a making can go on afterwards.
func (l *line) due(now time.Duration) bool {
	return l.active == makeVerb && !l.cancel && l.until > l.given && now >= l.givenAt+(l.given-l.givenAt)/4*3
}

// ended says that what was under way has ended, and tells whether it is only to go on later.
func (l *line) ended(ok bool, now time.Duration) (goesOn bool) {
	verb := l.active
	goesOn = !ok && l.cut
	l.active, l.cancel, l.cut = "", false, false
	switch {
	case verb == extendVerb && !ok:
		const first, most = 5 * time.Second, 6
		l.given = 0
		l.extendAt = now + first<<min(l.extendTries, most)
		l.extendTries++
	case verb == extendVerb:
		l.extendAt, l.extendTries = 0, 0
	case goesOn:
		l.queue = slices.Insert(l.queue, 0, order{makeVerb, l.make, "it goes on"})
	}
	return goesOn
}
