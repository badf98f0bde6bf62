package agent

import (
	"math"
	"time"
)

const (
	// maxSaving bounds how long a save stops a job's clock.
	maxSaving = 10 * time.Minute
	// notDue is when the entries of a job are due whose clock stands still: not now. It leaves room to count.
	notDue = time.Duration(math.MaxInt64 / 4)
)

// saving is a save that stops a job's clock: while a checkpoint is written nothing is fetched, and nothing becomes due. The zero value is none.
type saving struct {
	path         string
	since, until time.Duration
}

func (s saving) active() bool { return s.path != "" }

// savingEvent says that a job begins to write a checkpoint.
type savingEvent struct {
	job, run, path string
	ttl            time.Duration
}

func (ev savingEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	if j == nil || j.run != ev.run {
		p.do(verdictAction{accepted: true, detail: "kept for the controller; no schedule of this run is held"})
		return
	}
	p.do(verdictAction{accepted: true, fresh: true})
	j.seen = now
	if !j.saving.active() {
		j.saving.since = now
	}
	j.saving.path, j.saving.until = ev.path, now+min(ev.ttl, maxSaving)
	p.unordered = true
}

// savedEvent says that a checkpoint is written, or gone.
type savedEvent struct{ job, run, path string }

func (ev savedEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	if j == nil || j.run != ev.run || j.saving.path != ev.path {
		p.do(verdictAction{accepted: true, detail: "kept for the controller"})
		return
	}
	p.do(verdictAction{accepted: true, fresh: true})
	p.resume(j, now)
}

// resume lets a job's clock go on from where it stood: the steps to come are as far away as they were, and readers have been silent no
// longer than before.
func (p *planner) resume(j *job, now time.Duration) {
	stood := now - j.saving.since
	j.saving = saving{}
	j.seen = now
	j.clock.shift(stood)
	if !j.clock.any {
		j.arrived += stood
	}
	for name, r := range j.readers {
		r.seen = min(r.seen+stood, now)
		j.readers[name] = r
	}
	p.unordered = true
}

// goOn ends a save that a job does not wait for any more: it has come to its next step. How long that took says nothing about steps.
func (p *planner) goOn(j *job, now time.Duration) {
	p.resume(j, now)
	j.clock.restart()
}

// expireSaving lets the clock go on of which nothing was heard for too long.
func (p *planner) expireSaving(j *job, now time.Duration) {
	if j.saving.active() && now >= j.saving.until {
		p.resume(j, j.saving.until)
		j.seen = now
	}
}
