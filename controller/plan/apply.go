package plan

import (
	"slices"
	"strings"
	"time"
)

func (Tick) apply(*Planner) {}

func (ev ClusterChanged) apply(p *Planner) {
	before := p.cluster
	p.cluster = ev.Cluster
	p.local.stirred = true
	if before.Nodes != ev.Cluster.Nodes || before.Tagged != ev.Cluster.Tagged || before.NodeRate != ev.Cluster.NodeRate ||
		before.ReadersPerSource != ev.Cluster.ReadersPerSource || before.MaxReplication != ev.Cluster.MaxReplication {
		p.touchFiles()
	}
}

func (ev SiteChanged) apply(p *Planner) {
	before := p.sites[ev.Site.Name]
	site := ev.Site
	p.sites[site.Name] = &site
	l := p.poolOf(site.Name)
	l.stirred = true
	if before == nil || before.RemoteRate != site.RemoteRate || before.LocalRate != site.LocalRate {
		for _, name := range sorted(p.copies) {
			p.touch(p.copies[name])
		}
	}
}

func (ev BudgetsChanged) apply(p *Planner) {
	p.budgets = ev.Budgets
	for site := range ev.Budgets.WAN.Links {
		p.poolOf(site)
	}
	p.enforce()
	p.touchAll()
}

func (ev PricesChanged) apply(p *Planner) {
	p.prices = ev.Prices
	p.touchAll()
}

func (ev PolicyChanged) apply(p *Planner) {
	p.policy = ev.Policy
	if p.policy == nil {
		p.policy = denyAll{}
	}
	p.touchAll()
}

func (ev Drain) apply(p *Planner) {
	p.drained = ev.On
	p.touchAll()
}

func (ev Revoke) apply(p *Planner) {
	why := sentence(ReasonRevoked, ev.Why)
	revoke := func(s *slot) {
		if ev.Job != "" && p.payerOf(s) != ev.Job || ev.Roots != nil && !slices.ContainsFunc(ev.Roots, func(root string) bool { return below(s.owner.name(), root) }) {
			return
		}
		s.revoked = true
		s.forsake()
		if s.x != nil {
			p.undo(s.x, why)
		}
		p.touch(s.owner)
	}
	if ev.ID != 0 {
		if x := p.find(ev.ID); x != nil {
			revoke(x.slot)
		}
		return
	}
	if f := p.files[ev.Path]; f != nil {
		revoke(&f.slot)
	}
	if c := p.copies[ev.Path]; c != nil {
		for _, s := range c.slots {
			revoke(s)
		}
	}
	if ev.Path == "" {
		for f := range p.list.each() {
			revoke(&f.slot)
		}
		for _, name := range sorted(p.copies) {
			for _, s := range p.copies[name].slots {
				revoke(s)
			}
		}
	}
}

func (ev Revoked) apply(p *Planner) {
	if ev.Left <= 0 {
		return
	}
	if p.revoked == nil {
		p.revoked = make(map[site]time.Duration)
	}
	p.revoked[site{ev.Path, ev.Site}] = p.now + ev.Left
}

// site is a place at which something may be made of a path; "" for a hot file.
type site struct{ path, name string }

// wasRevoked tells whether something was revoked before this planner began, and stays so.
func (p *Planner) wasRevoked(path, name string) bool {
	until, ok := p.revoked[site{path, name}]
	if ok && until <= p.now {
		delete(p.revoked, site{path, name})
	}
	return ok && until > p.now
}

