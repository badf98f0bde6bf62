package plan

import (
	"fmt"
	"slices"
	"time"
)

// state is where a placement is between being wanted and being gone.
type state uint8

const (
	waiting     state = iota // for its time, or for room in its pool's queue
	making                   // [Make] is under way
	paused                   // making has begun and stands still
	publishing               // [Publish] is under way
	live                     // readers find it
	withdrawing              // [Withdraw] is under way
	grace                    // readers may have it open
	removing                 // [Remove] is under way
)

var stateNames = [...]string{"waiting", "making", "paused", "publishing", "live", "withdrawing", "grace", "removing"}

func (s state) String() string { return stateNames[s] }

// undoing tells whether it is on its way out.
func (s state) undoing() bool { return s >= withdrawing }

// proposal is what should be somewhere, and what that is worth.
type proposal struct {
	identity       string
	sources, extra int32 // of files
	readers        int32 // of files
	way            way   // the means
	private        bool  // of copies: only the owner may read it
	emergency      bool
	content        int64 // bytes of the original
	start, until   time.Duration
	job            *job
	weight         float64       // accelerators that wait, times the probability
	saved          time.Duration // for each of them
	value, cost    float64
	rank           float64 // value per cost
}

// way is a [Means] in a byte: there may be a million proposals.
type way uint8

var ways = [...]Means{"", Copy, Even, Sibling, StorageType, Raise}

func wayOf(m Means) way { return way(max(slices.Index(ways[:], m), 0)) }

func (w *proposal) means() Means { return ways[w.way] }

func (w *proposal) access() Access {
	if w.private {
		return OwnerOnly
	}
	return AsOriginal
}

// bytes is what it takes while it lasts.
func (w *proposal) bytes() int64 {
	switch w.means() {
	case Even:
		return 0
	case Copy:
		return w.content
	}
	return w.content * int64(w.extra)
}

// bytes is what it takes while it lasts, with the replicas of a file itself that were not made: the store may still make them.
func (x *placement) bytes() int64 {
	n := x.want.bytes()
	if x.held != nil && x.want.means() != Sibling {
		n += x.want.content * int64(x.held.short)
	}
	return n
}

// rated gives a proposal its rank.
func (w *proposal) rated() {
	const free = 1e-9 // what costs nothing comes first, in the order of its value
	w.rank = w.value / (w.cost + free)
}

func (w *proposal) why() string {
	if w.weight == 0 {
		return "it is not asked for yet"
	}
	s := fmt.Sprintf("saves %v for %.4g accelerators, worth %.4g, costs %.4g", w.saved.Round(time.Millisecond), w.weight, w.value, w.cost)
	if w.readers > 0 {
		s = fmt.Sprintf("%d readers, %s", w.readers, s)
	}
	return s
}

// owner is the subject of a slot.
type owner interface {
	subject
	// name is the path.
	name() string
	// account is the job that would pay for what is made; "" where nobody asks.
	account(p *Planner) string
	// doubt forgets what is known of the source: it is asked for again.
	doubt()
}

// placement is bytes that are somewhere for a time, or will be.
type placement struct {
	id     ID
	slot   *slot
	parked *job  // whose use it waits for; nil if it is not parked
	index  int32 // in the pool's queue; -1
	state  state
	want   proposal
	held   *holding // nil until it is begun
}

func (x *placement) mark() *marker { return &x.held.marker }

// holding is what a placement has once it was begun.
type holding struct {
	marker          // of the placement: one that waits is looked at with its owner
	job      string // whose account it is on
	bytes    int64
	until    time.Duration // what the allowance was charged for
	rate     int64         // of the making, while it runs
	work     work
	begun    time.Duration
	readyAt  time.Duration
	opened   bool  // somebody read it
	short    int32 // extra sources that were not made
	graceEnd time.Duration
	retryAt  time.Duration // of the action that failed; 0: none did
	tries    uint8
	of       *placement   // whose data it shares
	sharers  []*placement // who share its data
	why      string       // it is undone
	damaged  bool
	promised time.Duration // the lease that the executor knows of
}

