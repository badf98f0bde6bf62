package plan

import (
	"fmt"
	"slices"
)

// lookPast bounds how many placements without room are passed over, so that smaller ones behind them may have it.
const lookPast = 16

// admit begins what has room, the best first, over all pools: they share the storage nodes.
func (p *Planner) admit() {
	tries := 0
	passed := p.passed[:0]
	for tries < lookPast*len(p.pools) {
		l := p.bestPool()
		if l == nil {
			break
		}
		x := l.queue.first()
		reason, detail, full := p.room(x)
		if reason == "" {
			l.queue.remove(x)
			p.begin(x)
			continue
		}
		p.report(x.slot, reason, detail)
		if full {
			l.stirred = false
			continue
		}
		l.queue.remove(x)
		if reason == ReasonQuota {
			l.park(x)
			continue
		}
		passed = append(passed, x)
		tries++
	}
	for _, x := range passed {
		x.slot.pool.queue.push(x)
	}
	for _, l := range p.pools {
		l.stirred = false
	}
	p.passed = passed
}

// bestPool is the one with room whose first placement ranks best; nil if none has.
func (p *Planner) bestPool() *pool {
	var best *pool
	for _, l := range p.pools {
		if l.stirred && l.queue.first() != nil && (best == nil || l.queue.first().before(best.queue.first())) {
			best = l
		}
	}
	return best
}

// park sets aside what waits for its job's own use to fall.
func (l *pool) park(x *placement) {
	name := x.want.job.name
	x.parked = x.want.job
	l.parked[name] = append(l.parked[name], x)
}

func (l *pool) unpark(x *placement) {
	if x.parked == nil {
		return
	}
	name := x.parked.name
	rest := without(l.parked[name], x)
	if l.parked[name] = rest; len(rest) == 0 {
		delete(l.parked, name)
	}
	x.parked = nil
}

// recall queues what a job's own use kept waiting.
func (l *pool) recall(job string) {
	list := l.parked[job]
	delete(l.parked, job)
	for _, x := range list {
		x.parked = nil
		l.queue.push(x)
	}
}

// room tells whether a placement may begin or go on now: no reason. If full, nothing behind it in its pool may either. The allowance is taken.
func (p *Planner) room(x *placement) (reason Reason, detail string, full bool) {
	l := x.slot.pool
	if reason, detail = p.closed(x); reason != "" {
		return reason, detail, true
	}
	if p.twin(x) != nil {
		return "", "", false
	}
	if reason, detail = p.slots(x); reason != "" {
		return reason, detail, reason == ReasonBudget
	}
	if x.state == paused {
		return "", "", false
	}
	want := x.want
	if l.site == "" && !p.reduce(&want) {
		return ReasonBusy, fmt.Sprintf("others load the cluster by %.0f %%", 100*p.cluster.Load), false
	}
	bytes := want.bytes()
	if reason, detail = p.space(x, bytes); reason != "" {
		return reason, detail, false
	}
	if !l.days.take(float64(float64(bytes)*(x.want.until-p.now+p.o.Grace).Seconds()), p.now) {
		return ReasonBudget, "byte-hours", false
	}
	return "", "", false
}

// closed says why nothing begins in a placement's pool now.
func (p *Planner) closed(x *placement) (Reason, string) {
	l := x.slot.pool
	switch {
	case !l.limit.on:
		return ReasonOff, "its budget is switched off"
	case !p.budgets.Storage.On:
		return ReasonOff, "the storage budget is switched off"
	case p.drained && x.state != paused:
		return ReasonDrained, "nothing new begins"
	}
	if l.site == "" {
		return "", ""
	}
	switch site := p.sites[l.site]; {
	case site == nil || !site.Up:
		return ReasonSite, "it does not answer"
	case !site.Writable:
		return ReasonSite, "it is read-only"
	}
	return "", ""
}

// slots says why a making cannot run now. What a full pool refuses is for the budget's sake.
func (p *Planner) slots(x *placement) (Reason, string) {
	l := x.slot.pool
	if l.site != "" && l.rateOf(x) <= 0 {
		return ReasonBudget, "the link's rate is 0"
	}
	running, own := 0, 0
	for _, y := range l.running {
		switch {
		case y.want.emergency && !x.want.emergency:
			return ReasonBudget, "an emergency has the link"
		case y.want.emergency == x.want.emergency:
			running++
			if y.held.job == x.want.job.name {
				own++
			}
		}
	}
	most := max(1, int(p.budgets.share(x.want.job.name)*float64(l.limit.slots)))
	if p.budgets.share(x.want.job.name) == 0 {
		most = 0
	}
	switch {
	case running >= l.limit.slots:
		return ReasonBudget, "as many are made at once as may be"
	case own >= most:
		return ReasonQuota, fmt.Sprintf("%d of the job's are made at once", own)
	}
	taken := p.working
	if x.want.emergency {
		for _, y := range l.running {
			if !y.want.emergency && y.state == making {
				taken = taken.plus(y.held.work, -1) // it will be paused
			}
		}
	}
	if what := taken.plus(p.workOf(x), 1).exceeds(p.budgets.Storage); what != "" {
		return ReasonBudget, what
	}
	return "", ""
}

