package plan

import "time"

// slot is a place that has at most one placement: a file's, or a checkpoint's at one site.
type slot struct {
	owner   owner
	pool    *pool
	x       *placement
	why     *refusal // why there is none or it waits; nil: no reason
	was     *past    // nil where nothing was there
	revoked bool     // until nobody asks any more
}

// begun tells whether there is something, or will be, that is not on its way out.
func (s *slot) begun() bool { return s.x != nil && s.x.held != nil && !s.x.state.undoing() }

// past is what a slot remembers of what was there. Most slots never had anything, and there may be a million.
type past struct {
	keep      time.Duration // what was recovered is kept so long without being asked for
	notBefore time.Duration // after failures
	tries     uint8
	// here is the version of a copy that was last begun, and since when that has been there: policy may bound how long.
	here  string
	since time.Duration
}

// past returns what a slot remembers, to be changed.
func (s *slot) past() *past {
	if s.was == nil {
		s.was = &past{}
	}
	return s.was
}

// keep is until when what was recovered is kept without being asked for.
func (s *slot) keep() time.Duration {
	if s.was == nil {
		return 0
	}
	return s.was.keep
}

// forsake keeps nothing any longer than it is asked for.
func (s *slot) forsake() {
	if s.was != nil {
		s.was.keep = 0
	}
}

// notBefore is when something may be tried again after failures.
func (s *slot) notBefore() time.Duration {
	if s.was == nil {
		return 0
	}
	return s.was.notBefore
}

// here is the version of a copy that was last begun; "" if none was.
func (s *slot) here() string {
	if s.was == nil {
		return ""
	}
	return s.was.here
}

// stay notes that a version is being put there.
func (s *slot) stay(identity string, now time.Duration) {
	if was := s.past(); was.here != identity {
		was.here, was.since = identity, now
	}
}

// refusal is a reason with its numbers.
type refusal struct {
	reason Reason
	detail string
}

// because returns the reason, "" if there is none, and its numbers.
func (s *slot) because() (Reason, string) {
	if s.why == nil {
		return "", ""
	}
	return s.why.reason, s.why.detail
}
