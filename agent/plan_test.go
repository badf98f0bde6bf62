package agent

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
)

// rim plays the agent around a planner: it remembers what is on the shelf and what runs, and holds the
// planner to its promises.
type rim struct {
	t       *rapid.T
	p       *planner
	now     time.Duration
	lookups []resolveAction
	running map[uint64]item
	shelf   map[uint64]bool
	replies map[uint64]int // answers on their way, by entry
	asked   map[uint64]int // wants of each fetch that were not answered
	until   map[uint64]time.Duration
	tickets uint64
}

func newRim(t *rapid.T) *rim {
	l := limits{
		memory:  int64(rapid.IntRange(40, 400).Draw(t, "memory")),
		window:  int64(rapid.IntRange(1, 4).Draw(t, "window")),
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		queue:   rapid.IntRange(1, 12).Draw(t, "queue"),
		egress:  int64(rapid.SampledFrom([]int{0, 0, 50}).Draw(t, "egress")),
		jobs:    2, high: 0.8, low: 0.7, dwell: 2 * time.Second,
	}
	return &rim{
		t: t, p: newPlanner(l), running: map[uint64]item{}, shelf: map[uint64]bool{}, replies: map[uint64]int{},
		asked: map[uint64]int{}, until: map[uint64]time.Duration{},
	}
}

// send gives the planner an event and checks what it decides.
func (r *rim) send(ev event) {
	for _, a := range r.p.plan(ev, r.now) {
		r.take(a)
	}
	if held := r.held(); r.p.held != held || held > r.p.limits.memory {
		r.t.Fatalf("after %T: planner counts %d bytes, entries hold %d, the shelf has %d", ev, r.p.held, held, r.p.limits.memory)
	}
	if len(r.running) > r.p.limits.workers {
		r.t.Fatalf("%d preparations run on %d workers", len(r.running), r.p.limits.workers)
	}
	for ticket, left := range r.asked {
		if left > 0 && r.now >= r.until[ticket] {
			r.t.Fatalf("fetch %d has %d wants without an answer at its deadline", ticket, left)
		}
	}
}

func (r *rim) held() int64 {
	var held int64
	for _, e := range r.p.byID {
		held += e.held
		switch e.phase {
		case waiting, failed:
			if e.held != 0 {
				r.t.Fatalf("%v holds %d bytes in phase %d", e, e.held, e.phase)
			}
		case queued, running, stopping:
			if e.held != e.in+e.out {
				r.t.Fatalf("%v holds %d bytes before it is made, needs %d", e, e.held, e.in+e.out)
			}
		}
	}
	return held
}

func (r *rim) take(a action) {
	switch a := a.(type) {
	case resolveAction:
		r.lookups = append(r.lookups, a)
	case prepareAction:
		if !r.p.gate.open {
			r.t.Fatalf("%v while the gate is closed", a)
		}
		if _, twice := r.running[a.id]; twice || r.shelf[a.id] {
			r.t.Fatalf("%v twice", a)
		}
		r.running[a.id] = a.item
	case stopAction:
		if _, ok := r.running[a.id]; !ok {
			r.t.Fatalf("%v: it does not run", a)
		}
	case answerAction:
		r.answered(a)
	case evictAction:
		if !r.shelf[a.id] || r.replies[a.id] > 0 {
			r.t.Fatalf("%v: on the shelf %v, replies on their way %d", a, r.shelf[a.id], r.replies[a.id])
		}
		delete(r.shelf, a.id)
	}
}

func (r *rim) answered(a answerAction) {
	if r.asked[a.ticket]--; r.asked[a.ticket] < 0 {
		r.t.Fatalf("%v: more answers than wants", a)
	}
	switch {
	case a.id != 0 && (a.reason != fetch.ReasonNone || !r.shelf[a.id]):
		r.t.Fatalf("%v: on the shelf %v", a, r.shelf[a.id])
	case a.id == 0 && a.reason == fetch.ReasonNone:
		r.t.Fatalf("%v: neither a tensor nor a reason", a)
	case a.id != 0:
		r.replies[a.id]++
	}
}