// reduce asks for fewer sources of a cluster that is busy, and tells whether any are left.
func (p *Planner) reduce(w *proposal) bool {
	less := int32(float64(w.extra) * calm(p.cluster.Load))
	if less <= 0 {
		return false
	}
	w.sources -= w.extra - less
	w.extra = less
	return true
}

// revalue says what fewer sources bring.
func (p *Planner) revalue(x *placement) {
	f, w := x.slot.owner.(*file).File(), &x.want
	saved := p.cluster.lastReader(int(w.readers), int(w.sources-w.extra), f.Size, false) - p.cluster.lastReader(int(w.readers), int(w.sources), f.Size, true)
	w.saved = min(w.saved, saved)
	w.value = p.prices.worth(float64(w.weight * w.saved.Seconds()))
	w.cost = p.prices.ofSources(x.bytes(), w.until-p.now)
	if w.means().row() {
		w.cost += p.prices.Entry
	}
	w.rated()
}

// space says why so many bytes have no place.
func (p *Planner) space(x *placement, bytes int64) (Reason, string) {
	l := x.slot.pool
	most := l.limit.held
	if x.want.emergency {
		most = l.limit.heldEmergency
	}
	free := p.cluster.Free
	if l.site != "" {
		free = p.sites[l.site].Free
	}
	part := int64(p.budgets.share(x.want.job.name) * float64(most))
	switch {
	case bytes > free:
		return ReasonSite, fmt.Sprintf("%d bytes are free, it takes %d", free, bytes)
	case l.held+bytes > most:
		return ReasonBudget, fmt.Sprintf("%d of %d bytes are held, it takes %d", l.held, most, bytes)
	case l.jobs[x.want.job.name]+bytes > part:
		return ReasonQuota, fmt.Sprintf("the job may hold %d bytes", part)
	}
	return "", ""
}

// rateOf is the bytes a second that one making of the pool may have.
func (l *pool) rateOf(x *placement) int64 {
	rate := l.limit.rate
	if x.want.emergency {
		rate = l.limit.rateEmergency
	}
	return rate / int64(l.limit.slots)
}

// workOf is what a making takes of the storage nodes.
func (p *Planner) workOf(x *placement) work {
	rate := int64(makeRate)
	if x.slot.pool.site != "" {
		rate = x.slot.pool.rateOf(x)
	}
	return work{egress: rate, cores: float64(rate) / bytesPerCore, memory: workMemory}
}

// twin is a published copy of the same version at the same site.
func (p *Planner) twin(x *placement) *placement {
	if x.state != waiting || x.want.means() != Copy {
		return nil
	}
	y := x.slot.pool.content[x.want.identity]
	if y == nil || y.state != live || y.held.of != nil || y.want.content != x.want.content || y.want.access() != x.want.access() {
		return nil
	}
	return y
}

// begin makes a placement, or goes on with it.
func (p *Planner) begin(x *placement) {
	l := x.slot.pool
	if x.state == paused {
		p.run(x)
		p.do(Pace{ID: x.id, Rate: x.held.rate, Why: x.want.why()})
		return
	}
	if l.site == "" {
		p.reduce(&x.want)
		p.revalue(x)
	}
	until := x.want.until
	x.held = &holding{job: x.want.job.name, begun: p.now, until: until, promised: until}
	p.placements[x.id] = x
	if x.want.means() == Copy {
		x.slot.stay(x.want.identity, p.now)
	}
	a := Make{
		ID: x.id, Means: x.want.means(), Path: x.slot.owner.name(), Identity: x.want.identity, Site: l.site, Access: x.want.access(),
		Sources: int(x.want.sources), Extra: int(x.want.extra),
		Content: x.want.content, Lease: until - p.now, Emergency: x.want.emergency, Job: x.held.job, Why: x.want.why(),
	}
	if y := p.twin(x); y != nil {
		x.held.of = y
		y.held.sharers = append(y.held.sharers, x)
		a.Of, a.Why = y.id, fmt.Sprintf("placement %d has the same content", y.id)
		x.state = making
		p.outlive(x)
	} else {
		x.held.bytes = x.want.bytes()
		p.charge(x)
		p.run(x)
		a.Bytes, a.Rate = x.held.bytes, x.held.rate
	}
	p.report(x.slot, "", "")
	p.do(a)
	p.alarm(x, until)
}

