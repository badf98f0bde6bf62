package agent

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

const (
	// safety multiplies a predicted cost: it is an average, and a neighbour may be at work.
	safety = 1.5
	// margin is kept free before the moment at which an entry is due.
	margin = 50 * time.Millisecond
	// heavyCost is the predicted time from which work runs in a lane of its own, half the cores, so
	// that a video does not keep a batch of photographs waiting.
	heavyCost = 250 * time.Millisecond
	// littleLeft is the predicted rest for which it is not worth stopping a worker.
	littleLeft = 100 * time.Millisecond
	// wireRate is how many bytes of output beyond the input a second of saved CPU is worth: a byte
	// costs about 0.55 CPU seconds a GB at each end of the wire.
	wireRate = 1 << 30
)

// add makes sure that there is an entry for it, wanted by w.
func (p *planner) add(w want, it item, now time.Duration) *entry {
	if e := p.byKey[it.key]; e != nil {
		if !slices.Contains(e.wants, w) {
			e.wants = append(e.wants, w)
			p.unordered = true
		}
		return e
	}
	p.nextID++
	e := &entry{id: p.nextID, item: it, wants: []want{w}}
	p.byID[e.id], p.byKey[it.key] = e, e
	if e.reason = p.refuse(e, now); e.reason != "" {
		e.phase = failed
		return e
	}
	p.waiting = append(p.waiting, e)
	p.unordered = true
	return e
}

// refuse returns why an entry is never prepared, "" if it may be.
func (p *planner) refuse(e *entry, now time.Duration) fetch.Reason {
	switch {
	case e.refused != "":
		return e.refused
	case p.poison.has(e.poisonKey(), now):
		return fetch.ReasonPoison
	case e.need() > p.limits.memory:
		return fetch.ReasonMemory
	}
	if cpu, known := p.costs.cpu(&e.item); known && float64(e.out-e.in) > cpu.Seconds()*wireRate {
		return fetch.ReasonEgress
	}
	return ""
}

// admit reserves bytes for what waits, answers those who wait in vain and starts what may start.
func (p *planner) admit(now time.Duration) {
	if p.unordered {
		p.order()
	}
	p.reserve(now)
	p.bucket.fill(now)
	p.refuseAsked(now)
	for p.gate.open && len(p.runs) < p.gate.granted {
		e := p.pick(now)
		if e == nil {
			return
		}
		p.begin(e, now)
	}
}

// order sorts the lists by the latest moment at which each entry must start.
func (p *planner) order() {
	for _, list := range [][]*entry{p.waiting, p.queued} {
		for _, e := range list {
			e.start = p.latest(e)
		}
		slices.SortFunc(list, sooner)
	}
	p.unordered = false
}

// latest returns due time - predicted cost - margin. One step time is part of the margin: the entries
// of a step are due together and share the cores. An entry that somebody waits for is past every time.
func (p *planner) latest(e *entry) time.Duration {
	if len(e.waiters) > 0 {
		return math.MinInt64
	}
	cost := time.Duration(safety * float64(p.costs.wall(&e.item)))
	var first time.Duration
	for i, w := range e.wants {
		at, known := w.job.due(w.step)
		if known {
			gap, _ := w.job.clock.step()
			at -= cost + margin + gap
		}
		if i == 0 || at < first {
			first = at
		}
	}
	return first
}

// sooner orders entries: earliest start, then earliest step, then small before large.
func sooner(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(a.start, b.start),
		cmp.Compare(a.wants[0].step, b.wants[0].step),
		cmp.Compare(a.out, b.out),
		cmp.Compare(a.id, b.id))
}

