package plan

import (
	"cmp"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

// said is the last that one run has said of a subject: of a checkpoint, of the loss at it, or of one of its evaluations.
type said struct {
	stamp
	job, run string
	seq      uint64
	until    time.Duration // when it does not hold any more
	state    hints.CheckpointState
	identity string
	user     string
	step     int64
	// urgency and confidence are those of the hint, site and due those of an evaluation.
	urgency, confidence float64
	site                string
	due                 time.Duration
}

// register keeps the last word of each run: in whatever order hints come, and however often, it holds the same.
type register []said

// put takes a word, and tells whether it was new.
func (r *register) put(s said) bool {
	for i := range *r {
		old := &(*r)[i]
		if old.job != s.job || old.run != s.run {
			continue
		}
		if old.id == s.id { // again: the earliest moment counts
			if s.at >= old.at {
				return false
			}
			*old = s
			return true
		}
		if cmp.Or(cmp.Compare(s.seq, old.seq), s.stamp.compare(old.stamp)) <= 0 {
			return false
		}
		*old = s
		return true
	}
	*r = append(*r, s)
	return true
}

// last is the latest word of any run that had not been replaced by then; nil if there is none.
func (r register) last(p *Planner) *said {
	var last *said
	for i := range r {
		s := &r[i]
		if j := p.jobs[s.job]; j != nil && j.replaced(s.run, s.at) {
			continue
		}
		if last == nil || s.stamp.compare(last.stamp) > 0 {
			last = s
		}
	}
	return last
}

// holds returns the last word if it still holds; nil if not.
func (r register) holds(p *Planner) *said {
	if s := r.last(p); s != nil && s.until > p.now {
		return s
	}
	return nil
}

// forget drops what is so old that no hint can contradict it any more, and returns when the next will be.
func (r *register) forget(now time.Duration) time.Duration {
	next := never
	kept := (*r)[:0]
	for _, s := range *r {
		if end := s.at + hints.MaxTTL; end > now {
			kept = append(kept, s)
			next = min(next, end)
		}
	}
	clear((*r)[len(kept):])
	*r = kept
	return next
}
