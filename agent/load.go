package agent

import (
	"errors"
	"time"
)

// A LoadSample is what others want of this node, so that preparing never takes it from them. All
// fields are shares from 0 to 1; what cannot be measured is 0.
type LoadSample struct {
	// CPU is the share of all CPUs used by others than this agent and its workers.
	CPU float64
	// Delay is the share of time that the DataNode's threads were ready and had no CPU.
	Delay float64
	// Memory and IO are the shares of time in which some task waited for memory or I/O.
	Memory, IO float64
}

// ErrNoSample says that a load has nothing to tell yet: it needs two readings.
var ErrNoSample = errors.New("no load sample yet")

// Load tells the load of others on the node. Sample is called by one goroutine, at equal intervals,
// with the time since the agent's start. An error other than
// ErrNoSample counts as a loaded node.
type Load interface {
	Sample(now time.Duration) (LoadSample, error)
}

// Series is the load of a simulated node: the values follow each other every Period and begin again
// at the end. /proc is never shared between simulated nodes.
type Series struct {
	Period  time.Duration
	Samples []LoadSample
}

// Steady returns the load of a node on which others use the share cpu all the time.
func Steady(cpu float64) *Series {
	return &Series{Period: time.Second, Samples: []LoadSample{{CPU: cpu}}}
}

// Sample implements [Load].
func (s *Series) Sample(now time.Duration) (LoadSample, error) {
	return s.Samples[int(now/s.Period)%len(s.Samples)], nil
}
