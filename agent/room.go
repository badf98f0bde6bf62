package agent

import (
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// linger is how long an entry that was handed out stays for its other readers when room is needed.
const linger = 5 * time.Second

// reserve queues waiting entries, soonest first, for as long as the shelf and the queue have room.
// Every job has an equal share of the shelf, and one that has used up its own holds no other back.
func (p *planner) reserve(now time.Duration) {
	if len(p.waiting) == 0 {
		return
	}
	full := make(map[*job]bool, 1)
	var back []*entry // queued entries that gave way
	kept := p.waiting[:0]
	for i, e := range p.waiting {
		if len(p.queued)+len(p.runs) >= p.limits.queue || len(full) == len(p.jobs) {
			kept = append(kept, p.waiting[i:]...)
			break
		}
		if owner := e.wants[0].job; full[owner] || !p.room(e, owner, &back, now) {
			full[owner] = true
			kept = append(kept, e)
			continue
		}
		p.hold(e, e.wants[0].job)
		e.phase = queued
		at, _ := slices.BinarySearchFunc(p.queued, e, sooner)
		p.queued = slices.Insert(p.queued, at, e)
	}
	clear(p.waiting[len(kept):])
	p.waiting = append(kept, back...)
	if len(back) > 0 {
		slices.SortFunc(p.waiting, sooner)
	}
}

// room makes room for e in its owner's share of the shelf; false if there is none. What the owner's
// readers have passed goes first, then what was handed out long enough ago, then the owner's queued
// entries that start later, from the end: far ahead and large.
func (p *planner) room(e *entry, owner *job, back *[]*entry, now time.Duration) bool {
	share := p.limits.memory / int64(len(p.jobs))
	for owner.held+e.need() > share || p.held+e.need() > p.limits.memory {
		if p.evictPassed(owner) || p.evictServed(now) {
			continue
		}
		at := len(p.queued) - 1
		for at >= 0 && p.queued[at].owner != owner {
			at--
		}
		if at < 0 || p.queued[at].start <= e.start {
			return false
		}
		last := p.queued[at]
		p.queued = slices.Delete(p.queued, at, at+1)
		p.unhold(last)
		last.phase = waiting
		*back = append(*back, last)
	}
	return true
}

// evictPassed frees an entry that stays only for readers that were not heard of yet.
func (p *planner) evictPassed(j *job) bool {
	for n := j.progress; n < j.lowest; n++ {
		if j.steps[n] == nil {
			continue
		}
		for _, e := range j.steps[n].entries {
			if len(e.wants) == 1 && p.expireEntry(e) {
				return true
			}
		}
	}
	return false
}

// expireEntry frees the bytes of an entry that is ready and that no reply carries. Who asks for it now
// gets raw bytes.
func (p *planner) expireEntry(e *entry) bool {
	if e.phase != ready || e.gone || e.replies > 0 {
		return false
	}
	e.phase, e.reason = failed, fetch.ReasonExpired
	p.evict(e)
	return true
}

// evictServed frees the entry that was handed out first, if that was long enough ago for its other
// readers to have come.
func (p *planner) evictServed(now time.Duration) bool {
	for _, e := range p.served {
		if e.servedAt+linger > now {
			return false
		}
		if p.expireEntry(e) {
			return true
		}
	}
	return false
}

func (p *planner) hold(e *entry, owner *job) {
	e.owner, e.held = owner, e.need()
	owner.held += e.held
	p.held += e.held
}

// shrink gives back what was held for the input, once the output is made.
func (p *planner) shrink(e *entry) {
	e.held -= e.in
	e.owner.held -= e.in
	p.held -= e.in
}

func (p *planner) unhold(e *entry) {
	if e.owner != nil {
		e.owner.held -= e.held
		p.held -= e.held
		e.owner, e.held = nil, 0
	}
}

// evict frees the bytes of an entry.
func (p *planner) evict(e *entry) {
	p.unhold(e)
	p.do(evictAction{id: e.id, name: e.String(), job: e.wants[0].job.id, unused: !e.served})
	if e.gone {
		p.leave(e)
	}
}

// leave forgets an entry.
func (p *planner) leave(e *entry) {
	p.unhold(e)
	delete(p.byID, e.id)
}
