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
	current recent[string, string]   // job -> its run
	over    recent[runKey, struct{}] // runs that were replaced or closed
	seen    recent[hintKey, struct{}]
}

type runKey struct{ job, run string }

type hintKey struct {
	runKey
	id string
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox {
	return &Inbox{
		current: newRecent[string, string](inboxJobs),
		over:    newRecent[runKey, struct{}](inboxRuns),
		seen:    newRecent[hintKey, struct{}](inboxHints),
	}
}

// Admit reports whether h must be handled. If not, the reply is its answer: accepted, for a hint that was
// accepted before, or [ReasonOldRun].
func (b *Inbox) Admit(h Hint) (Reply, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := runKey{h.Job, h.Run}
	if _, repeated := b.seen.get(hintKey{run, h.ID}); repeated {
		return Reply{Accepted: true, Detail: "repeated"}, false
	}
	if _, old := b.over.get(run); old {
		return Refuse(ReasonOldRun, "run "+h.Run+" was replaced or closed"), false
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
	case h.Close != nil:
		b.over.put(run, struct{}{})
	case h.Schedule != nil:
		before, ok := b.current.get(h.Job)
		b.current.put(h.Job, h.Run)
		if ok && before != h.Run {
			b.over.put(runKey{h.Job, before}, struct{}{})
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
