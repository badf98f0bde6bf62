package intake

import (
	"math"
	"slices"
)

const (
	// keptStarts are the starts that an estimate is made of; fewer than leastStarts, or fewer than leastSide on either side of the knee, say too little.
	keptStarts  = 64
	leastStarts = 8
	leastSide   = 2
	// mostReadersPerSource bounds the knee, and mostOff is how far starts may be from the line that is laid through them, as a mean factor of exp(mostOff).
	mostReadersPerSource = 64.0
	mostOff              = 0.35
)

// observation is what came of a start: with so many readers at a source, the last of them got so many bytes a second.
type observation struct{ readers, rate float64 }

// estimate is what the starts that were seen say of the nodes: the bytes a second that a node serves to all its readers, and with how many of them that is
// shared, so that more at a source wait longer. It is known only where starts were on both sides of that knee, and agree.
type estimate struct {
	nodeRate, readersPerSource float64
}

// starts are the last starts that were seen. The zero value is ready.
type starts struct{ seen []observation }

func (s *starts) add(o observation) {
	if o.readers <= 0 || o.rate <= 0 || math.IsInf(o.rate, 0) || math.IsNaN(o.rate) {
		return
	}
	s.seen = append(s.seen, o)
	s.seen = s.seen[max(len(s.seen)-keptStarts, 0):]
}

// estimate lays the line  rate = c / max(1, readers / knee)  through the starts: up to the knee a reader is as fast as it can be, beyond it those of a source
// share what the source gives, c x knee. The knee is the one for which the starts are nearest to the line.
func (s *starts) estimate() (best estimate, known bool) {
	if len(s.seen) < leastStarts {
		return best, false
	}
	least := math.Inf(1)
	for knee := 1.0; knee <= mostReadersPerSource; knee *= 1.05 {
		below := 0
		alone := make([]float64, len(s.seen)) // how fast a reader would have been alone, if this is the knee
		for i, o := range s.seen {
			alone[i] = math.Log(float64(o.rate * max(1, o.readers/knee)))
			if o.readers <= knee {
				below++
			}
		}
		if below < leastSide || len(s.seen)-below < leastSide {
			continue
		}
		c := median(alone)
		off := 0.0
		for _, a := range alone {
			off += math.Abs(a - c)
		}
		if off /= float64(len(alone)); off < least {
			least = off
			best = estimate{nodeRate: float64(math.Exp(c) * knee), readersPerSource: knee}
		}
	}
	return best, least <= mostOff
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
