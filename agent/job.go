package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
)

const (
	// maxDepth bounds how many steps ahead of its progress a reader may fetch and still move the window.
	maxDepth = 1024
	// maxEntries bounds the entries of all jobs: beyond it no further step is looked up.
	maxEntries = 1 << 20
	// maxReaders bounds the readers of a job whose progress is kept apart.
	maxReaders = 1 << 16
	// laggard is how many steps behind the slowest known reader a reader may be that was not heard of
	// yet, or whose message is on its way.
	laggard = 2
	// A reader that was silent for silentSteps steps, and for silentTime in any case, no longer holds
	// the job's progress back.
	silentSteps = 8
	silentTime  = 5 * time.Second
)

// job is one run of a training job and the window of steps that is prepared for it.
type job struct {
	id, run    string
	generation uint64
	arrived    time.Duration // of the first schedule of the run
	seen       time.Duration // when it was heard of last
	ttl        time.Duration // it is freed when not heard of for so long
	window     int64
	first      int64
	progress   int64 // lowest step that some reader may still want: what is below is gone
	lowest     int64 // the slowest reader's progress when one was last heard of
	ahead      int64 // that of the reader who is furthest: the window and the due times follow it
	depth      int64 // how many steps ahead of their progress readers fetch
	next       int64 // lowest step that was not yet looked up in this generation
	known      stretch
	readers    map[string]reader
	clock      clock
	saving     saving
	steps      map[int64]*step
	held       int64 // bytes of the shelf reserved or used for it
}

// reader is one process that fetches; ranks are told apart by their connections.
type reader struct {
	progress int64
	seen     time.Duration
}

// step is one step of a job's window.
type step struct {
	resolved bool
	entries  []*entry
	waiters  []waiter // readers who came before the step was looked up
}

// scheduleEvent is a schedule whose dataset was opened and agrees. A run that the job does not have
// yet is newer than the one it has: hints of runs that are over do not come this far.
type scheduleEvent struct {
	job, run   string
	generation uint64
	first      int64
	known      stretch
	stepTime   time.Duration
	confidence float64       // the less sure, the shorter the window
	ttl        time.Duration // how long it holds without a sign of life
}

func (ev scheduleEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	switch {
	case j != nil && j.run == ev.run && ev.generation <= j.generation:
		p.do(verdictAction{accepted: true, detail: "the generation is known"})
	case j != nil && j.run == ev.run:
		p.do(verdictAction{accepted: true, fresh: true})
		p.renew(j, ev, now)
	case j == nil && len(p.jobs) >= p.limits.jobs:
		p.do(verdictAction{reason: hints.ReasonBusy})
	default:
		if j != nil {
			p.free(j, now, "new run")
		}
		p.do(verdictAction{accepted: true, fresh: true})
		p.start(ev, now)
	}
}

// steps returns the window of a schedule that comes true with this probability.
func (p *planner) steps(confidence float64) int64 {
	return max(1, int64(confidence*float64(p.limits.window)))
}

func (p *planner) start(ev scheduleEvent, now time.Duration) {
	j := &job{
		id: ev.job, run: ev.run, generation: ev.generation,
		arrived: now, seen: now, ttl: ev.ttl, window: p.steps(ev.confidence),
		first: ev.first, progress: ev.first, ahead: ev.first, next: ev.first, known: ev.known,
		readers: make(map[string]reader),
		clock:   clock{hint: ev.stepTime},
		steps:   make(map[int64]*step),
	}
	p.jobs[j.id] = j
	p.request(j)
}

// renew takes a new generation: every step that is known is looked up again, since owners changed. A
// first step behind the progress means that the trainer went back.
func (p *planner) renew(j *job, ev scheduleEvent, now time.Duration) {
	j.generation, j.seen, j.clock.hint = ev.generation, now, ev.stepTime
	j.ttl, j.window, j.known = ev.ttl, p.steps(ev.confidence), ev.known
	if ev.first < j.progress || ev.first > j.horizon() {
		p.jump(j, ev.first, now)
	}
	for n, s := range j.steps {
		s.resolved = s.resolved && n < j.known.first
	}
	j.next = max(j.progress, j.known.first)
	p.unordered = true
	p.request(j)
}

// jump moves a job to a step that does not follow from its progress.
func (p *planner) jump(j *job, to int64, now time.Duration) {
	clear(j.readers)
	j.clock.restart()
	j.saving = saving{}
	j.first, j.arrived, j.progress, j.ahead, j.depth = to, now, to, to, 0
	for _, n := range slices.Sorted(maps.Keys(j.steps)) {
		if n < to || n >= j.horizon() {
			p.dropStep(j, n, now)
		}
	}
}

// horizon is the first step beyond the window.
func (j *job) horizon() int64 { return j.ahead + j.depth + j.window }

// request looks up the steps of the window that were not yet, as far as they are known.
func (p *planner) request(j *job) {
	for end := min(j.horizon(), j.known.end); j.next < end && len(p.byID) < maxEntries; j.next++ {
		if j.steps[j.next] == nil {
			j.steps[j.next] = &step{}
		}
		p.do(resolveAction{job: j.id, run: j.run, generation: j.generation, number: j.known.number, step: j.next})
	}
}

