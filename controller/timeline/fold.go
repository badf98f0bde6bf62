package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

// Timeline is what happened to one version of a checkpoint. Lengths of time are nanoseconds in JSON.
type Timeline struct {
	Path string `json:"path"`
	// Identity is the version's, "" where it is not known; Job is whose checkpoint it is, "" where that is not the reader's to know; Step -1 where it is not known.
	Identity string `json:"identity,omitempty"`
	Job      string `json:"job"`
	Step     int64  `json:"step"`
	// Committed is when it was committed, by the controller's clock; nil where that is not known: then nothing is said of ages.
	Committed   *time.Duration `json:"committed_ns,omitempty"`
	Evaluations []Evaluation   `json:"evaluations"`
}

// Evaluation is one evaluation of it. Moments are after the commit, or, where that is not known, after the first that is known of the evaluation; those that are not known
// are nil.
type Evaluation struct {
	Name string `json:"name,omitempty"`
	// Job opened it, or, if none has, spoke of it first.
	Job  string `json:"job"`
	Site string `json:"site,omitempty"`

	Scheduled *time.Duration `json:"scheduled_ns,omitempty"`
	// Expected is when it was to open the checkpoint.
	Expected  *time.Duration `json:"expected_ns,omitempty"`
	CopyBegun *time.Duration `json:"copy_begun_ns,omitempty"`
	CopyReady *time.Duration `json:"copy_ready_ns,omitempty"`
	Opened    *time.Duration `json:"opened_ns,omitempty"`
	Loaded    *time.Duration `json:"loaded_ns,omitempty"`
	Done      *time.Duration `json:"done_ns,omitempty"`
	Cancelled *time.Duration `json:"cancelled_ns,omitempty"`
	Results   []Result       `json:"results,omitempty"`
	// Decision is the last that was made, Decided when.
	Decision string         `json:"decision,omitempty"`
	Decided  *time.Duration `json:"decided_ns,omitempty"`
	// Read is where the bytes were when it was opened.
	Read Place `json:"read,omitempty"`
	// Regression is the age of the checkpoint when a regression was declared.
	Regression *time.Duration `json:"regression_ns,omitempty"`
	// Phases are what the time went to, one after the other, without a gap.
	Phases []Phase `json:"phases,omitempty"`

	zero time.Duration // what moments are after, by the controller's clock
}

// Place is where an evaluation found the bytes.
type Place string

// The places.
const (
	AtHome Place = "home"   // it ran where the checkpoint is
	ACopy  Place = "copy"   // a copy was there before it was opened
	Late   Place = "late"   // a copy was there before it had read all
	Remote Place = "remote" // there was none
)

