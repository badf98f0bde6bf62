package timeline

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
)

const (
	// mostPaths bounds the checkpoints that are remembered, mostEvents the events of each, and mostInAll those of all. The oldest are forgotten.
	mostPaths  = 10_000
	mostEvents = 1_000
	mostInAll  = 100_000
)

// Log remembers what happened to checkpoints, as long as there is room. It is safe for concurrent use.
type Log struct {
	home string

	mu        sync.Mutex
	paths     map[string]*history
	n         int             // events
	unsettled map[string]bool // paths of which something happened lately

	settling sync.Mutex // held by Settled
}

// history is what happened to one checkpoint.
type history struct {
	events  map[string]Event
	last    time.Duration
	counted map[string]bool // spans that Settled has returned; it alone uses them
}

// NewLog returns an empty log. home is the name of the site where the checkpoints are.
func NewLog(home string) *Log {
	return &Log{home: home, paths: make(map[string]*history), unsettled: make(map[string]bool)}
}

// Heard adds what an event of the planner tells of.
func (l *Log) Heard(ev plan.Event, now time.Duration) {
	if h, ok := ev.(plan.Hint); ok {
		if told, ok := OfHint(h, now); ok {
			l.Add(told)
		}
	}
}

// Did adds what a line of the audit log tells of, when it is now and by the wall clock.
func (l *Log) Did(e audit.Entry, now time.Duration, wall time.Time) {
	if told, ok := OfAudit(e, now, wall); ok {
		l.Add(told)
	}
}

// Add adds an event. Again, it changes nothing, unless it was earlier.
func (l *Log) Add(ev Event) {
	if ev.Site == l.home {
		ev.Site = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room()
	h := l.paths[ev.Path]
	if h == nil {
		h = &history{events: make(map[string]Event), last: ev.At}
		l.paths[ev.Path] = h
	}
	old, again := h.events[ev.ID]
	if again && old.At <= ev.At {
		return
	}
	if !again {
		l.n++
	}
	h.events[ev.ID] = ev
	l.unsettled[ev.Path] = true
	h.last = max(h.last, ev.At)
	if len(h.events) > mostEvents {
		l.n--
		delete(h.events, h.oldest())
	}
}

// room forgets the checkpoints to which nothing has happened for the longest time, a tenth at once, if there are many.
func (l *Log) room() {
	if len(l.paths) < mostPaths && l.n < mostInAll {
		return
	}
	all := slices.SortedFunc(maps.Keys(l.paths), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.paths[a].last, l.paths[b].last), cmp.Compare(a, b))
	})
	for _, path := range all {
		if len(l.paths) <= mostPaths/10*9 && l.n <= mostInAll/10*9 {
			return
		}
		l.n -= len(l.paths[path].events)
		delete(l.paths, path)
		delete(l.unsettled, path)
	}
}

// oldest is the id of the event that was first.
func (h *history) oldest() string {
	return slices.MinFunc(slices.Collect(maps.Keys(h.events)), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.events[a].At, h.events[b].At), cmp.Compare(a, b))
	})
}

// Of returns the timelines of a path.
func (l *Log) Of(path string) []Timeline {
	l.mu.Lock()
	var events []Event
	if h := l.paths[path]; h != nil {
		events = slices.Collect(maps.Values(h.events))
	}
	l.mu.Unlock()
	return Fold(events)
}

// OfJob returns the timelines of a job's checkpoints, and of those that it has evaluated, by their commits.
func (l *Log) OfJob(job string) []Timeline {
	l.mu.Lock()
	var paths []string
	for path, h := range l.paths {
		for _, ev := range h.events {
			if ev.Job == job {
				paths = append(paths, path)
				break
			}
		}
	}
	l.mu.Unlock()
	var all []Timeline
	for _, path := range paths {
		for _, t := range l.Of(path) {
			if t.Job == job || slices.ContainsFunc(t.Evaluations, func(e Evaluation) bool { return e.Job == job }) {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b Timeline) int { return cmp.Or(cmp.Compare(a.began(), b.began()), cmp.Compare(a.Path, b.Path)) })
	return all
}

// began is when it was committed; what is not known comes first.
func (t Timeline) began() time.Duration {
	if t.Committed == nil {
		return -1 << 63
	}
	return *t.Committed
}