// resolvedEvent brings the items of a step that this agent owns.
type resolvedEvent struct {
	job, run   string
	generation uint64
	number     uint64
	step       int64
	items      []item
}

func (ev resolvedEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	if j == nil || j.run != ev.run || j.generation != ev.generation || j.known.number != ev.number || j.steps[ev.step] == nil {
		return
	}
	s := j.steps[ev.step]
	old, waiters := s.entries, s.waiters
	s.resolved, s.entries, s.waiters = true, make([]*entry, 0, len(ev.items)), nil
	for i := range ev.items {
		s.entries = append(s.entries, p.add(want{j, ev.step}, ev.items[i], now))
	}
	kept := make(map[*entry]bool, len(old))
	for _, e := range s.entries {
		kept[e] = len(old) > 0
	}
	for _, e := range old {
		if !kept[e] {
			p.unwant(e, want{j, ev.step}, now)
		}
	}
	for _, w := range waiters {
		p.ask(j, ev.step, w, now)
	}
}

// progressEvent says how far a job is, when no fetch does.
type progressEvent struct {
	job, run string
	step     int64
}

func (ev progressEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	switch {
	case j == nil || j.run != ev.run:
		p.do(verdictAction{reason: hints.ReasonUnknownJob})
	default:
		p.do(verdictAction{accepted: true, fresh: true})
		p.moved(j, ev.step, now)
	}
}

// note takes a reader's progress.
func (p *planner) note(j *job, name string, progress int64, now time.Duration) {
	if r, known := j.readers[name]; known || len(j.readers) < maxReaders {
		j.readers[name] = reader{progress: max(r.progress, progress), seen: now}
	}
	p.moved(j, progress, now)
}

// moved follows a sign of life at a step: what every reader has passed goes, and the window follows the
// furthest.
func (p *planner) moved(j *job, progress int64, now time.Duration) {
	j.seen = now
	if j.saving.active() && progress > j.ahead {
		p.goOn(j, now)
	}
	silent := silentTime
	if gap, ok := j.clock.step(); ok {
		silent = max(silent, silentSteps*gap)
	}
	lowest := progress
	for n, r := range j.readers {
		if now-r.seen > silent {
			delete(j.readers, n)
			continue
		}
		lowest = min(lowest, r.progress)
	}
	j.lowest = lowest
	p.lead(j, progress, now)
	p.pass(j, lowest-laggard, now)
}

// lead moves the window: the furthest reader has come to a step.
func (p *planner) lead(j *job, to int64, now time.Duration) {
	if to <= j.ahead {
		return
	}
	j.clock.advance(to-j.ahead, now)
	j.ahead = to
	p.unordered = true
	p.request(j)
}

// pass leaves steps behind: what was prepared for them goes.
func (p *planner) pass(j *job, to int64, now time.Duration) {
	if to <= j.progress {
		return
	}
	j.progress, j.next = to, max(j.next, to)
	for _, n := range slices.Sorted(maps.Keys(j.steps)) {
		if n < to {
			p.dropStep(j, n, now)
		}
	}
	p.request(j)
}

// due is when the entries of a step are expected to be fetched; false if the step time is unknown,
// when the order of steps is all that is known.
func (j *job) due(n int64) (time.Duration, bool) {
	if j.saving.active() {
		return notDue, true
	}
	gap, ok := j.clock.step()
	if !ok {
		return j.arrived + time.Duration(n-j.first), false
	}
	last := j.arrived
	if j.clock.any {
		last = j.clock.last
	}
	return last + time.Duration(n-j.depth-j.ahead)*gap, true
}

func (p *planner) dropStep(j *job, n int64, now time.Duration) {
	s := j.steps[n]
	delete(j.steps, n)
	for _, w := range s.waiters {
		p.answerRaw(w, fetch.ReasonExpired)
	}
	for _, e := range s.entries {
		p.unwant(e, want{j, n}, now)
	}
}

// expire answers the readers whose deadline passed before their step was looked up.
func (j *job) expire(p *planner, now time.Duration) {
	var asked []int64
	for n, s := range j.steps {
		if len(s.waiters) > 0 {
			asked = append(asked, n)
		}
	}
	slices.Sort(asked)
	for _, n := range asked {
		j.steps[n].expire(p, now)
	}
}

func (s *step) expire(p *planner, now time.Duration) {
	s.waiters = slices.DeleteFunc(s.waiters, func(w waiter) bool {
		if w.until > now {
			return false
		}
		p.answerRaw(w, fetch.ReasonNotReady)
		return true
	})
}

// closeEvent ends a run.
type closeEvent struct{ job, run string }

func (ev closeEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	if j == nil || j.run != ev.run {
		p.do(verdictAction{accepted: true, detail: "the job is not known"})
		return
	}
	p.do(verdictAction{accepted: true, fresh: true})
	p.free(j, now, "closed")
}

// free forgets a job and all that was for it alone.
func (p *planner) free(j *job, now time.Duration, why string) {
	for _, n := range slices.Sorted(maps.Keys(j.steps)) {
		p.dropStep(j, n, now)
	}
	delete(p.jobs, j.id)
	p.do(dropAction{job: j.id, run: j.run, why: why})
}

func (p *planner) sortedJobs() []*job {
	jobs := make([]*job, 0, len(p.jobs))
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		jobs = append(jobs, p.jobs[id])
	}
	return jobs
}