// settle brings a slot towards what is wanted of it. With want nil, the reason says why nothing is.
func (p *Planner) settle(s *slot, want *proposal, reason Reason, detail string) {
	switch {
	case want != nil && s.revoked:
		want, reason, detail = nil, ReasonRevoked, "the operator took it back; it is not made again while it is asked for"
	case want == nil && (reason == ReasonUnneeded || reason == ReasonCommit) && s.x != nil && s.x.held != nil && p.now < s.keep():
		p.alarm(s.owner, s.keep())
		return
	case want != nil && s.x == nil && p.now < s.notBefore():
		p.alarm(s.owner, s.notBefore())
		want, reason, detail = nil, ReasonFailed, fmt.Sprintf("it failed, and is tried again in %v", (s.notBefore()-p.now).Round(time.Second))
	}
	if want == nil {
		p.report(s, reason, detail)
		if s.x != nil {
			p.undo(s.x, sentence(reason, detail))
		}
		return
	}
	want.rated()
	if s.x == nil && want.start > p.now { // there may be many: nothing is kept of them but the moment
		p.alarm(s.owner, want.start)
		p.report(s, ReasonWait, "")
		return
	}
	if s.x == nil {
		s.x = &placement{id: p.nextID, slot: s, index: -1}
		p.nextID++
	}
	p.adjust(s.x, want)
}

// adjust gives a placement what is wanted of it by now.
func (p *Planner) adjust(x *placement, want *proposal) {
	switch {
	case x.state == waiting:
		x.want = *want
		p.line(x)
	case x.state == grace && x.want.identity == want.identity && x.want.means() == want.means() && x.want.access() == want.access() && !x.held.damaged && x.want.means().row() && p.mayStay(x):
		x.wanted(want)
		p.extend(x)
		p.publish(x)
	case x.state.undoing():
	case x.want.identity != want.identity:
		p.undo(x, "the source is another version")
	case x.want.access() != want.access():
		p.undo(x, string(ReasonPolicy)+": who may read it has changed")
	case x.want.means() != want.means():
		p.undo(x, "it is done by "+string(want.means())+" now")
	default:
		p.renew(x, want)
	}
}

// mayStay tells whether what is on its way out has room if it is wanted again: it is on the accounts still, and the budget may have been lowered.
func (p *Planner) mayStay(x *placement) bool {
	if of := x.held.of; of != nil && (of.state == removing || !p.mayStay(of)) {
		return false
	}
	l := x.slot.pool
	most := l.limit.held
	if x.want.emergency {
		most = l.limit.heldEmergency
	}
	return l.limit.on && (x.held.bytes == 0 || l.held <= most)
}

// wanted takes over for whom, how long and how urgently what was begun is there. How much it is stays.
func (x *placement) wanted(want *proposal) {
	is := x.want
	x.want = *want
	x.want.sources, x.want.extra, x.want.content = is.sources, is.extra, is.content
}

// renew takes over how long and how urgently a placement is wanted that was begun. What it is stays.
func (p *Planner) renew(x *placement, want *proposal) {
	changed := x.want.emergency != want.emergency
	x.wanted(want)
	p.extend(x)
	switch {
	case x.state == making && changed && x.held.rate > 0:
		p.pause(x, "its urgency changed")
	case x.state == paused && x.held.retryAt == 0:
		p.line(x)
	}
}

// line puts what waits into its pool's queue, when its time has come.
func (p *Planner) line(x *placement) {
	l := x.slot.pool
	if x.want.start > p.now && x.state == waiting {
		l.unline(x)
		p.alarm(x.slot.owner, x.want.start)
		p.report(x.slot, ReasonWait, "")
		return
	}
	if x.want.means() == Even {
		l.unline(x) // it may have been another means
		p.beginEven(x)
		return
	}
	l.stirred = true
	if x.index >= 0 {
		l.queue.fix(int(x.index))
		return
	}
	l.unpark(x)
	l.queue.push(x)
}

// unline takes a placement out of queue and parking.
func (l *pool) unline(x *placement) {
	l.queue.remove(x)
	l.unpark(x)
}

// beginEven publishes what needs no room.
func (p *Planner) beginEven(x *placement) {
	switch {
	case !p.local.limit.on:
		p.report(x.slot, ReasonOff, "temporary sources are switched off")
	case p.drained:
		p.report(x.slot, ReasonDrained, "nothing new begins")
	default:
		x.held = &holding{job: x.want.job.name, begun: p.now, until: x.want.until, promised: x.want.until}
		p.placements[x.id] = x
		p.publish(x)
		p.alarm(x, x.held.until)
	}
}

// publish lets readers find a placement.
func (p *Planner) publish(x *placement) {
	x.state = publishing
	p.report(x.slot, "", "")
	a := Publish{
		ID: x.id, Means: x.want.means(), Path: x.slot.owner.name(), Site: x.slot.pool.site, Lease: x.want.until - p.now,
		Identity: x.want.identity, Readers: int(x.want.readers), Job: x.held.job, Why: x.want.why(),
	}
	p.do(a)
}

// undo sets a placement on its way out.
func (p *Planner) undo(x *placement, why string) {
	switch x.state {
	case waiting:
		x.slot.pool.unline(x)
		x.slot.x = nil
		return
	case making, paused:
		x.slot.pool.unline(x)
		x.held.why = why
		p.remove(x)
	case publishing, live:
		x.held.why = why
		if !x.want.means().row() {
			p.remove(x)
			return
		}
		x.state = withdrawing
		x.held.retryAt, x.held.tries = 0, 0
		p.do(Withdraw{ID: x.id, Why: why})
	}
}

