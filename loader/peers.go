package loader

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// The back-off after an agent failed: doubled with every failure in a row.
const (
	minBackOff = 200 * time.Millisecond
	maxBackOff = 5 * time.Second
)

// peer is an agent and what the loader thinks of it.
type peer struct {
	fetch.Node
	trusted bool // may see the token

	failures    int           // in a row
	retryAt     time.Duration // no call before
	reason      fetch.Reason  // of the last failure
	quarantined bool          // gave wrong bytes: never asked again under this address

	told    uint64        // the generation whose schedule it has accepted
	tellAt  time.Duration // no schedule before
	refusal int           // schedules refused or lost in a row
	refused fetch.Reason  // why it did not take the schedule
	hinted  int64         // the step at which it was sent the last hint; -1 before the first
	window  window        // what it was told of the ids of steps, if it must be
	moreAt  time.Duration // no further ids before
	misses  int           // hints with further ids refused or lost in a row
	fetched bool          // it has answered a fetch since the last step was delivered
}

// allow tells whether the agent may be asked now. After a failure it lets one caller in per back-off,
// so that a dead agent costs one step's wait now and then, not every step's. try identifies the call
// for failed.
func (p *peer) allow(now, first time.Duration) (try int, ok bool) {
	if p.quarantined || now < p.retryAt {
		return 0, false
	}
	if p.failures > 0 {
		p.retryAt = now + backOff(p.failures, first)
	}
	return p.failures, true
}

// failed notes that call try failed. Of calls that ran at the same time only one counts.
func (p *peer) failed(try int, reason fetch.Reason, now, first time.Duration) {
	if try != p.failures {
		return
	}
	p.failures++
	p.reason = reason
	p.retryAt = now + backOff(p.failures, first)
}

// answered notes that the agent works.
func (p *peer) answered() {
	p.failures, p.retryAt, p.reason = 0, 0, ""
}

// backOff is the pause after a number of failures in a row.
func backOff(failures int, first time.Duration) time.Duration {
	d := first
	for i := 1; i < failures && d < maxBackOff; i++ {
		d *= 2
	}
	return min(d, maxBackOff)
}

// skipReason is why an agent that may not be asked now is passed over.
func (p *peer) skipReason() fetch.Reason {
	switch {
	case p.quarantined:
		return fetch.ReasonCorrupt
	case p.refused != "":
		return p.refused
	case p.reason != "":
		return p.reason
	}
	return fetch.ReasonUnreachable
}

// roster is the list of agents, sorted by node name, and its generation, which changes with it.
type roster struct {
	peers      []*peer
	generation uint64
}

// newPeer returns an agent of which nothing is known.
func newPeer(node, addr string, trusted bool) peer {
	return peer{Node: fetch.Node{Name: node, Addr: addr}, trusted: trusted, hinted: -1}
}

// replace makes list the roster. Agents that stay under the same address keep what is known of them.
// It reports whether anything changed.
func (r *roster) replace(list []peer) bool {
	slices.SortFunc(list, func(a, b peer) int { return cmp.Compare(a.Name, b.Name) })
	list = slices.CompactFunc(list, func(a, b peer) bool { return a.Name == b.Name })
	same := func(p *peer, q peer) bool { return p.Node == q.Node && p.trusted == q.trusted }
	if slices.EqualFunc(r.peers, list, same) {
		return false
	}
	peers := make([]*peer, len(list))
	for i, q := range list {
		peers[i] = &q
		if old := r.find(q.Name); old != nil && same(old, q) {
			peers[i] = old
		}
	}
	r.peers = peers
	r.generation++
	return true
}

// find returns the agent of a node, or nil.
func (r *roster) find(node string) *peer {
	i, ok := slices.BinarySearchFunc(r.peers, node, func(p *peer, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return r.peers[i]
}
