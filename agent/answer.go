package agent

import (
	"cmp"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// fetchEvent is a reader who asks for entries of a step.
type fetchEvent struct {
	ticket         uint64
	job, run       string
	reader         string
	step, progress int64
	deadline       time.Duration // how long the reader waits
	keys           []key
}

func (ev fetchEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	if j != nil && j.run == ev.run {
		if depth := ev.step - ev.progress; depth > j.depth && depth <= maxDepth {
			j.depth, p.unordered = depth, true
		}
		p.note(j, ev.reader, ev.progress, now)
		p.request(j)
	}
	for i, k := range ev.keys {
		w := waiter{ticket: ev.ticket, index: i, key: k, until: now + ev.deadline}
		if j == nil || j.run != ev.run {
			p.answerRaw(w, fetch.ReasonUnknownJob)
			continue
		}
		p.ask(j, ev.step, w, now)
	}
}

// ask answers a reader who wants a key of a step of j, or lets it wait.
func (p *planner) ask(j *job, n int64, w waiter, now time.Duration) {
	if e := p.byKey[w.key]; e != nil {
		p.askEntry(e, w, now)
		return
	}
	s := j.steps[n]
	switch {
	case n < j.progress:
		p.answerRaw(w, fetch.ReasonExpired)
	case s != nil && !s.resolved && w.until > now:
		s.waiters = append(s.waiters, w)
	default: // not ours, or beyond the window
		p.answerRaw(w, fetch.ReasonNotReady)
	}
}

func (p *planner) askEntry(e *entry, w waiter, now time.Duration) {
	switch e.phase {
	case ready:
		p.answerPrepared(e, w, now-e.readyAt, now)
	case failed:
		p.answerRaw(w, e.reason)
	case stopping:
		p.answerRaw(w, cmp.Or(e.reason, p.gate.reason()))
	default:
		p.wait(e, w, now)
	}
}

// blocked returns why nothing may start at the moment, "" if something may.
func (p *planner) blocked() fetch.Reason {
	switch {
	case !p.gate.open:
		return p.gate.reason()
	case !p.bucket.open():
		return fetch.ReasonEgress
	}
	return ""
}

// wait lets a reader wait for an entry. Whoever waits comes first.
func (p *planner) wait(e *entry, w waiter, now time.Duration) {
	if w.until <= now {
		p.answerRaw(w, fetch.ReasonNotReady)
		if len(e.waiters) == 0 {
			p.abandon(e, fetch.ReasonNotReady, now)
		}
		return
	}
	e.waiters = append(e.waiters, w)
	p.unordered = true
	if !e.asked {
		e.asked = true
		p.asked = append(p.asked, e)
	}
}

// refuseAsked gives up what readers wait for in vain: entries for which there is no room on the shelf,
// and queued ones while nothing may start.
func (p *planner) refuseAsked(now time.Duration) {
	blocked := p.blocked()
	for _, e := range p.asked {
		switch {
		case len(e.waiters) == 0:
		case e.phase == waiting && len(p.queued)+len(p.runs) >= p.limits.queue:
			p.giveUp(e, fetch.ReasonQueue, now)
		case e.phase == waiting:
			p.giveUp(e, fetch.ReasonMemory, now)
		case e.phase == queued && blocked != "":
			p.giveUp(e, blocked, now)
		}
	}
}

func (p *planner) answerRaw(w waiter, reason fetch.Reason) {
	p.do(answerAction{ticket: w.ticket, index: w.index, reason: reason})
}

func (p *planner) answerPrepared(e *entry, w waiter, lead, now time.Duration) {
	if !e.served {
		e.served, e.servedAt = true, now
		for len(p.served) > 0 && (p.served[0].gone || p.served[0].phase != ready) {
			p.served = p.served[1:]
		}
		p.served = append(p.served, e)
	}
	e.replies++
	p.do(answerAction{ticket: w.ticket, index: w.index, id: e.id, lead: lead})
}

// answerWaiters answers everyone who waits for an entry that is ready, or gives its reason.
func (p *planner) answerWaiters(e *entry, now time.Duration) {
	waiters := e.waiters
	e.waiters = nil
	for _, w := range waiters {
		if e.phase == ready && !e.gone {
			p.answerPrepared(e, w, 0, now)
		} else {
			p.answerRaw(w, e.reason)
		}
	}
}

// leftEvent says that the reader of a fetch is gone, or was answered in full.
type leftEvent struct{ ticket uint64 }

func (ev leftEvent) apply(p *planner, now time.Duration) {
	for _, e := range p.asked {
		e.waiters = without(e.waiters, ev.ticket)
	}
	for _, j := range p.jobs {
		for _, s := range j.steps {
			s.waiters = without(s.waiters, ev.ticket)
		}
	}
}

func without(waiters []waiter, ticket uint64) []waiter {
	kept := waiters[:0]
	for _, w := range waiters {
		if w.ticket != ticket {
			kept = append(kept, w)
		}
	}
	return kept
}

// releasedEvent says that one reply with an entry's bytes is out.
type releasedEvent struct{ id uint64 }

func (ev releasedEvent) apply(p *planner, _ time.Duration) {
	e := p.byID[ev.id]
	if e == nil || e.replies == 0 {
		return
	}
	if e.replies--; e.replies == 0 && e.gone {
		p.evict(e)
	}
}