func (r *rim) resolve(t *rapid.T) {
	if len(r.lookups) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(r.lookups)-1).Draw(t, "lookup") // in any order
	act := r.lookups[at]
	r.lookups = append(r.lookups[:at], r.lookups[at+1:]...)
	ev := resolvedEvent{job: act.job, run: act.run, generation: act.generation, number: act.number, step: act.step}
	for i := range rapid.IntRange(0, 4).Draw(t, "items") {
		sample := uint64(act.step)*4 + uint64(i)
		ev.items = append(ev.items, item{
			key: key{sample: sample}, extent: extent{Extent: binfmt.Extent{Off: int64(sample)}}, operators: "v1",
			in:  int64(rapid.IntRange(0, 30).Draw(t, "in")) << rapid.SampledFrom([]int{0, 0, 0, 21}).Draw(t, "scale"),
			out: int64(rapid.IntRange(0, 60).Draw(t, "out")),
		})
	}
	r.send(ev)
}

func (r *rim) end(t *rapid.T) {
	if len(r.running) == 0 {
		t.Skip()
	}
	var id uint64
	for n := range r.running {
		if id == 0 || n < id {
			id = n
		}
	}
	delete(r.running, id)
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		r.send(failedEvent{id: id, why: failure(rapid.IntRange(int(stopped), int(wrong)).Draw(t, "why"))})
		return
	}
	r.shelf[id] = true
	wall := time.Duration(rapid.IntRange(1, 500).Draw(t, "ms")) * time.Millisecond
	r.send(doneEvent{id: id, cost: cost{wall: wall, cpu: wall}})
}

func (r *rim) release(t *rapid.T) {
	for id := range r.replies {
		if r.replies[id] > 0 {
			r.replies[id]--
			r.send(releasedEvent{id: id})
			return
		}
	}
	t.Skip()
}

func (r *rim) fetch(t *rapid.T, job string) {
	r.tickets++
	step := int64(rapid.IntRange(0, 12).Draw(t, "step"))
	if j := r.p.jobs[job]; j != nil && rapid.IntRange(0, 3).Draw(t, "where") > 0 {
		step = j.progress + int64(rapid.IntRange(0, 3).Draw(t, "from"))
	}
	ev := fetchEvent{
		ticket: r.tickets, job: job, run: rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, "run"),
		reader: rapid.SampledFrom([]string{"r0", "r1"}).Draw(t, "reader"), step: step,
		progress: max(0, step-int64(rapid.IntRange(0, 2).Draw(t, "ahead"))),
		deadline: time.Duration(rapid.IntRange(0, 800).Draw(t, "deadline")) * time.Millisecond,
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "wants") {
		ev.keys = append(ev.keys, key{sample: uint64(step)*4 + uint64(i)})
	}
	r.asked[ev.ticket], r.until[ev.ticket] = len(ev.keys), r.now+ev.deadline
	if r.until[ev.ticket] == r.now {
		r.until[ev.ticket]++ // answered in this very call, which send checks afterwards
	}
	r.send(ev)
}

// wait lets time pass as the loop does: not beyond what the planner asked for.
func (r *rim) wait(t *rapid.T) {
	to := r.now + time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms"))*time.Millisecond
	for {
		at, ok := r.p.wake()
		if !ok || at >= to {
			break
		}
		r.now = max(r.now, at)
		before := len(r.running)
		r.send(tickEvent{})
		if again, ok := r.p.wake(); ok && again <= at && len(r.running) == before {
			t.Fatalf("the planner wants to be called at %v again and again", at)
		}
	}
	r.now = to
	r.send(tickEvent{})
}