// below tells whether a path is root or lies below it.
func below(path, root string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// answers are the states in which an action is waited for: what was answered later, or of an action that was given up, says nothing new.
func (x *placement) answers(action string) bool {
	switch action {
	case "make":
		return x.state == making || x.state == paused
	case "publish":
		return x.state == publishing
	case "withdraw":
		return x.state == withdrawing
	case "remove":
		return x.state == removing
	}
	return false
}

func (ev Done) apply(p *Planner) {
	x := p.placements[ev.ID]
	if x == nil || !x.answers(ev.Action) {
		return
	}
	x.held.retryAt, x.held.tries = 0, 0
	switch ev.Action {
	case "make":
		p.made(x, ev)
	case "publish":
		p.nowLive(x)
	case "withdraw":
		if !x.want.means().makes() {
			p.gone(x)
			return
		}
		x.state = grace
		x.held.graceEnd = p.now + p.o.Grace
		p.alarm(x, x.held.graceEnd)
		p.touch(x.slot.owner) // it may be asked for again
	case "remove":
		p.gone(x)
	}
}

// made goes on with what was made.
func (p *Planner) made(x *placement, ev Done) {
	l := x.slot.pool
	l.unline(x)
	p.stop(x)
	x.held.readyAt = p.now
	if ev.Short > 0 {
		p.fewer(x, ev.Short)
	}
	p.tally.ReusedBytes += ev.Reused
	if x.want.means() == Copy && x.held.of == nil && ev.Reused == 0 { // else it says little of the link
		l.sent.add(x.held.bytes, ev.Took, leastSent)
	}
	if x.slot.was != nil {
		x.slot.was.tries = 0
	}
	if x.want.means().row() {
		p.publish(x)
		return
	}
	p.nowLive(x)
}

// fewer takes into account that extra sources were not made: of a sibling what they would have taken is free again.
func (p *Planner) fewer(x *placement, short int) {
	w := &x.want
	x.held.short = min(int32(min(short, 1<<20)), w.extra)
	w.extra, w.sources = w.extra-x.held.short, w.sources-x.held.short
	if w.means() == Sibling {
		p.release(x, x.held.bytes-w.bytes())
	}
	p.revalue(x)
}

func (p *Planner) nowLive(x *placement) {
	x.state = live
	x.slot.pool.offer(x)
	p.report(x.slot, "", "")
	p.touch(x.slot.owner)
	x.slot.pool.stirred = true // others may have the same content
}

func (ev Failed) apply(p *Planner) {
	if x := p.placements[ev.ID]; x != nil && x.answers(ev.Action) {
		p.failed(x, ev)
	}
}

// mostTries is how often the making of a copy is gone on with before what is there is removed.
const mostTries = 3

func (p *Planner) failed(x *placement, ev Failed) {
	why := sentence(ev.Reason, ev.Detail)
	switch {
	case ev.Action != "make":
		p.retry(x)
		return
	case ev.Reason == ReasonIdentity || ev.Reason == ReasonSource:
		x.slot.owner.doubt()
		x.slot.past().notBefore = p.now + p.o.RetryAfter
	case x.want.means() == Copy && x.held.of == nil && x.held.tries < mostTries:
		p.report(x.slot, ReasonFailed, why)
		p.stop(x)
		x.slot.pool.unline(x)
		x.state = paused
		p.retry(x)
		return
	default:
		was := x.slot.past()
		was.tries = min(was.tries+1, 100)
		was.notBefore = p.now + p.backoff(was.tries)
	}
	p.report(x.slot, ReasonFailed, why)
	p.undo(x, why)
}

func (ev Damaged) apply(p *Planner) {
	x := p.placements[ev.ID]
	if x == nil || x.state.undoing() {
		return
	}
	for _, y := range append([]*placement{x}, x.held.sharers...) {
		y.held.damaged = true
		y.slot.past().notBefore = p.now + p.o.RetryAfter
		p.undo(y, "damaged: "+ev.Detail)
	}
	x.slot.pool.retract(x)
}

// adoptFor is how long what was recovered is kept until it is asked for again.
const adoptFor = 2 * time.Minute

func (ev Recovered) apply(p *Planner) {
	shared := make(map[*placement]ID)
	for _, h := range ev.Held {
		if p.placements[h.Make.ID] != nil {
			continue
		}
		x := p.adopt(h)
		if x == nil {
			continue
		}
		if h.Make.Of != 0 {
			shared[x] = h.Make.Of
		}
	}
	for _, h := range ev.Held { // in their order
		x := p.placements[h.Make.ID]
		if x == nil {
			continue
		}
		if of := p.placements[shared[x]]; of != nil && of != x {
			x.held.of = of
			of.held.sharers = append(of.held.sharers, x)
		}
		p.resume(x, h)
	}
}

// adopt puts what a predecessor left on the accounts. Two at one place cannot be: the second is undone.
func (p *Planner) adopt(h Held) *placement {
	a := h.Make.Less(h.Short)
	s := p.slotOf(a)
	extra := s.x != nil
	if extra {
		s = &slot{owner: s.owner, pool: s.pool}
	}
	x := &placement{id: a.ID, slot: s, index: -1}
	s.x = x
	left := max(h.Left, 0)
	x.want = proposal{
		private: a.Access != AsOriginal,
		way:     wayOf(a.Means), identity: a.Identity, sources: int32(a.Sources), extra: int32(a.Extra), emergency: a.Emergency, content: a.Content,
		until: p.now + left, job: p.job(a.Job),
	}
	x.held = &holding{job: a.Job, bytes: a.Bytes, begun: p.now, until: x.want.until, promised: x.want.until, readyAt: p.now}
	x.held.short = int32(h.Make.Extra - a.Extra)
	if !extra && !h.Undoing {
		s.past().keep = p.now + min(left, adoptFor)
	}
	p.nextID = max(p.nextID, a.ID+1)
	p.placements[a.ID] = x
	if a.Of != 0 {
		x.held.bytes = 0
	}
	p.charge(x)
	if x.held.bytes > 0 {
		x.slot.pool.days.give(-float64(float64(x.held.bytes)*(left+p.o.Grace).Seconds()), p.now)
	}
	return x
}

// resume goes on where a predecessor ended.
func (p *Planner) resume(x *placement, h Held) {
	const why = "a predecessor left it"
	switch {
	case !h.Made && x.want.means().makes():
		x.state = paused
		if x.want.means() != Copy || x.slot.keep() == 0 { // only copies are gone on with
			p.undo(x, why+" half made")
			return
		}
	default: // as if published: it is withdrawn before it is removed, whatever the journal has not seen
		x.state = live
	}
	if x.state == live && x.slot.keep() > 0 {
		x.slot.pool.offer(x)
	}
	if x.slot.keep() <= p.now {
		p.undo(x, why)
		return
	}
	if x.state == live && x.want.means().row() && !h.Published {
		p.publish(x)
	}
	p.alarm(x, x.slot.keep())
	p.touch(x.slot.owner)
}

// slotOf is where a placement belongs.
func (p *Planner) slotOf(a Make) *slot {
	if a.Means == Copy {
		return p.checkpoint(a.Path).slot(p, a.Site)
	}
	return &p.file(a.Path).slot
}
