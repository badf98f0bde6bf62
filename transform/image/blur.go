package image

import (
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// gaussian is a Gaussian window over one axis: as many outputs as inputs, the borders reflected without repeating the edge.
type gaussian struct {
	n      int
	window []float64 // whole multiples of 2^-22, the middle one at len/2
}

// gaussianOf returns the weighing of a blur over n inputs; nil if its window has one tap. Half of the taps are fewer than n.
func gaussianOf(n, taps int, sigma float64) weighing {
	if taps == 1 {
		return nil
	}
	return &gaussian{n, gaussianWindow(taps, sigma)}
}

// gaussianWindow returns exp(-(x/sigma)^2 / 2) at whole x around 0, scaled to a sum of 1, then rounded.
func gaussianWindow(taps int, sigma float64) []float64 {
	w, sum := make([]float64, taps), 0.0
	for i := range w {
		x := float64(i-taps/2) / sigma
		if y := float64(x*x) / 2; y < 100 { // what is left out is far below half a unit
			w[i] = transform.Exp(-y)
		}
		sum += w[i]
	}
	for i := range w {
		w[i] = math.Ldexp(float64(fixed(w[i]/sum)), -coefBits)
	}
	return w
}

func (g *gaussian) mostTaps() int { return len(g.window) }

// weights adds up the taps that meet at one input, which is exact.
func (g *gaussian) weights(o int, scratch []float64) (int, []float64) {
	half := len(g.window) / 2
	lo, hi := max(0, o-half), min(g.n, o+half+1)
	w := scratch[:hi-lo]
	clear(w)
	for i, weight := range g.window {
		at := o - half + i
		if at < 0 {
			at = -at
		} else if at >= g.n {
			at = 2*(g.n-1) - at
		}
		w[at-lo] += weight
	}
	return lo, w
}
