package loader

import (
	"slices"
	"sync"
	"time"
)

// stepGaps is how many gaps between deliveries the step clock remembers, as the agents' does.
const stepGaps = 16

// stepClock estimates when a step will be wanted. Safe for concurrent use.
type stepClock struct {
	mu   sync.Mutex
	gaps []time.Duration // the last stepGaps, oldest first
	next int64           // the next step to be delivered
	last time.Duration   // when the one before it was
	any  bool            // last is known
}

// delivered notes that step was handed over at now.
func (c *stepClock) delivered(step int64, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.any && step == c.next {
		c.gaps = appendBounded(c.gaps, now-c.last, stepGaps)
	}
	c.next, c.last, c.any = step+1, now, true
}

// restart moves the clock to a step that does not follow from the last one.
func (c *stepClock) restart(step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.any = step, false
}

// step is the usual time between deliveries, 0 when fewer than two are known.
func (c *stepClock) step() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return median(c.gaps)
}

// lead is how long it will take until step is wanted; false when the step time is not known yet.
func (c *stepClock) lead(step int64, now time.Duration) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gap := median(c.gaps)
	if gap == 0 || !c.any {
		return 0, false
	}
	return c.last + time.Duration(step-c.next+1)*gap - now, true
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

// pace keeps the average time of a local transform. Safe for concurrent use.
type pace struct {
	mu      sync.Mutex
	average time.Duration
}

// paceWeight is the weight of the newest transform: about the last 16 count.
const paceWeight = 16

func (p *pace) add(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.average == 0 {
		p.average = d
	}
	p.average += (d - p.average) / paceWeight
}

// of returns how long n transforms take on a number of workers.
func (p *pace) of(n, workers int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.average * time.Duration(n) / time.Duration(max(workers, 1))
}