// TestPlannerKeepsItsPromises drives the planner through random events and checks, after each, that
// reserved and used bytes stay within the budget and add up, that no more runs than may, that every
// want is answered once and by its deadline, and that no tensor is freed while a reply carries it.
func TestPlannerKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRim(t)
		jobs := []string{"a", "b"}
		r.send(loadEvent{known: true, load: LoadSample{CPU: 0.1}})
		known := stretch{end: rapid.SampledFrom([]int64{endless, 3}).Draw(t, "known")}
		r.send(scheduleEvent{job: "a", run: "1", generation: 1, confidence: 1, ttl: time.Minute, known: known})
		t.Repeat(map[string]func(*rapid.T){
			"schedule": func(t *rapid.T) {
				r.send(scheduleEvent{
					job: rapid.SampledFrom(jobs).Draw(t, "job"), run: rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, "run"),
					generation: uint64(rapid.IntRange(1, 4).Draw(t, "generation")), first: int64(rapid.IntRange(0, 6).Draw(t, "first")),
					stepTime:   time.Duration(rapid.IntRange(0, 2).Draw(t, "step time")) * time.Second,
					confidence: rapid.Float64Range(0.1, 1).Draw(t, "sure"), ttl: time.Minute, known: known,
				})
			},
			"window": func(t *rapid.T) {
				first := int64(rapid.IntRange(0, 8).Draw(t, "first"))
				r.send(windowEvent{job: rapid.SampledFrom(jobs).Draw(t, "job"), run: "1", stretch: stretch{
					number: uint64(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "number")), first: first, end: first + int64(rapid.IntRange(1, 4).Draw(t, "steps")),
				}})
			},
			"load": func(t *rapid.T) {
				r.send(loadEvent{known: true, load: LoadSample{CPU: rapid.Float64Range(0, 1).Draw(t, "cpu")}})
			},
			"calm": func(*rapid.T) {
				r.send(loadEvent{known: true})
				r.now += 2 * time.Second
				r.send(loadEvent{known: true})
			},
			"rush": func(t *rapid.T) { // everything that can happen at once does
				for len(r.lookups) > 0 {
					r.resolve(t)
				}
				for n := 0; len(r.running) > 0 && n < 50; n++ {
					r.end(t)
				}
			},
			"resolve": r.resolve,
			"again":   func(t *rapid.T) { r.fetch(t, "a") },
			"end":     r.end,
			"release": r.release,
			"fetch":   func(t *rapid.T) { r.fetch(t, rapid.SampledFrom(jobs).Draw(t, "job")) },
			"progress": func(t *rapid.T) {
				r.send(progressEvent{job: "a", run: "1", step: int64(rapid.IntRange(0, 12).Draw(t, "step"))})
			},
			"leave": func(t *rapid.T) {
				if r.tickets == 0 {
					t.Skip()
				}
				ticket := uint64(rapid.IntRange(1, int(r.tickets)).Draw(t, "ticket"))
				r.asked[ticket] = 0
				r.send(leftEvent{ticket: ticket})
			},
			"wait":  r.wait,
			"close": func(t *rapid.T) { r.send(closeEvent{job: "b", run: "1"}) },
		})
		r.drain()
	})
}

// drain closes all jobs and lets everything end: nothing may be left.
func (r *rim) drain() {
	for _, j := range r.p.sortedJobs() {
		r.send(closeEvent{job: j.id, run: j.run})
	}
	for id := range r.running {
		delete(r.running, id)
		r.send(failedEvent{id: id, why: stopped})
	}
	for id, n := range r.replies {
		for range n {
			r.replies[id]--
			r.send(releasedEvent{id: id})
		}
	}
	p := r.p
	left := fmt.Sprint(p.held, len(p.byID), len(p.byKey), len(p.waiting), len(p.queued), len(p.runs), len(p.jobs), len(r.shelf))
	if left != "0 0 0 0 0 0 0 0" {
		r.t.Fatalf("left after all jobs are closed: bytes, entries, keys, waiting, queued, running, jobs, shelf: %s", left)
	}
}

