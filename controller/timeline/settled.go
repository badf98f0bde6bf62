package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// settling is how long after its end a span counts: what is heard until then may still change it. quiet is after how long without a word an evaluation is
	// believed to be over, although nobody said so.
	settling = time.Minute
	quiet    = time.Hour
)

// The names of spans that are no phases: how old a version was when a copy of it was ready for an evaluation, and when a regression was declared.
const (
	AgeReady      PhaseName = "copy ready"
	AgeRegression PhaseName = "regression"
)

// Span is a length of time that will not change any more, to be counted. Name is a phase, AgeReady or AgeRegression.
type Span struct {
	Name PhaseName
	Site string
	// Read is where the evaluation found the bytes; "" where it has not opened the checkpoint.
	Read Place
	Took time.Duration
}

// Settled returns spans that are over and that no call has returned before. Of what ended before the controller's clock began it returns nothing: another process has
// counted that. It is to be called at least once an hour, or some are left out.
func (l *Log) Settled(now time.Duration) (spans []Span) {
	l.settling.Lock()
	defer l.settling.Unlock()
	l.mu.Lock()
	paths := slices.Sorted(maps.Keys(l.unsettled))
	l.mu.Unlock()
	for _, path := range paths {
		l.mu.Lock()
		h := l.paths[path]
		if h == nil || now >= h.last+quiet+settling {
			delete(l.unsettled, path)
		}
		l.mu.Unlock()
		if h == nil {
			continue
		}
		for _, t := range l.Of(path) {
			spans = append(spans, h.settled(t, l.home, now)...)
		}
	}
	return spans
}

// settled returns the spans of a timeline that were not counted before.
func (h *history) settled(t Timeline, home string, now time.Duration) (spans []Span) {
	nth := make(map[string]int)
	for _, e := range t.Evaluations {
		nth[e.Name]++
		for _, s := range e.ended(t.Committed != nil, now-e.zero) {
			key := fmt.Sprintf("%s %q %d %s", t.Identity, e.Name, nth[e.Name], s.Name)
			if h.counted[key] {
				continue
			}
			if h.counted == nil {
				h.counted = make(map[string]bool)
			}
			h.counted[key] = true
			if e.zero+s.at >= 0 {
				s.Site, s.Read = cmp.Or(e.Site, home), e.Read
				spans = append(spans, s.Span)
			}
		}
	}
	return spans
}

// ended is a span, and when it was over.
type ended struct {
	Span
	at time.Duration
}

// ended returns what of an evaluation is over. committed says that moments are since a commit.
func (e Evaluation) ended(committed bool, now time.Duration) (list []ended) {
	add := func(name PhaseName, took, at time.Duration) {
		if now >= at+settling {
			list = append(list, ended{Span{Name: name, Took: took}, at})
		}
	}
	if committed && e.CopyReady != nil {
		add(AgeReady, *e.CopyReady, *e.CopyReady)
	}
	if e.Regression != nil {
		add(AgeRegression, *e.Regression, *e.Regression)
	}
	if len(e.Phases) == 0 {
		return list
	}
	over := e.Done != nil || e.Decided != nil || now >= e.Phases[len(e.Phases)-1].To+quiet
	for _, name := range phaseOrder {
		lasts := name == Computing || name == Running || name == Deciding // until the last result
		if took := e.Took(name); took > 0 && (over || !lasts) && (committed || name != Queue) {
			add(name, took, e.end(name))
		}
	}
	return list
}

// end is when a phase was over.
func (e *Evaluation) end(name PhaseName) (at time.Duration) {
	for _, p := range e.Phases {
		if p.Name == name {
			at = p.To
		}
	}
	return at
}
