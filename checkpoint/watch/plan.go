package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint"
)

// mostTries bounds the exponent of a folder's back-off: 2^5 intervals.
const mostTries = 5

// limits are what a planner keeps to.
type limits struct {
	interval, settle time.Duration
	looks, recent    int
}

// planner decides which folders are looked at and what is told of them. It performs no I/O and reads no clock.
type planner struct {
	limits
	folders map[string]*folder
	began   bool
}

// folder is what is known of a folder that may be a checkpoint.
type folder struct {
	step    int64
	changed time.Time // of the listing that the latest look followed
	known   bool      // there is nothing to look at until it changes
	none    bool      // it holds no checkpoint
	due     time.Duration
	tries   int
	told    string // the version that was told of; "" for none
	// steady is the version that was the same since a time, of a folder that would be complete if it were known how many files it has.
	steady string
	since  time.Duration
}

// verdict is what a look found.
type verdict int

const (
	whole      verdict = iota // it is complete
	perhaps                   // it would be if nothing is added any more
	unfinished                // it is not complete, or could not be read
	no                        // it holds no checkpoint
)

func newPlanner(l limits) *planner { return &planner{limits: l, folders: map[string]*folder{}} }

// listed takes a listing. It returns what is gone of what was told or was there from the beginning, and what to look at now, the newest
// first. Of the folders there at the beginning all but the newest few are only watched for changes.
func (p *planner) listed(now time.Duration, found []checkpoint.Candidate) (gone, looks []string) {
	there := make(map[string]bool, len(found))
	for i, c := range found {
		there[c.Path] = true
		f := p.folders[c.Path]
		switch {
		case f == nil:
			p.folders[c.Path] = &folder{step: c.Step, changed: c.Changed, due: now, known: !p.began && i >= p.recent}
		case !f.changed.Equal(c.Changed):
			f.changed, f.known, f.none, f.tries, f.due = c.Changed, false, false, 0, now
		}
	}
	for path, f := range p.folders {
		if there[path] {
			continue
		}
		delete(p.folders, path)
		if f.told != "" || f.known && !f.none && f.step >= 0 {
			gone = append(gone, path)
		}
	}
	slices.Sort(gone)
	p.began = true
	return gone, p.due(now)
}

// due are the folders to look at now.
func (p *planner) due(now time.Duration) []string {
	var paths []string
	for path, f := range p.folders {
		if !f.known && f.due <= now {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.folders[b].step, p.folders[a].step), strings.Compare(b, a))
	})
	return paths[:min(len(paths), p.looks)]
}

// looked takes what a look found, with the version of what is there. It says whether that version is to be told as a committed one.
// jitter, in [0, 1), spreads the next look.
func (p *planner) looked(now time.Duration, path string, found verdict, version string, jitter float64) (commit bool) {
	f := p.folders[path]
	if found == perhaps && f.steady == version && now-f.since >= p.settle {
		found = whole
	}
	switch {
	case found == whole:
		commit = f.told != version
		f.known, f.told, f.tries = true, version, 0
		return commit
	case found == no:
		f.known, f.none = true, true
		return false
	case found == perhaps && f.steady != version:
		f.steady, f.since, f.tries = version, now, 0
	case found == unfinished:
		f.steady = ""
	}
	f.due = now + time.Duration(float64(p.interval<<f.tries)*(0.8+0.4*jitter))
	f.tries = min(f.tries+1, mostTries)
	return false
}

// pause is how long to wait until the next listing, after a number of listings that failed.
func (p *planner) pause(failures int, jitter float64) time.Duration {
	return time.Duration(float64(p.interval<<min(failures, mostTries)) * (0.9 + 0.2*jitter))
}
