package hints

import "sync"

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
	current recent[string, string] // job -> its run
	over    recent[runKey, bool]   // runs that are over; true: replaced, else closed
	seen    recent[hintKey, struct{}]
	said    recent[subject, uint64] // the largest number of a hint about a checkpoint
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
		current: newRecent[string, string](inboxJobs),
		over:    newRecent[runKey, bool](inboxRuns),
		seen:    newRecent[hintKey, struct{}](inboxHints),
		said:    newRecent[subject, uint64](inboxRuns),
	}
}

// Admit reports whether h must be handled. If not, the reply is its answer: accepted, for a hint that was
// accepted before or came after a later one about the same checkpoint, or [ReasonOldRun]. What is said about checkpoints and starts
// outlives the close of a run: the last checkpoint is often committed after it.
func (b *Inbox) Admit(h Hint) (Reply, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := runKey{h.Job, h.Run}
	if _, repeated := b.seen.get(hintKey{run, h.ID}); repeated {
		return Reply{Accepted: true, Detail: "repeated"}, false
	}
	if replaced, old := b.over.get(run); old && (replaced || h.Checkpoint == nil && h.Start == nil) {
		return Refuse(ReasonOldRun, "run "+h.Run+" was replaced or closed"), false
	}
	if c := h.Checkpoint; c != nil && c.Sequence != 0 {
		if last, known := b.said.get(subjectOf(h)); known && c.Sequence <= last {
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
	b.seen.put(hintKey{run, h.ID}, struct{}{})
	switch {
	case h.Checkpoint != nil && h.Checkpoint.Sequence != 0:
		b.said.put(subjectOf(h), h.Checkpoint.Sequence)
	case h.Close != nil:
		b.over.put(run, false)
	case h.Schedule != nil:
		before, ok := b.current.get(h.Job)
		b.current.put(h.Job, h.Run)
		if ok && before != h.Run {
			b.over.put(runKey{h.Job, before}, true)
			return before
		}
	}
	return ""
}

// recent is a map that forgets its oldest entries beyond a limit.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // ring, oldest at next once it is full
	next   int
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, values: make(map[K]V)}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.values[k]
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	_, known := r.values[k]
	r.values[k] = v
	switch {
	case known:
	case len(r.order) < r.limit:
		r.order = append(r.order, k)
	default:
		delete(r.values, r.order[r.next])
		r.order[r.next] = k
		r.next = (r.next + 1) % r.limit
	}
}