// Phase is what a part of the time went to.
type Phase struct {
	Name PhaseName     `json:"name"`
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// PhaseName says what for. Storage is to blame for CopyLate and Reading.
type PhaseName string

// The phases.
const (
	Queue PhaseName = "queue" // it had not been opened, for other reasons than a copy
	// CopyLate: it was to be opened, a copy was being made, and it was opened when that was there.
	CopyLate  PhaseName = "copy late"
	Reading   PhaseName = "reading"
	Computing PhaseName = "computing"
	// Running is reading and computing, where nobody said when it had read.
	Running  PhaseName = "reading and computing"
	Deciding PhaseName = "deciding"
)

// Storage tells whether storage is to blame for a phase.
func (n PhaseName) Storage() bool { return n == CopyLate || n == Reading }

// Fold makes timelines of the events of one path, of each version one, in the order of their commits. It does not matter in which order, and how often, the events come.
func Fold(events []Event) []Timeline {
	events = inOrder(events)
	var all []*version
	for _, ev := range events {
		if ev.Kind == Kind(hints.Committed.String()) {
			all = commit(all, ev)
		}
	}
	runs := evaluations(events)
	if len(all) == 0 && len(runs) > 0 {
		all = []*version{{}}
	}
	for _, r := range runs {
		v := r.version(all)
		v.runs = append(v.runs, r)
	}
	var out []Timeline
	for i, v := range all {
		next := time.Duration(1<<63 - 1)
		if i+1 < len(all) {
			next = all[i+1].commit.At
		}
		out = append(out, v.timeline(events, next))
	}
	return out
}

// inOrder sorts events, each once: that with the earliest moment.
func inOrder(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
	seen := make(map[string]bool, len(events))
	return slices.DeleteFunc(events, func(ev Event) bool {
		again := seen[ev.ID]
		seen[ev.ID] = true
		return again
	})
}

// version is one version of a checkpoint, and what evaluated it.
type version struct {
	commit *Event // nil: none is known
	runs   []*run
}

// commit adds a version, unless it is the one that was committed last, said again.
func commit(all []*version, ev Event) []*version {
	if n := len(all); n > 0 && all[n-1].commit.Identity == ev.Identity && ev.Identity != "" {
		return all
	}
	return append(all, &version{commit: &ev})
}

// run is one evaluation: from its being scheduled, or opened, to the next of the same name.
type run struct {
	name                                       string
	first                                      Event
	scheduled, opened, loaded, done, cancelled *Event
	results                                    []Event
	decided                                    *Event
	identity                                   string
}

// evaluations puts the events of evaluations together.
func evaluations(events []Event) []*run {
	var all []*run
	current := make(map[string]*run)
	for _, ev := range events {
		state, known := hints.ParseCheckpointState(string(ev.Kind))
		if !known || !state.OfEvaluation() {
			continue
		}
		r := current[ev.Evaluation]
		if r == nil || r.over(state) {
			r = &run{name: ev.Evaluation, first: ev}
			current[ev.Evaluation] = r
			all = append(all, r)
		}
		r.take(state, ev)
	}
	return all
}

// over tells whether what was said now is of another evaluation of the same name.
func (r *run) over(state hints.CheckpointState) bool {
	switch state {
	case hints.EvaluationScheduled:
		return r.opened != nil || r.cancelled != nil || r.done != nil
	case hints.EvaluationOpened:
		return r.done != nil || r.cancelled != nil
	}
	return false
}

// take takes what was said. What may be said anew counts as it was said last, what happens once as it was said first.
func (r *run) take(state hints.CheckpointState, ev Event) {
	r.identity = cmp.Or(r.identity, ev.Identity)
	switch state {
	case hints.EvaluationScheduled:
		r.scheduled = &ev
	case hints.EvaluationCancelled:
		r.cancelled = &ev
	case hints.EvaluationOpened:
		if r.opened == nil {
			r.opened = &ev
		}
	case hints.EvaluationLoaded:
		if r.loaded == nil {
			r.loaded = &ev
		}
	case hints.EvaluationResult:
		r.results = append(r.results, ev)
	case hints.EvaluationDone:
		r.done = &ev
	case hints.EvaluationDecided:
		r.decided = &ev
	}
}

// version is the one that was evaluated: that which was named, else the last one that was committed before it was opened; one that is evaluated was
// committed, also where the evaluation was announced before.
func (r *run) version(all []*version) *version {
	at := r.first.At
	if r.opened != nil {
		at = r.opened.At
	}
	found := all[0]
	for _, v := range all {
		if v.commit == nil {
			continue
		}
		if r.identity != "" && v.commit.Identity == r.identity {
			return v
		}
		if v.commit.At <= at {
			found = v
		}
	}
	return found
}

func (v *version) timeline(events []Event, next time.Duration) Timeline {
	t := Timeline{Step: -1, Evaluations: []Evaluation{}}
	if v.commit != nil {
		at := v.commit.At
		t.Path, t.Identity, t.Job, t.Step, t.Committed = v.commit.Path, v.commit.Identity, v.commit.Job, v.commit.Step, &at
	}
	for _, r := range v.runs {
		t.Path = r.first.Path
		t.Job = cmp.Or(t.Job, r.first.Job)
		zero := r.first.At
		if t.Committed != nil {
			zero = *t.Committed
		}
		t.Evaluations = append(t.Evaluations, r.evaluation(events, zero, next, t.Committed != nil))
	}
	return t
}
