package agent

import (
	"math/bits"
	"time"
)

const (
	// costWeight is the weight of a new observation in the moving average.
	costWeight = 0.125
	// Until something of a kind was measured, work costs unknownCost and another millisecond for
	// every unknownBytes of input: a photograph is about right, a video far from it.
	unknownCost  = 5 * time.Millisecond
	unknownBytes = 64 << 10
	// maxCosts bounds the kinds remembered: plans come and go with jobs.
	maxCosts = 4096
)

// kind groups work that costs about the same: one plan, one media type, inputs within a factor of 2.
type kind struct {
	plan  [32]byte
	media string
	size  int // bit length of the input's bytes
}

func (it *item) kind() kind {
	return kind{plan: it.key.plan, media: it.media, size: bits.Len64(uint64(it.in))}
}

// cost is what one preparation takes: wall time decides when to start, CPU time whether to.
type cost struct{ wall, cpu time.Duration }

// costs learns the cost of every kind of work as an exponentially weighted moving average.
type costs map[kind]cost

func (c costs) learn(it *item, seen cost) {
	k := it.kind()
	old, ok := c[k]
	if !ok {
		if len(c) >= maxCosts {
			clear(c)
		}
		c[k] = seen
		return
	}
	c[k] = cost{wall: blend(old.wall, seen.wall), cpu: blend(old.cpu, seen.cpu)}
}

// wall predicts the wall time of it.
func (c costs) wall(it *item) time.Duration {
	if known, ok := c[it.kind()]; ok {
		return known.wall
	}
	return unknownCost + time.Duration(it.in/unknownBytes)*time.Millisecond
}

// cpu predicts the CPU time of it; false until one of its kind was measured.
func (c costs) cpu(it *item) (time.Duration, bool) {
	known := c[it.kind()]
	return known.cpu, known.cpu > 0
}

func blend(old, seen time.Duration) time.Duration {
	return old + time.Duration(costWeight*float64(seen-old))
}
