package timeline

import (
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// evaluation is what there is to say of a run, with moments after zero. Copies count that were begun before the next version.
func (r *run) evaluation(events []Event, zero, next time.Duration, committed bool) Evaluation {
	e := Evaluation{Name: r.name, Job: r.first.Job, zero: zero}
	after := func(ev *Event) *time.Duration {
		if ev == nil {
			return nil
		}
		d := ev.At - zero
		return &d
	}
	for _, ev := range []*Event{r.scheduled, r.opened} { // where it was opened, rather than where it was to be
		if ev != nil && ev.Site != "" {
			e.Site = ev.Site
		}
	}
	if r.opened != nil {
		e.Job = r.opened.Job
	}
	e.Scheduled, e.Opened, e.Loaded, e.Done, e.Decided = after(r.scheduled), after(r.opened), after(r.loaded), after(r.done), after(r.decided)
	if r.opened == nil {
		e.Cancelled = after(r.cancelled)
	}
	if r.scheduled != nil {
		expected := r.scheduled.Expected - zero
		e.Expected = &expected
	}
	if r.decided != nil {
		e.Decision = r.decided.Decision
	}
	for _, ev := range r.results {
		found := Result{At: ev.At - zero}
		if ev.Result != nil {
			found.Metric, found.Value, found.Regression = ev.Result.Metric, ev.Result.Value, ev.Result.Regression
		}
		if found.Regression && e.Regression == nil && committed {
			at := found.At
			e.Regression = &at
		}
		e.Results = append(e.Results, found)
	}
	e.copied(copyOf(events, e.Site, r.opened, zero, next), zero)
	e.phases()
	return e
}

// made is a copy.
type made struct {
	begun       time.Duration
	ready, gone *time.Duration
}

// copyOf is the copy at a site that served: the last that was ready before the checkpoint was opened and not gone by then, else the first that was begun. Nil if
// there was none.
func copyOf(events []Event, site string, opened *Event, from, next time.Duration) *made {
	all := make(map[plan.ID]*made)
	var order []*made
	for _, ev := range events {
		if ev.Site != site || site == "" || ev.Kind == CopyBegun && (ev.At < from || ev.At >= next) {
			continue
		}
		at := ev.At
		switch c := all[ev.Placement]; {
		case ev.Kind == CopyBegun && (c == nil || c.gone != nil): // a new journal counts from 1 again
			c = &made{begun: at}
			all[ev.Placement] = c
			order = append(order, c)
		case c == nil:
		case ev.Kind == CopyReady && c.ready == nil:
			c.ready = &at
		case ev.Kind == CopyGone && c.gone == nil:
			c.gone = &at
		}
	}
	if len(order) == 0 {
		return nil
	}
	found := order[0]
	for _, c := range order {
		if opened != nil && c.ready != nil && *c.ready <= opened.At && (c.gone == nil || *c.gone > opened.At) {
			found = c
		}
	}
	return found
}

// copied takes what a copy was good for.
func (e *Evaluation) copied(c *made, zero time.Duration) {
	if c != nil {
		begun := c.begun - zero
		e.CopyBegun = &begun
		if c.ready != nil {
			ready := *c.ready - zero
			e.CopyReady = &ready
		}
	}
	switch {
	case e.Opened == nil:
	case e.Site == "":
		e.Read = AtHome
	case e.CopyReady == nil || c.gone != nil && *c.gone-zero <= *e.Opened:
		e.Read = Remote
	case *e.CopyReady <= *e.Opened:
		e.Read = ACopy
	case e.Loaded == nil || *e.CopyReady < *e.Loaded:
		e.Read = Late
	default:
		e.Read = Remote
	}
}

// phases divides the time from the commit to the decision, or as far as it is known.
func (e *Evaluation) phases() {
	if e.Opened == nil {
		return
	}
	at := min(0, *e.Opened)
	until := func(name PhaseName, to time.Duration) {
		if to > at {
			e.Phases = append(e.Phases, Phase{name, at, to})
			at = to
		}
	}
	if e.Expected != nil && e.Read == ACopy && *e.Expected < *e.CopyReady {
		until(Queue, *e.Expected)
		until(CopyLate, *e.CopyReady)
	}
	until(Queue, *e.Opened)
	end := e.found()
	switch {
	case e.Loaded != nil:
		until(Reading, *e.Loaded)
		if end != nil {
			until(Computing, *end)
		}
	case end != nil:
		until(Running, *end)
	}
	if e.Decided != nil && end != nil {
		until(Deciding, *e.Decided)
	}
}

// found is when there was a result: the last one, else the end.
func (e *Evaluation) found() *time.Duration {
	if n := len(e.Results); n > 0 {
		return &e.Results[n-1].At
	}
	return e.Done
}

// Took is how long a phase lasted in all.
func (e *Evaluation) Took(name PhaseName) (sum time.Duration) {
	for _, p := range e.Phases {
		if p.Name == name {
			sum += p.To - p.From
		}
	}
	return sum
}

// Storage is the time for which storage is to blame, as far as it is known.
func (e *Evaluation) Storage() time.Duration { return e.Took(CopyLate) + e.Took(Reading) }

// Summary adds evaluations up.
type Summary struct {
	// Evaluations were opened, Local of them where a copy was or at home.
	Evaluations int `json:"evaluations"`
	Local       int `json:"local"`
	// Phases is the time of all of them by what it went to.
	Phases map[PhaseName]time.Duration `json:"phases_ns"`
	// Regressions were declared, the mean age of the checkpoint then and the largest.
	Regressions int           `json:"regressions"`
	MeanAge     time.Duration `json:"mean_age_ns,omitempty"`
	LargestAge  time.Duration `json:"largest_age_ns,omitempty"`
}

// Sum adds up the evaluations of some timelines.
func Sum(all []Timeline) Summary {
	s := Summary{Phases: make(map[PhaseName]time.Duration)}
	var ages time.Duration
	for _, t := range all {
		for _, e := range t.Evaluations {
			if e.Opened == nil {
				continue
			}
			s.Evaluations++
			if e.Read == ACopy || e.Read == AtHome {
				s.Local++
			}
			for _, p := range e.Phases {
				s.Phases[p.Name] += p.To - p.From
			}
			if e.Regression != nil {
				s.Regressions++
				ages += *e.Regression
				s.LargestAge = max(s.LargestAge, *e.Regression)
			}
		}
	}
	if s.Regressions > 0 {
		s.MeanAge = ages / time.Duration(s.Regressions)
	}
	return s
}