func (p *Planner) remove(x *placement) {
	x.state = removing
	x.held.retryAt, x.held.tries = 0, 0
	p.do(Remove{ID: x.id, Why: x.held.why})
}

// extend changes the lease of what was begun, as far as the allowance goes. A lease is never shortened here: what is not asked for any more is undone.
func (p *Planner) extend(x *placement) {
	h := x.held
	until := x.want.until
	if more := until - h.until; more > 0 && h.bytes > 0 && !x.slot.pool.days.take(float64(float64(h.bytes)*more.Seconds()), p.now) {
		until = h.until
		p.report(x.slot, ReasonBudget, "byte-hours: its lease is not extended")
	}
	h.until = max(h.until, until)
	x.want.until = h.until
	const step = 10 * time.Second // smaller changes are not worth a message
	if h.until >= h.promised+step {
		h.promised = h.until
		p.do(Extend{ID: x.id, Lease: h.until - p.now, Why: x.want.why()})
	}
	p.outlive(x)
	p.alarm(x, h.until)
}

// outlive has the data that x shares last as long as x.
func (p *Planner) outlive(x *placement) {
	if of := x.held.of; of != nil && of.held.promised < x.held.until {
		of.held.promised = x.held.until
		p.do(Extend{ID: of.id, Lease: x.held.until - p.now, Why: fmt.Sprintf("placement %d has the same content", x.id)})
	}
}

// decide looks at a placement when one of its times has come: the end of its lease or grace, or another try.
func (x *placement) decide(p *Planner) {
	h := x.held
	if h == nil {
		return
	}
	if h.retryAt > 0 && h.retryAt <= p.now {
		h.retryAt = 0
		p.again(x)
	}
	switch {
	case x.state == grace && len(h.sharers) == 0 && h.graceEnd <= p.now:
		p.remove(x)
	case x.state == grace && h.graceEnd > p.now:
		p.alarm(x, h.graceEnd)
	case x.state == grace: // until nobody shares it
	case !x.state.undoing() && h.until <= p.now && x.slot.keep() <= p.now:
		p.undo(x, "its lease has ended")
	case !x.state.undoing():
		p.alarm(x, max(h.until, x.slot.keep()))
	}
	if h.retryAt > 0 {
		p.alarm(x, h.retryAt)
	}
}

// again repeats the action that failed.
func (p *Planner) again(x *placement) {
	switch x.state {
	case paused:
		p.line(x)
	case publishing:
		p.publish(x)
	case withdrawing:
		p.do(Withdraw{ID: x.id, Why: x.held.why})
	case removing:
		p.do(Remove{ID: x.id, Why: x.held.why})
	}
}

// retry sets the time of another try.
func (p *Planner) retry(x *placement) {
	h := x.held
	h.retryAt = p.now + p.backoff(h.tries)
	h.tries = min(h.tries+1, 100)
	p.alarm(x, h.retryAt)
}

func (p *Planner) backoff(tries uint8) time.Duration { return p.o.RetryAfter << min(tries, 6) }

// gone forgets a placement that is no more.
func (p *Planner) gone(x *placement) {
	l := x.slot.pool
	p.stop(x)
	p.tallyGone(x)
	p.release(x, x.held.bytes)
	if of := x.held.of; of != nil {
		of.held.sharers = without(of.held.sharers, x)
		p.touch(of)
	}
	l.retract(x)
	delete(p.placements, x.id)
	x.slot.x = nil
	x.slot.forsake()
	p.touch(x.slot.owner)
}

func without(list []*placement, x *placement) []*placement {
	for i, one := range list {
		if one == x {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

func sentence(reason Reason, detail string) string {
	if detail == "" {
		return string(reason)
	}
	return string(reason) + ": " + detail
}

// report says why there is nothing, or it waits, when that is another reason than before.
func (p *Planner) report(s *slot, reason Reason, detail string) {
	before, numbers := s.because()
	if before == reason && numbers == detail {
		return
	}
	s.why = nil
	switch {
	case reason == ReasonWait:
		s.why = p.notYet
	case reason != "":
		s.why = &refusal{reason, detail}
	}
	if before == reason {
		return
	}
	if reason == "" || reason == ReasonWait || reason == ReasonUnneeded {
		return
	}
	r := Refuse{Path: s.owner.name(), Site: s.pool.site, Reason: reason, Detail: detail}
	if s.x != nil && s.x.want.job != nil {
		r.Job = s.x.want.job.name
	}
	p.do(r)
}
