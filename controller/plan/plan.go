// Package plan decides which bytes should be where and until when, what may be spent on it, and when it is undone: copies of checkpoints at other
// sites, and more sources of files that many ranks read at once.
package plan

import (
	"math"
	"slices"
	"time"
)

// Planner decides what the controller does next. It performs no I/O, reads no clock and starts nothing: the same events at the same times give
// the same actions. It is used by one goroutine.
type Planner struct {
	o       Options
	now     time.Duration
	out     []Action
	policy  Policy
	prices  Prices
	budgets Budgets
	cluster Cluster
	sites   map[string]*Site
	notYet  *refusal // of all that wait for their time
	drained bool
	revoked map[site]time.Duration // before this planner began, until when
	local   *pool                  // of hot files
	pools   []*pool                // all, sorted by site
	working work                   // what all makings take of the storage nodes
	tally   Tally
	jobs    map[string]*job
	files   map[string]*file
	list    chunks[*file] // the same, in an order that depends on events alone
	copies  map[string]*checkpoint
	nextID  ID
	lookups []string // of the next Look
	alarms  alarms
	touched []subject // to be decided again, in order
	passed  []*placement

	placements map[ID]*placement // those that have begun
}

// New returns a planner that knows nothing: without budgets and policy it allows nothing.
func New(o Options) *Planner {
	p := &Planner{
		o: o.withDefaults(), policy: denyAll{}, sites: make(map[string]*Site), local: newPool(""), jobs: make(map[string]*job),
		files: make(map[string]*file), copies: make(map[string]*checkpoint), placements: make(map[ID]*placement),
	}
	p.nextID, p.notYet = p.o.NextID, &refusal{reason: ReasonWait}
	p.pools = []*pool{p.local}
	return p
}

// mostAtOnce bounds the subjects that one step decides on; [Planner.Wake] says that there are more.
const mostAtOnce = 2048

// Step takes an event that happened at now, in time since any fixed moment, and returns the actions that follow, in the order in which they must be
// begun. The slice is valid until the next call. A now before that of an earlier call counts as that one.
func (p *Planner) Step(ev Event, now time.Duration) []Action {
	p.now = max(p.now, now)
	clear(p.out)
	p.out = p.out[:0]
	ev.apply(p)
	p.ring()
	for n := 0; len(p.touched) > 0 && n < mostAtOnce; n++ {
		s := p.touched[0]
		p.touched = p.touched[1:]
		s.mark().touched = false
		s.decide(p)
	}
	if len(p.touched) == 0 { // the best is known only when all is decided
		p.touched = nil
		p.admit()
	}
	p.look()
	return p.out
}

// Wake returns when the planner wants a [Tick] if nothing happens before; false if never.
func (p *Planner) Wake() (time.Duration, bool) {
	switch {
	case len(p.touched) > 0:
		return p.now, true
	case p.alarms.list.len > 0:
		return max(p.alarms.list.at(0).at, p.now), true
	}
	return math.MaxInt64, false
}

// subject is what is decided on again when something about it has changed or one of its times has come.
type subject interface {
	decide(p *Planner)
	mark() *marker
}

// marker says that a subject waits for its turn, and the earliest alarm that was set for it.
type marker struct {
	touched bool
	alarm   time.Duration
}

func (m *marker) mark() *marker { return m }

// touch has a subject decided on in this step or the next.
func (p *Planner) touch(s subject) {
	if m := s.mark(); !m.touched {
		m.touched = true
		p.touched = append(p.touched, s)
	}
}

// alarm has a subject decided on at a time.
func (p *Planner) alarm(s subject, at time.Duration) {
	m := s.mark()
	if m.alarm != 0 && m.alarm <= at {
		return // it rings before, or has not rung yet because there was too much to do, and then asks again
	}
	m.alarm = at
	p.alarms.set(at, s)
}

// ring touches the subjects whose time has come.
func (p *Planner) ring() {
	for len(p.touched) < mostAtOnce {
		a, ok := p.alarms.next(p.now)
		if !ok {
			return
		}
		if m := a.of.mark(); m.alarm == a.at {
			m.alarm = 0
			p.touch(a.of)
		}
	}
}

func (p *Planner) do(a Action) { p.out = append(p.out, a) }

// look asks for the files that were found to be worth it in this step.
func (p *Planner) look() {
	if len(p.lookups) > 0 {
		p.do(Look{Paths: p.lookups})
		p.lookups = nil
	}
}

// poolOf returns the pool of a site.
func (p *Planner) poolOf(site string) *pool {
	i, found := slices.BinarySearchFunc(p.pools, site, func(l *pool, site string) int {
		switch {
		case l.site < site:
			return -1
		case l.site > site:
			return 1
		}
		return 0
	})
	if found {
		return p.pools[i]
	}
	l := newPool(site)
	l.limit = p.budgets.limitOf(site)
	l.days.set(l.limit.byteSecondsPerSecond, p.now)
	p.pools = slices.Insert(p.pools, i, l)
	return l
}

// leave takes a slot away from a pool. Evaluations name sites as they like: a pool of one that nobody else knows of goes with its last slot.
func (p *Planner) leave(l *pool) {
	l.slots--
	_, budgeted := p.budgets.WAN.Links[l.site]
	if l.slots > 0 || budgeted || p.sites[l.site] != nil || l.held > 0 {
		return
	}
	p.pools = slices.DeleteFunc(p.pools, func(o *pool) bool { return o == l })
}

// touchAll has everything decided on again.
func (p *Planner) touchAll() {
	for _, name := range sorted(p.copies) {
		p.touch(p.copies[name])
	}
	p.touchFiles()
	p.stir()
}

func (p *Planner) touchFiles() {
	p.touched = slices.Grow(p.touched, p.list.len)
	for f := range p.list.each() {
		p.touch(f)
	}
}

// stir lets everything that waits be tried again.
func (p *Planner) stir() {
	for _, l := range p.pools {
		l.stirred = true
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
