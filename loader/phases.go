package loader

import (
	"sync"
	"time"
)

// phase is what the building of a step is doing.
type phase int

const (
	// waitQueue: nothing of the step is worked on: it waits for its turn, for a worker or for memory.
	waitQueue phase = iota
	// waitNetwork: answers of agents or reads of the store are under way, no transform runs.
	waitNetwork
	// waitTransform: at least one of the step's parts is being transformed.
	waitTransform
	phases
)

// split is time by phase.
type split [phases]time.Duration

func (s split) minus(o split) split {
	for i := range s {
		s[i] -= o[i]
	}
	return s
}

func (s split) sum() time.Duration { return s[waitQueue] + s[waitNetwork] + s[waitTransform] }

// phaseClock splits the time in which a step is built: every moment counts for the busiest phase that
// any of its parts is in, transform before network before queue. Two readings taken around a wait thus
// split the wait without remainder. Safe for concurrent use.
type phaseClock struct {
	now func() time.Duration

	mu    sync.Mutex
	last  time.Duration
	busy  [phases]int
	total split
}

func newPhaseClock(now func() time.Duration) *phaseClock {
	return &phaseClock{now: now, last: now()}
}

// enter counts one more part in phase p, until the returned function is called.
func (c *phaseClock) enter(p phase) (leave func()) {
	c.add(p, 1)
	return func() { c.add(p, -1) }
}

func (c *phaseClock) add(p phase, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	c.busy[p] += n
}

// read returns the time so far by phase.
func (c *phaseClock) read() split {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	return c.total
}

func (c *phaseClock) advance() {
	now := c.now()
	p := waitQueue
	switch {
	case c.busy[waitTransform] > 0:
		p = waitTransform
	case c.busy[waitNetwork] > 0:
		p = waitNetwork
	}
	c.total[p] += now - c.last
	c.last = now
}
