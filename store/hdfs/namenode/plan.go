package namenode

import "time"

// cause says why an attempt at a call failed, and so what to do next.
type cause int

const (
	// causeAnswer: the NameNode answered; the answer is an error.
	causeAnswer cause = iota
	// causeUnreachable: no connection; the call was not sent.
	causeUnreachable
	// causeStandby: this NameNode is not the active one.
	causeStandby
	// causeBusy: the NameNode asks to repeat the call later (safe mode, overload).
	causeBusy
	// causeStale: a connection that had served before broke; most often the server closed it as idle.
	causeStale
	// causeBroken: the connection broke after the call was sent.
	causeBroken
	// causeSilent: no answer in time.
	causeSilent
	causes
)

var causeNames = [causes]string{"answer", "unreachable", "standby", "busy", "stale", "broken", "silent"}

func (c cause) String() string { return causeNames[c] }

// history is what a call has met so far.
type history struct {
	moves  int // to the next NameNode
	busy   int // repeats at the same NameNode that it asked for
	silent int // answers that did not come
	stale  int // repeats after a stale connection
}

// limits bound a call's attempts.
type limits struct {
	nodes, rounds, busy int
	base, max           time.Duration
}

// maxSilent bounds silent attempts a NameNode: each takes the whole of Options.CallTimeout.
const maxSilent = 2

// move is what to do next.
type move struct {
	giveUp bool
	other  bool          // go to the next NameNode
	wait   time.Duration // first
}

// plan decides what follows a failed attempt. All NameNodes are tried at once, then all again after a pause
// that doubles; what a NameNode answered is final; what it asks to repeat is repeated there.
func plan(c cause, h history, l limits) move {
	switch c {
	case causeAnswer:
		return move{giveUp: true}
	case causeStale:
		if h.stale == 0 {
			return move{}
		}
	case causeBusy:
		if h.busy >= l.busy {
			return move{giveUp: true}
		}
		return move{wait: backoff(h.busy, l)}
	case causeSilent:
		if h.silent+1 >= maxSilent*l.nodes {
			return move{giveUp: true}
		}
	}
	round := (h.moves + 1) / l.nodes
	if (h.moves+1)%l.nodes != 0 {
		return move{other: true}
	}
	if round >= l.rounds {
		return move{giveUp: true}
	}
	return move{other: true, wait: backoff(round-1, l)}
}

// add counts one failed attempt and the move after it.
func (h history) add(c cause, m move) history {
	switch {
	case m.other:
		h.moves++
	case c == causeBusy:
		h.busy++
	case c == causeStale:
		h.stale++
	}
	if c == causeSilent {
		h.silent++
	}
	return h
}

// backoff doubles from base to max.
func backoff(n int, l limits) time.Duration {
	d := l.base
	for range n {
		if d >= l.max {
			break
		}
		d *= 2
	}
	return min(d, l.max)
}
