package agent

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
)

// maxAnnounced bounds the samples that a job may have announced and not yet passed: 48 MB, or eight
// steps of the most samples that one can have.
const maxAnnounced = 1 << 21

// order says which samples steps have.
type order interface {
	// refs returns the samples of a step, in any order: none if it was not announced.
	refs(step int64) []sampler.SampleRef
}

// foretold is an order that the agent runs itself.
type foretold struct{ *sampler.Sampler }

func (f foretold) refs(step int64) []sampler.SampleRef { return f.Step(step, nil) }

// announced is an order that is told window by window. Its methods may be called concurrently.
type announced struct {
	sources []uint64 // samples of each

	mu     sync.Mutex
	number uint64 // of the windows
	steps  map[int64][]sampler.SampleRef
	held   int
}

func (a *announced) refs(step int64) []sampler.SampleRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.steps[step]
}

// check says whether a window names only samples that there are.
func (a *announced) check(w *hints.Window) error {
	for i, samples := range w.Steps {
		for _, s := range samples {
			if int(s.Source) >= len(a.sources) || s.Sample >= a.sources[s.Source] {
				return fmt.Errorf("%w: step %d has sample %d of source %d, which the datasets do not have", errIdentity, w.FirstStep+int64(i), s.Sample, s.Source)
			}
		}
	}
	return nil
}

// fits forgets the steps below passed, and tells whether there is room for a window.
func (a *announced) fits(w *hints.Window, passed int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(func(step int64) bool { return step < passed })
	n := a.held
	for _, samples := range w.Steps {
		n += len(samples)
	}
	return n <= maxAnnounced
}

func (a *announced) drop(gone func(step int64) bool) {
	for step, refs := range a.steps {
		if gone(step) {
			a.held -= len(refs)
			delete(a.steps, step)
		}
	}
}

// add takes the steps of a window in, which void those from its first on if its number is another.
func (a *announced) add(w *hints.Window) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.number != w.Epoch {
		a.number = w.Epoch
		a.drop(func(step int64) bool { return step >= w.FirstStep })
	}
	if a.steps == nil {
		a.steps = make(map[int64][]sampler.SampleRef)
	}
	for i, samples := range w.Steps {
		refs := make([]sampler.SampleRef, len(samples))
		for at, s := range samples {
			refs[at] = sampler.SampleRef{Source: int32(s.Source), Epoch: s.Epoch, Sample: s.Sample}
		}
		step := w.FirstStep + int64(i)
		a.held += len(refs) - len(a.steps[step])
		a.steps[step] = refs
	}
}

// endless is the end of the steps of an order that the agent runs itself.
const endless = math.MaxInt64

// stretch is the steps that a job's order is known for, as announced under a number.
type stretch struct {
	number     uint64
	first, end int64
}

// stretchOf is what a schedule with a window, or without one, foretells.
func stretchOf(w *hints.Window) stretch {
	if w == nil {
		return stretch{end: endless}
	}
	return stretch{number: w.Epoch, first: w.FirstStep, end: w.FirstStep + int64(len(w.Steps))}
}

// windowEvent continues the steps of a job, or voids those that were announced under a smaller number.
type windowEvent struct {
	job, run string
	stretch
}

func (ev windowEvent) apply(p *planner, now time.Duration) {
	j := p.jobs[ev.job]
	switch {
	case j == nil || j.run != ev.run:
		p.do(verdictAction{reason: hints.ReasonUnknownJob})
	case j.known.end == endless:
		p.do(verdictAction{reason: hints.ReasonUnsupported, detail: "the schedule has the order itself"})
	case ev.number < j.known.number:
		p.do(verdictAction{accepted: true, detail: "a newer number is known"})
	case ev.number == j.known.number && ev.first > j.known.end:
		p.do(verdictAction{reason: hints.ReasonUnknownJob, detail: fmt.Sprintf("steps %d to %d were not announced", j.known.end, ev.first-1)})
	case ev.number == j.known.number && ev.end <= j.known.end:
		p.do(verdictAction{accepted: true, detail: "the steps are known"})
	default:
		p.do(verdictAction{accepted: true, fresh: true})
		p.extend(j, ev, now)
	}
}

// extend takes more steps, or others in the place of those that a new number voids.
func (p *planner) extend(j *job, ev windowEvent, now time.Duration) {
	j.seen = now
	if ev.number > j.known.number {
		for _, n := range slices.Sorted(maps.Keys(j.steps)) {
			switch {
			case n >= ev.end:
				p.dropStep(j, n, now)
			case n >= ev.first:
				j.steps[n].resolved = false
			}
		}
		j.next = max(j.progress, min(j.next, ev.first))
		p.unordered = true
	}
	j.known = ev.stretch
	p.request(j)
}