// pick takes the next entry that may start from the queue, nil if there is none. Before its latest
// start an entry begins only on a calm node.
func (p *planner) pick(now time.Duration) *entry {
	if !p.bucket.open() {
		return nil
	}
	lane := 0
	for _, e := range p.runs {
		if e.heavy {
			lane++
		}
	}
	for i, e := range p.queued {
		if e.start > now && !p.gate.calm {
			return nil
		}
		e.heavy = p.costs.wall(&e.item) >= heavyCost
		if e.heavy && lane >= max(1, p.gate.granted/2) {
			continue
		}
		p.queued = slices.Delete(p.queued, i, i+1)
		return e
	}
	return nil
}

// nextStart returns when the first queued entry must start, or the egress budget has filled up, if
// only time keeps them.
func (p *planner) nextStart() (time.Duration, bool) {
	switch {
	case len(p.queued) == 0 || !p.gate.open || len(p.runs) >= p.gate.granted:
		return 0, false
	case !p.bucket.open():
		return p.bucket.opens(), true
	case p.gate.calm:
		return 0, false
	}
	return p.queued[0].start, true
}

func (p *planner) begin(e *entry, now time.Duration) {
	e.phase, e.began = running, now
	p.runs = append(p.runs, e)
	p.bucket.take(e.out)
	p.do(prepareAction{id: e.id, item: e.item, job: e.owner.id, step: e.wants[0].step, name: e.String()})
}

// left predicts how long a running entry will run on.
func (p *planner) left(e *entry, now time.Duration) time.Duration {
	return p.costs.wall(&e.item) - (now - e.began)
}

// shed makes the node free for others: what runs and has much left is stopped, far ahead and large
// first, and readers who wait for it get the raw bytes.
func (p *planner) shed(now time.Duration) {
	runs := slices.Clone(p.runs)
	slices.SortFunc(runs, func(a, b *entry) int { return sooner(b, a) })
	for _, e := range runs {
		if p.left(e, now) > littleLeft {
			p.stop(e, "shed")
		}
	}
	for _, e := range p.asked {
		if e.phase == stopping && len(e.waiters) > 0 {
			p.giveUp(e, p.gate.reason(), now)
		}
	}
}

func (p *planner) stop(e *entry, why string) {
	if e.phase == running {
		e.phase = stopping
		p.do(stopAction{id: e.id, name: e.String(), why: why})
	}
}

// abandon follows when all readers of an entry were answered raw: work that has not begun, or has
// much left, is not worth doing any more.
func (p *planner) abandon(e *entry, reason fetch.Reason, now time.Duration) {
	if e.phase == running && p.left(e, now) <= littleLeft {
		return
	}
	p.giveUp(e, reason, now)
}

// giveUp ends an entry's way to the shelf: it is answered raw from now on.
func (p *planner) giveUp(e *entry, reason fetch.Reason, now time.Duration) {
	e.reason = reason
	switch e.phase {
	case running, stopping:
		p.stop(e, string(reason))
	case waiting, queued:
		p.unqueue(e)
		p.unhold(e)
		e.phase = failed
	}
	p.answerWaiters(e, now)
}

func (p *planner) unqueue(e *entry) {
	is := func(x *entry) bool { return x == e }
	switch e.phase {
	case waiting:
		p.waiting = slices.DeleteFunc(p.waiting, is)
	case queued:
		p.queued = slices.DeleteFunc(p.queued, is)
	}
}

// unwant takes a step's want away; an entry that nobody wants goes.
func (p *planner) unwant(e *entry, w want, now time.Duration) {
	e.wants = slices.DeleteFunc(e.wants, func(x want) bool { return x == w })
	if len(e.wants) > 0 {
		return
	}
	delete(p.byKey, e.key)
	e.gone = true
	e.wants = append(e.wants, w) // kept as the entry's name in traces
	e.reason = fetch.ReasonExpired
	switch e.phase {
	case waiting, queued:
		p.unqueue(e)
		p.leave(e)
	case running:
		if p.left(e, now) > littleLeft {
			p.stop(e, "passed")
		}
	case ready:
		if e.replies == 0 {
			p.evict(e)
		}
	case failed:
		p.leave(e)
	}
	p.answerWaiters(e, now)
}
