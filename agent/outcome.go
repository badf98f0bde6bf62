package agent

import (
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// doneEvent says that a preparation succeeded.
type doneEvent struct {
	id   uint64
	cost cost
}

func (ev doneEvent) apply(p *planner, now time.Duration) {
	e := p.ended(ev.id)
	if e == nil {
		return
	}
	p.costs.learn(&e.item, ev.cost)
	p.shrink(e)
	e.phase, e.readyAt = ready, now
	if e.gone {
		p.evict(e)
		return
	}
	e.reason = ""
	p.answerWaiters(e, now)
}

// failure says why a preparation failed.
type failure uint8

const (
	stopped failure = iota // we stopped it
	content                // the part cannot be decoded: every place finds the same
	killed                 // the worker was killed for its time or its memory
	crashed                // the worker died
	trouble                // reading or the worker's start failed: says nothing about the part
	wrong                  // the stored bytes are not those that the index promises
	foreign                // the part needs a decoder that differs from the job's
)

// failedEvent says that a preparation failed.
type failedEvent struct {
	id  uint64
	why failure
}

// maxTries is how often a preparation that crashed or met trouble is tried.
const maxTries = 2

func (ev failedEvent) apply(p *planner, now time.Duration) {
	e := p.ended(ev.id)
	switch {
	case e == nil:
	case e.gone:
		p.leave(e)
	case ev.why == stopped && e.reason == "":
		p.again(e)
	case (ev.why == crashed || ev.why == trouble) && e.tries+1 < maxTries && e.reason == "":
		e.tries++
		p.again(e)
	default:
		if reason := ev.why.reason(); reason != "" {
			e.reason = reason
		}
		if ev.why == content || ev.why == killed || ev.why == crashed {
			p.poison.add(e.poisonKey(), now)
		}
		p.unhold(e)
		e.phase = failed
		p.answerWaiters(e, now)
	}
}

// reason returns how a part that failed is answered; "" keeps the reason for which it was stopped.
func (f failure) reason() fetch.Reason {
	switch f {
	case content, killed, crashed:
		return fetch.ReasonPoison
	case trouble:
		return fetch.ReasonNotReady
	case wrong:
		return fetch.ReasonIdentity
	case foreign:
		return fetch.ReasonUnknownPlan
	}
	return ""
}

// again puts an entry that ran back into the queue. It keeps the bytes it holds.
func (p *planner) again(e *entry) {
	e.phase = queued
	p.queued = append(p.queued, e)
	p.unordered = true
}

// ended takes an entry off the list of those that run; nil if it is not on it.
func (p *planner) ended(id uint64) *entry {
	for i, e := range p.runs {
		if e.id == id {
			p.runs = append(p.runs[:i], p.runs[i+1:]...)
			return e
		}
	}
	return nil
}

var failureNames = [...]string{"stopped", "content", "killed", "crashed", "trouble", "wrong", "foreign"}

// String returns the failure's name as metrics and records show it.
func (f failure) String() string { return failureNames[f] }
