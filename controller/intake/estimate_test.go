package intake

import (
	"math"
	"math/rand/v2"
	"testing"
)

// seen are starts on a cluster whose nodes serve knee readers at c bytes a second each, with so much noise, as a factor.
func seen(r *rand.Rand, n int, c, knee, noise, from, to float64) *starts {
	s := &starts{}
	for range n {
		readers := from * math.Pow(to/from, r.Float64())
		s.add(observation{readers, c / max(1, readers/knee) * math.Exp(noise*r.NormFloat64())})
	}
	return s
}

// TestEstimate: from starts on both sides of the knee it finds the cluster that they were on.
func TestEstimate(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, knee := math.Exp(10+10*r.Float64()), 2+14*r.Float64()
		e, known := seen(r, 40, c, knee, 0.1, knee/4, knee*6).estimate()
		if !known || apartBy(e.readersPerSource, knee) > 1.35 || apartBy(e.nodeRate, float64(c*knee)) > 1.2 {
			t.Errorf("seed %d: knee %.2f, node %.4g: estimated %.2f and %.4g (%v)", seed, knee, float64(c*knee), e.readersPerSource, e.nodeRate, known)
		}
	}
}

func apartBy(a, b float64) float64 { return max(a/b, b/a) }

// TestNoEstimate: starts that are few, all on one side of the knee, or do not agree, say nothing.
func TestNoEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for name, s := range map[string]*starts{
		"none":       {},
		"few":        seen(r, leastStarts-1, 1e8, 4, 0, 1, 16),
		"the same":   seen(r, 40, 1e8, 4, 0, 8, 8),
		"noise":      seen(r, 40, 1e8, 4, 2, 1, 16),
		"impossible": {},
	} {
		for _, o := range []observation{{0, 1}, {1, 0}, {-1, 1}, {1, math.NaN()}, {1, math.Inf(1)}} {
			s.add(o)
		}
		if e, known := s.estimate(); known {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestEstimateForgets: a cluster that became faster is learned.
func TestEstimateForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	s := seen(r, 200, 1e7, 4, 0.05, 1, 16)
	s.seen = append(s.seen, seen(r, keptStarts, 1e8, 8, 0.05, 2, 32).seen...)
	s.add(observation{1, 1e8})
	if e, known := s.estimate(); !known || apartBy(e.nodeRate, 8e8) > 1.2 || len(s.seen) != keptStarts {
		t.Errorf("%+v, %v, of %d starts", e, known, len(s.seen))
	}
}
