package hints

import (
	"sync"

	"github.com/stepahead-io/stepahead/internal/recent"
)

// Bounds of an [Inbox]. What is forgotten is the oldest; the worst that follows is that a very late
// repetition is handled once more.
const (
	inboxJobs  = 1 << 12
	inboxHints = 1 << 16
	inboxRuns  = 1 << 14
)

// Inbox makes repeated, late and reordered hints harmless: it remembers which hints were accepted and
// which runs are over. It reads no clock, is bounded, and is safe for concurrent use.
type Inbox struct {
	mu      sync.Mutex
	current recent.Map[string, string] // job -> its run
	over    recent.Map[runKey, bool]   // runs that are over; true: replaced, else closed
	seen    recent.Map[hintKey, struct{}]
	said    recent.Map[subject, uint64] // the largest number of a hint about a checkpoint
}

type runKey struct{ job, run string }

type hintKey struct {
	runKey
	id string
}

// subject is what hints about checkpoints follow each other about.
type subject struct {
	runKey
	path, evaluation string
	ofEvaluation     bool
	// outcome and metric: each result and the decision stands for itself, since others than the evaluation may say them.
	outcome CheckpointState
	metric  string
}

func subjectOf(h Hint) subject {
	c := h.Checkpoint
	s := subject{runKey: runKey{h.Job, h.Run}, path: c.Path, evaluation: c.Evaluation, ofEvaluation: c.State.OfEvaluation()}
	if c.State.Outcome() {
		s.outcome = c.State
	}
	if c.Result != nil {
		s.metric = c.Result.Metric
	}
	return s
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox {
	return &Inbox{
		current: recent.New[string, string](inboxJobs),
		over:    recent.New[runKey, bool](inboxRuns),
		seen:    recent.New[hintKey, struct{}](inboxHints),
		said:    recent.New[subject, uint64](inboxRuns),
	}
}

// Admit reports whether h must be handled. If not, the reply is its answer: accepted, for a hint that was
// accepted before or came after a later one about the same checkpoint, or [ReasonOldRun]. What is said about checkpoints and starts
// outlives the close of a run: the last checkpoint is often committed after it.
func (b *Inbox) Admit(h Hint) (Reply, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := runKey{h.Job, h.Run}
	if _, repeated := b.seen.Get(hintKey{run, h.ID}); repeated {
		return Reply{Accepted: true, Detail: "repeated"}, false
	}
	if replaced, old := b.over.Get(run); old && (replaced || h.Checkpoint == nil && h.Start == nil) {
		return Refuse(ReasonOldRun, "run "+h.Run+" was replaced or closed"), false
	}
	if c := h.Checkpoint; c != nil && c.Sequence != 0 {
		if last, known := b.said.Get(subjectOf(h)); known && c.Sequence <= last {
			return Reply{Accepted: true, Detail: "late: what came after it is known"}, false
		}
	}
	return Reply{}, true
}

// Done records the reply to a hint that was admitted. An accepted schedule makes its run the job's
// current one and ends the one before, which it returns if it was another; an accepted close ends its
// run. A refused hint leaves no trace: it may be sent again.
func (b *Inbox) Done(h Hint, r Reply) (replaced string) {
	if !r.Accepted {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	run := runKey{h.Job, h.Run}
	b.seen.Put(hintKey{run, h.ID}, struct{}{})
	switch {
	case h.Checkpoint != nil && h.Checkpoint.Sequence != 0:
		b.said.Put(subjectOf(h), h.Checkpoint.Sequence)
	case h.Close != nil:
		b.over.Put(run, false)
	case h.Schedule != nil:
		before, ok := b.current.Get(h.Job)
		b.current.Put(h.Job, h.Run)
		if ok && before != h.Run {
			b.over.Put(runKey{h.Job, before}, true)
			return before
		}
	}
	return ""
}