// TestClock: the step time is the median of the last gaps, and pauses do not count.
func TestClock(t *testing.T) {
	var c clock
	for i := range 40 {
		c.advance(1, time.Duration(i)*time.Second)
	}
	c.advance(1, 400*time.Second) // a pause
	if got, ok := c.step(); !ok || got != time.Second {
		t.Errorf("step time %v %v, want 1s", got, ok)
	}
	for i := range 10 { // a pause after every step
		c.advance(1, 400*time.Second+time.Duration(i*60+1)*time.Second)
		c.advance(1, 400*time.Second+time.Duration(i*60+60)*time.Second)
	}
	if got, _ := c.step(); got != time.Second {
		t.Errorf("step time %v with a pause at every second step, want 1s", got)
	}
	c.restart()
	c.advance(1, 398*time.Second+1000*time.Second)
	c.advance(4, 402*time.Second+1000*time.Second)
	for i := range clockGaps {
		c.advance(1, 1402*time.Second+time.Duration(i+1)*2*time.Second)
	}
	if got, _ := c.step(); got != 2*time.Second {
		t.Errorf("step time %v after it doubled, want 2s", got)
	}
}

// TestGateDoesNotFlap holds case 15 of the fault matrix: load that swings around the threshold turns
// the gate at most once per dwell in each direction.
func TestGateDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gate{high: 0.8, low: 0.7, dwell: 10 * time.Second, max: 4}
		g.observe(LoadSample{CPU: 0.2}, true, false, 0)
		var opened time.Duration
		open := true
		for i := 1; i < 300; i++ {
			now := time.Duration(i) * time.Second
			g.observe(LoadSample{CPU: rapid.Float64Range(0.6, 0.95).Draw(t, "cpu")}, true, g.open, now)
			if g.open && !open {
				if opened > 0 && now-opened < g.dwell {
					t.Fatalf("opened at %v and again at %v", opened, now)
				}
				opened = now
			}
			open = g.open
			if g.open != (g.granted > 0) || g.granted > g.max {
				t.Fatalf("open %v with %d cores", g.open, g.granted)
			}
		}
	})
	g := gate{high: 0.8, low: 0.7, dwell: 10 * time.Second, max: 4}
	turns := 0
	for i := range 600 { // constant load between 79 and 81 %
		was := g.open
		g.observe(LoadSample{CPU: 0.79 + 0.02*float64(i%2)}, true, true, time.Duration(i)*time.Second)
		if g.open != was {
			turns++
		}
	}
	if turns > 1 {
		t.Errorf("%d turns under a load of 79 to 81 %%", turns)
	}
}

// BenchmarkPlanner measures one event of a job with a full window: 16 steps of 1,000 entries, whose
// preparations end one after the other.
func BenchmarkPlanner(b *testing.B) {
	p := newPlanner(limits{memory: 1 << 40, window: 16, workers: 8, queue: 1 << 20, jobs: 1, high: 0.8, low: 0.7})
	p.plan(loadEvent{known: true}, 0)
	p.plan(scheduleEvent{job: "a", run: "1", generation: 1, confidence: 1, ttl: time.Hour, stepTime: time.Second, known: stretch{end: endless}}, 0)
	var next, step int64
	fill := func() {
		ev := resolvedEvent{job: "a", run: "1", generation: 1, step: next}
		for i := range 1000 {
			ev.items = append(ev.items, item{key: key{sample: uint64(next*1000) + uint64(i)}, in: 100, out: 1000})
		}
		next++
		p.plan(ev, 0)
	}
	for range 16 {
		fill()
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(p.runs) == 0 {
			b.StopTimer()
			step++
			p.plan(progressEvent{job: "a", run: "1", step: step}, time.Duration(step)*time.Second)
			fill()
			b.StartTimer()
			continue
		}
		p.plan(doneEvent{id: p.runs[0].id, cost: cost{wall: time.Millisecond, cpu: time.Millisecond}}, time.Duration(step)*time.Second)
	}
}
