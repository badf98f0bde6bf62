package hdfs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
)

// errSlow: the node sends too slowly; another is asked for what is missing.
var errSlow = errors.New("far too slow")

// errTurnedBad: the node failed other reads while this one waited for its turn, so that another may be better now.
var errTurnedBad = errors.New("the node failed meanwhile")

// errOvertaken: the second node answered first.
var errOvertaken = errors.New("another node was faster")

const (
	// patience is how long any node may take before another is asked for what is missing, and
	patience = 4 * time.Second
	// slowest is the rate, in bytes a second, that it must keep beyond that. Where every node is slower, the third one asked
	// is waited for.
	slowest = 1 << 20
	// hasty bounds from below what a near deadline leaves of patience.
	hasty = 100 * time.Millisecond
)

// patienceFor is how long a node may take for n bytes. A deadline leaves time for two more nodes.
func patienceFor(n int64, left time.Duration, deadline bool) time.Duration {
	limit := patience + time.Duration(n)*time.Second/slowest
	if deadline {
		limit = max(min(limit, left/3), hasty)
	}
	return limit
}

// attempt is one try to read parts of a block from a place.
type attempt struct {
	s       *Store
	b       *block
	at      place
	spare   *place // may be asked too when at is slow; nil for none
	parts   []part
	patient bool // wait as long as it takes
	badness int  // of at, when it was chosen
}

// run reads, and returns the place that the bytes came from. After an error the first n bytes from the first part's offset
// on, gaps included, are right. Nothing writes to the parts' memory after run has returned.
func (a *attempt) run(ctx context.Context) (n int64, from place, err error) {
	span := partsEnd(a.parts) - a.parts[0].Off
	own, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	gates := a.s.gatesOf(ctx)
	if err := gates.enter(ctx, a.at.node); err != nil {
		return 0, a.at, err
	}
	defer gates.leave(a.at.node)
	start := time.Now()
	if a.s.bad.badness(a.b.id, a.at.node, start) > a.badness {
		return 0, a.at, errTurnedBad
	}
	deadline, ok := ctx.Deadline()
	limit := patienceFor(span, deadline.Sub(start), ok)
	if !a.patient {
		defer time.AfterFunc(limit, func() { stop(errSlow) }).Stop()
	}
	var second *second
	if a.spare != nil && span <= maxHedge && !a.s.o.NoHedge {
		second = a.hedge(ctx, span, limit, stop)
	}
	n, err = a.s.readFrom(own, a.b, a.at, a.parts)
	if why := context.Cause(own); err == nil || why == errOvertaken || why == errSlow { // else it says nothing about the time
		a.s.hedges.observe(span, time.Since(start))
	}
	if second.wins(err == nil) {
		second.copyTo(a.parts)
		a.s.bad.nodeOvertaken(a.at.node, time.Now())
		return span, *a.spare, nil
	}
	if err != nil && ctx.Err() == nil && context.Cause(own) == errSlow {
		err = errSlow
		if n < span {
			a.s.bad.nodeFailed(a.at.node, time.Now()) // before its gate is left: the next who waits there asks
		}
	}
	return n, a.at, err
}

// second is the same read, asked of another node into memory of its own.
type second struct {
	timer *time.Timer
	stop  context.CancelFunc
	done  chan struct{} // closed when the read has ended
	s     *Store
	span  int64
	parts []part
	asked bool // false: there was no budget
	err   error
}

// hedge asks the spare place when the time for it has come, for no longer than limit in all. If it answers, it ends the first
// read.
func (a *attempt) hedge(ctx context.Context, span int64, limit time.Duration, overtake context.CancelCauseFunc) *second {
	ctx, stop := context.WithTimeout(ctx, limit)
	h := &second{stop: stop, done: make(chan struct{}), s: a.s, span: span}
	h.timer = time.AfterFunc(a.s.hedges.delay(span), func() {
		defer close(h.done)
		gates := a.s.gatesOf(ctx)
		if ctx.Err() != nil || !gates.tryEnter(a.spare.node) {
			return
		}
		defer gates.leave(a.spare.node)
		if !a.s.hedges.take(span) {
			return
		}
		h.asked = true
		h.parts = likewise(a.parts)
		_, h.err = a.s.readFrom(ctx, a.b, *a.spare, h.parts)
		if h.err == nil {
			overtake(errOvertaken)
		} else if causeOf(h.err).blamesNode() {
			a.s.bad.nodeFailed(a.spare.node, time.Now())
		}
	})
	return h
}

// wins ends the second read and tells whether its bytes are the ones to take. If the first read failed, the second is
// waited for.
func (h *second) wins(first bool) bool {
	if h == nil {
		return false
	}
	if h.timer.Stop() {
		h.stop()
		return false
	}
	if first {
		h.stop()
	}
	<-h.done
	h.stop()
	if !h.asked {
		return false
	}
	h.s.hedges.give(h.span)
	won := !first && h.err == nil
	h.s.stats.hedged(won, h.span)
	return won
}

func (h *second) copyTo(parts []part) {
	for i, p := range h.parts {
		copy(parts[i].Buf, p.Buf)
	}
}

// likewise makes parts of the same shape in memory of their own.
func likewise(parts []part) []part {
	var total int
	for _, p := range parts {
		total += len(p.Buf)
	}
	memory := make([]byte, total)
	own := slices.Clone(parts)
	for i, p := range own {
		own[i].Buf, memory = memory[:len(p.Buf):len(p.Buf)], memory[len(p.Buf):]
	}
	return own
}

// readFrom reads parts of a block from one place.
func (s *Store) readFrom(ctx context.Context, b *block, p place, parts []part) (int64, error) {
	n := p.node
	token := b.token
	if p.token != nil {
		token = p.token
	}
	return s.data.Read(ctx, n.transfer(), datanode.Block{ExtendedBlock: b.ext, Token: token}, parts)
}

// causeOf tells why a read from a node failed.
func causeOf(err error) cause {
	for _, row := range []struct {
		kind  error
		cause cause
	}{
		{datanode.ErrChecksum, byChecksum}, {datanode.ErrToken, byToken}, {datanode.ErrKey, byKey}, {datanode.ErrProtection, byKey},
		{datanode.ErrMissing, byMissing}, {datanode.ErrLength, byLength}, {datanode.ErrConnect, byConnect},
		{datanode.ErrBroken, byBroken}, {datanode.ErrProtocol, byProtocol}, {datanode.ErrUnverified, byUnverified}, {errSlow, bySlow},
	} {
		if errors.Is(err, row.kind) {
			return row.cause
		}
	}
	return byRefused
}
