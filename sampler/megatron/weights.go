package megatron

import (
	"errors"
	"fmt"
	"math"
)

// checkWeights returns everything that is wrong with the weights of a blend.
func checkWeights(weights []float64) error {
	var errs []error
	for i, w := range weights {
		if !(w > 0) || math.IsInf(w, 1) {
			errs = append(errs, fmt.Errorf("weight %d is %v: must be above 0 and finite: leave out a source that is not wanted", i, w))
		}
	}
	if s := pairwiseSum(weights); len(errs) == 0 && math.IsInf(s, 1) {
		errs = append(errs, errors.New("the weights add up to infinity: make them smaller"))
	}
	return errors.Join(errs...)
}

// normalise divides the weights by their sum, as megatron.core.datasets.utils.normalize does.
func normalise(weights []float64) []float64 {
	sum := pairwiseSum(weights)
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / sum
	}
	return out
}

// pairwiseSum adds in the order of numpy.sum over contiguous float64: fewer than 8 terms one after
// the other, up to 128 in eight interleaved sums, more by halves. The last bit of the sum can decide
// whose turn it is in a blend.
func pairwiseSum(x []float64) float64 {
	switch n := len(x); {
	case n < 8:
		return plainSum(0, x)
	case n <= 128:
		return interleavedSum(x)
	default:
		half := n / 2
		half -= half % 8
		return pairwiseSum(x[:half]) + pairwiseSum(x[half:])
	}
}

func interleavedSum(x []float64) float64 {
	var r [8]float64
	whole := len(x) - len(x)%8
	for i, v := range x[:whole] {
		r[i%8] += v
	}
	return plainSum(((r[0]+r[1])+(r[2]+r[3]))+((r[4]+r[5])+(r[6]+r[7])), x[whole:])
}

func plainSum(sum float64, x []float64) float64 {
	for _, v := range x {
		sum += v
	}
	return sum
}
