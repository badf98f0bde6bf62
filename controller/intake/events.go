package intake

import (
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/recent"
)

const (
	// What is remembered: ids of hints, jobs, and of a job what it said of its starts. The oldest is forgotten.
	mostIDs     = 1 << 17
	mostJobs    = 1 << 13
	mostFanOuts = 16
	// mostPhaseFiles bounds the files of what is remembered of a start's ranks: they name a folder or two. What names more is told if it comes in order.
	mostPhaseFiles = 1 << 10
)

// taken is a record at the moment at which an agent took it, by the controller's clock.
type taken struct {
	relay.Record
	age, at time.Duration
}

// translator turns records into events, in whatever order they come, and each hint once. It performs no I/O and reads no clock.
type translator struct {
	seen recent.Map[[3]string, struct{}] // job, run and id
	jobs recent.Map[string, *startsOf]
}

func newTranslator() *translator {
	return &translator{seen: recent.New[[3]string, struct{}](mostIDs), jobs: recent.New[string, *startsOf](mostJobs)}
}

// startsOf is what is known of a job's starts.
type startsOf struct {
	runs    []string // that announced one
	newest  time.Duration
	fanOuts []taken
}

// repeated tells whether the hint was there before.
func (t *translator) repeated(r relay.Record) bool {
	_, ok := t.seen.Get([3]string{r.Job, r.Run, r.ID})
	return ok
}

// events returns what a record says that was not said before, in an order in which the planner understands it.
func (t *translator) events(r taken) []plan.Event {
	t.seen.Put([3]string{r.Job, r.Run, r.ID}, struct{}{})
	if r.age >= hints.MaxTTL {
		return nil // nothing holds so long
	}
	switch {
	case r.Ended:
		return []plan.Event{plan.JobEnded{Job: r.Job, Run: r.Run}}
	case r.Start != nil && r.Start.Phase != "":
		j := t.job(r.Job)
		if len(r.Start.Files) <= mostPhaseFiles {
			j.fanOuts = lastOf(append(j.fanOuts, r))
		}
		if j.says(r) {
			return fanOut(r)
		}
		return nil
	case r.Start != nil:
		return append([]plan.Event{plan.Hint{Record: r.Record, Age: r.age}}, t.job(r.Job).started(r)...)
	}
	return []plan.Event{plan.Hint{Record: r.Record, Age: r.age}}
}

func (t *translator) job(name string) *startsOf {
	j, ok := t.jobs.Get(name)
	if !ok {
		j = &startsOf{}
		t.jobs.Put(name, j)
	}
	return j
}

// started takes an announcement, and returns what its ranks have said already.
func (j *startsOf) started(r taken) (events []plan.Event) {
	if !slices.Contains(j.runs, r.Run) {
		j.runs = lastOf(append(j.runs, r.Run))
	}
	j.newest = max(j.newest, r.at)
	for _, f := range j.fanOuts {
		if j.says(f) {
			events = append(events, fanOut(f)...)
		}
	}
	return events
}

// says tells whether ranks speak of a start that is known: of their own run's, or, where that announced none, of the newest, if they speak after it.
func (j *startsOf) says(f taken) bool {
	return slices.Contains(j.runs, f.Run) || len(j.runs) > 0 && f.at >= j.newest
}

// fanOut is what a start's ranks have opened or read.
func fanOut(r taken) (events []plan.Event) {
	ended := r.Start.Phase == hints.Read.String()
	if !ended && r.Start.Phase != hints.Opened.String() {
		return nil // of a newer agent
	}
	if s := r.Start; ended && s.LastMS > 0 {
		events = append(events, plan.Took{Job: r.Job, Run: r.Run, Paths: r.Paths(), Last: time.Duration(s.LastMS) * time.Millisecond, Bytes: s.Bytes})
	}
	if len(r.Start.Files) == 0 {
		return append(events, plan.FanOut{Job: r.Job, Run: r.Run, Ended: ended})
	}
	for _, f := range r.Start.Files {
		events = append(events, plan.FanOut{Job: r.Job, Run: r.Run, Path: f.Path, Ended: ended})
	}
	return events
}

func lastOf[T any](list []T) []T { return list[max(len(list)-mostFanOuts, 0):] }
