package agent

import (
	"slices"
	"time"
)

const (
	// clockGaps is how many gaps between steps the clock remembers.
	clockGaps = 16
	// clockSteps is how many gaps must be seen before their median counts.
	clockSteps = 2
	// pauseFactor times the median is a pause (an evaluation, a checkpoint), not a slow step.
	pauseFactor = 5
)

// clock predicts when a job will reach a step from the times at which it reached the last ones.
type clock struct {
	hint time.Duration // step time that the schedule announced, 0 if none
	gaps []time.Duration
	next int           // where the next gap goes once gaps is full
	last time.Duration // when the latest step was reached
	any  bool          // last is set
}

// advance notes that steps more steps were reached at now.
func (c *clock) advance(steps int64, now time.Duration) {
	if c.any && steps > 0 {
		c.add((now - c.last) / time.Duration(steps))
	}
	c.last, c.any = now, true
}

// shift says that the clock stood still for so long.
func (c *clock) shift(stood time.Duration) { c.last += stood }

// restart forgets when the latest step was reached, but not how long steps take: after a jump the
// next gap says nothing.
func (c *clock) restart() { c.any = false }

func (c *clock) add(gap time.Duration) {
	if m, ok := c.median(); ok && gap > pauseFactor*m {
		return
	}
	if len(c.gaps) < clockGaps {
		c.gaps = append(c.gaps, gap)
		return
	}
	c.gaps[c.next] = gap
	c.next = (c.next + 1) % clockGaps
}

func (c *clock) median() (time.Duration, bool) {
	if len(c.gaps) < clockSteps {
		return 0, false
	}
	sorted := slices.Clone(c.gaps)
	slices.Sort(sorted)
	return sorted[len(sorted)/2], true
}

// step returns the step time: the median of the last gaps, else the hint, else false.
func (c *clock) step() (time.Duration, bool) {
	if m, ok := c.median(); ok {
		return m, true
	}
	return c.hint, c.hint > 0
}
