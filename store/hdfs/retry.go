package hdfs

import (
	"fmt"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// cause is why a read from one place failed. The set is closed: metrics are labelled by it.
type cause int

const (
	byConnect    cause = iota // no connection
	byBroken                  // the connection ended or stood still
	bySlow                    // the node sends, but far too slowly
	byToken                   // the block's token was refused
	byKey                     // the data encryption key was refused, or cannot be had
	byMissing                 // the node has no such replica, or an older one
	byLength                  // the range is not inside the replica
	byChecksum                // wrong bytes
	byProtocol                // what came is no answer
	byUnverified              // the replica has no checksums
	byRefused                 // the node refused, for another reason
	causes                    // how many there are
)

var causeNames = [causes]string{
	"connect", "broken", "slow", "token", "key", "missing", "length", "checksum", "protocol", "unverified", "refused",
}

func (c cause) String() string { return causeNames[c] }

// blamesNode tells whether other blocks on the node are likely to fail in the same way.
func (c cause) blamesNode() bool {
	return c == byConnect || c == byBroken || c == bySlow || c == byProtocol
}

// blamesReplica tells whether this replica is likely to fail again, whatever the node.
func (c cause) blamesReplica() bool {
	return c == byMissing || c == byLength || c == byChecksum || c == byUnverified || c == byRefused
}

// move is what follows a failed attempt.
type move int

const (
	nextPlace    move = iota // go on at another replica
	samePlace                // once more
	renewAndSame             // ask the NameNode for the block again, then once more
	renewAndNext             // ask the NameNode for the block again, then another replica
)

const (
	// rounds is how often all replicas are tried before a block counts as unreadable.
	rounds = 3
	// roundWait spaces the rounds: a DataNode that restarts, or a block that moves, needs some seconds.
	roundWait = 3 * time.Second
)

// trial is the state of reading one block from one replica after the other.
type trial struct {
	round      int
	token, key bool      // a new one was asked for, once for the whole read
	renewed    bool      // the block was asked for again, once a round
	failures   []failure // the last of each place
}

type failure struct {
	place place
	cause cause
	err   error
}

// after notes a failed attempt and says what follows.
func (t *trial) after(p place, c cause, err error) move {
	t.note(failure{p, c, err})
	switch {
	case c == byToken && !t.token:
		t.token = true
		return renewAndSame
	case c == byKey && !t.key:
		t.key = true
		return samePlace
	case (c == byMissing || c == byLength) && !t.renewed:
		t.renewed = true
		return renewAndNext
	}
	return nextPlace
}

// note keeps the last failure of each place: the error tells about every one of them once.
func (t *trial) note(f failure) {
	for i, old := range t.failures {
		if old.place.node == f.place.node {
			t.failures[i] = f
			return
		}
	}
	t.failures = append(t.failures, f)
}

// next starts another round after a pause; jitter, 0 to 1, spreads readers who failed together. false: it was the last.
func (t *trial) next(jitter float64) (pause time.Duration, more bool) {
	t.round++
	if t.round >= rounds {
		return 0, false
	}
	t.renewed = false
	base := float64(roundWait)
	return time.Duration(base*float64(t.round-1) + base*float64(t.round)*jitter), true
}

// patient tells whether the next node is waited for, however slow: two were given up as too slow, or all failed.
func (t *trial) patient() bool {
	slow := 0
	for _, f := range t.failures {
		if f.cause == bySlow {
			slow++
		}
	}
	return t.round > 0 || slow >= 2
}

// corrupt returns the places whose bytes were wrong.
func (t *trial) corrupt() []place {
	var bad []place
	for _, f := range t.failures {
		if f.cause == byChecksum {
			bad = append(bad, f.place)
		}
	}
	return bad
}

// error says that no replica gave the block. Wrong bytes everywhere are store.ErrCorrupt. If any replica failed
// otherwise it may come back, so the error is store.ErrUnavailable: an outage must not look like bad content.
func (t *trial) error(b *block) error {
	if len(t.failures) == 0 {
		return fmt.Errorf("%w: block %s at offset %d: the NameNode knows no DataNode that holds it", store.ErrUnavailable, b.id, b.off)
	}
	kind := store.ErrCorrupt
	texts := make([]string, 0, len(t.failures))
	for _, f := range t.failures {
		if f.cause != byChecksum {
			kind = store.ErrUnavailable
		}
		texts = append(texts, fmt.Sprintf("%s: %v", f.place.node, f.err))
	}
	return fmt.Errorf("%w: block %s at offset %d: %d replicas failed: %s", kind, b.id, b.off, len(t.failures), strings.Join(texts, "; "))
}