// charge puts a placement's bytes on the accounts.
func (p *Planner) charge(x *placement) {
	l := x.slot.pool
	l.held += x.held.bytes
	if x.held.bytes > 0 {
		l.jobs[x.held.job] += x.held.bytes
	}
}

// release takes some of them off again, and gives back what is left of their allowance.
func (p *Planner) release(x *placement, bytes int64) {
	h, l := x.held, x.slot.pool
	if bytes == 0 {
		return
	}
	l.held -= bytes
	if l.jobs[h.job] -= bytes; l.jobs[h.job] == 0 {
		delete(l.jobs, h.job)
	}
	l.days.give(float64(float64(bytes)*(h.until+p.o.Grace-p.now).Seconds()), p.now)
	h.bytes -= bytes
	l.recall(h.job)
	l.stirred = true
}

// run lets a making run. An emergency stands still for nobody: ordinary copies pause.
func (p *Planner) run(x *placement) {
	l := x.slot.pool
	if x.want.emergency {
		for _, y := range slices.Clone(l.running) {
			if !y.want.emergency && y.state == making {
				p.pause(y, fmt.Sprintf("emergency: placement %d", x.id))
			}
		}
	}
	x.state = making
	x.held.work = p.workOf(x)
	x.held.rate = x.held.work.egress
	p.working = p.working.plus(x.held.work, 1)
	l.running = append(l.running, x)
}

// stop ends what a making takes.
func (p *Planner) stop(x *placement) {
	l, h := x.slot.pool, x.held
	if h.rate == 0 {
		return
	}
	l.running = without(l.running, x)
	p.working = p.working.plus(h.work, -1)
	h.work, h.rate = work{}, 0
	l.recall(h.job)
	for _, one := range p.pools { // they share the storage nodes
		one.stirred = true
	}
}

// pause lets a copy stand still until there is room for it again.
func (p *Planner) pause(x *placement, why string) {
	p.stop(x)
	x.state = paused
	p.do(Pace{ID: x.id, Rate: 0, Why: why})
	p.line(x)
}

// enforce makes the budgets hold for what has begun, the least worth first: makings pause or end, and what is held is undone.
func (p *Planner) enforce() {
	begun := make([]*placement, 0, len(p.placements))
	for _, x := range p.placements {
		begun = append(begun, x)
	}
	slices.SortFunc(begun, func(x, y *placement) int {
		if x.before(y) {
			return 1
		}
		return -1
	})
	for _, l := range p.pools {
		l.limit = p.budgets.limitOf(l.site)
		l.days.set(l.limit.byteSecondsPerSecond, p.now)
		l.stirred = true
		for job := range l.parked {
			l.recall(job)
		}
		p.enforceHeld(l, begun)
	}
	for _, x := range begun {
		p.enforceRate(x)
	}
	for _, x := range begun {
		if p.working.exceeds(p.budgets.Storage) == "" && p.budgets.Storage.On {
			break
		}
		p.halt(x, "the storage budget")
	}
}

// enforceHeld undoes what is above the bytes that a pool may hold; begun has the least worth first.
func (p *Planner) enforceHeld(l *pool, begun []*placement) {
	var all, ordinary int64
	for _, x := range begun {
		if x.slot.pool == l && !x.state.undoing() {
			all += x.held.bytes
			if !x.want.emergency {
				ordinary += x.held.bytes
			}
		}
	}
	for _, x := range begun {
		if x.slot.pool != l || x.state.undoing() {
			continue
		}
		over := all > l.limit.heldEmergency || !x.want.emergency && ordinary > l.limit.held
		if !l.limit.on || over && x.held.bytes > 0 {
			all -= x.held.bytes
			if !x.want.emergency {
				ordinary -= x.held.bytes
			}
			why := sentence(ReasonBudget, "it was lowered or switched off")
			for _, y := range x.held.sharers { // else its bytes stay for them
				if !y.state.undoing() {
					p.undo(y, why)
				}
			}
			p.undo(x, why)
		}
	}
}

// enforceRate gives a running copy the rate of its link.
func (p *Planner) enforceRate(x *placement) {
	l := x.slot.pool
	if l.site == "" || x.state != making || x.held.rate == 0 {
		return
	}
	rate := l.rateOf(x)
	if rate == x.held.rate {
		return
	}
	if rate <= 0 {
		p.pause(x, "the link's rate is 0")
		return
	}
	p.working = p.working.plus(x.held.work, -1)
	x.held.work, x.held.rate = p.workOf(x), rate
	p.working = p.working.plus(x.held.work, 1)
	p.do(Pace{ID: x.id, Rate: rate, Why: "the link's rate changed"})
}

// halt ends a making for now, if it runs.
func (p *Planner) halt(x *placement, why string) {
	if x.state != making || x.held.rate == 0 {
		return
	}
	if x.want.means() == Copy {
		p.pause(x, why)
		return
	}
	p.undo(x, why)
}
