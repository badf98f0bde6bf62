package agent

import (
	"cmp"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

const (
	// gateSamples is how many bad samples in a row close the gate: one may be chance.
	gateSamples = 2
	// The DataNode's threads may wait for a CPU delayFactor times as long as they do while we rest,
	// and delayFloor of the time in any case.
	delayFactor = 4
	delayFloor  = 0.10
	// delayWeight is the weight of a new sample in the resting delay.
	delayWeight = 0.05
	// Shares of time in which some task waited for memory or for I/O (PSI, 10 s average).
	memoryHigh = 0.10
	ioHigh     = 0.50
)

// gate decides from the load of others whether work may start now, and on how many cores. It is
// closed until the first sample: an unknown load is not an idle one.
type gate struct {
	high, low float64
	dwell     time.Duration
	max       int // cores there are for us

	open    bool
	seen    bool // a sample was taken
	bad     int  // bad samples in a row
	calm    bool // the latest sample was below the low edge: early work is welcome
	calmAt  time.Duration
	granted int
	resting float64      // the DataNode's run delay while nothing of ours runs
	why     fetch.Reason // what was wrong with the latest bad sample
}

// observe takes a sample; idle says that nothing of ours runs, busy that all granted cores do.
func (g *gate) observe(s LoadSample, idle, busy bool, now time.Duration) {
	if idle {
		g.resting += delayWeight * (s.Delay - g.resting)
	}
	why := g.judge(s)
	calm := why == "" && s.CPU <= g.low
	if calm && !g.calm {
		g.calmAt = now
	}
	g.calm = calm
	g.bad++
	if why == "" {
		g.bad = 0
	} else {
		g.why = why
	}
	g.turn(now)
	g.seen = true
	g.grant(busy)
}

// reason says why the gate is closed.
func (g *gate) reason() fetch.Reason { return cmp.Or(g.why, fetch.ReasonCPU) }

// judge returns the reason for which no work should start at this sample, "" if there is none.
func (g *gate) judge(s LoadSample) fetch.Reason {
	switch {
	case s.CPU >= g.high, s.Delay > max(delayFloor, delayFactor*g.resting):
		return fetch.ReasonCPU
	case s.Memory >= memoryHigh:
		return fetch.ReasonMemory
	case s.IO >= ioHigh:
		return fetch.ReasonQueue
	}
	return ""
}

// turn opens or closes the gate: two edges and a dwell keep it from flapping.
func (g *gate) turn(now time.Duration) {
	switch {
	case g.open && g.bad >= gateSamples:
		g.open = false
	case !g.open && g.calm && (!g.seen || now-g.calmAt >= g.dwell):
		g.open = true
	}
}

// grant moves the cores granted: one more while all are used, half at a bad sample.
func (g *gate) grant(busy bool) {
	switch {
	case !g.open:
		g.granted = 0
	case g.granted == 0:
		g.granted = max(1, g.max/2)
	case g.bad > 0:
		g.granted = max(1, g.granted/2)
	case busy:
		g.granted = min(g.max, g.granted+1)
	}
}
