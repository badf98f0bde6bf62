package pack

import "math/bits"

// Distribution describes numbers. Minimum, maximum and mean are exact, the quantiles at most 1 %
// too low.
type Distribution struct {
	Count int64   `json:"count"`
	Min   uint64  `json:"min"`
	P50   uint64  `json:"p50"`
	P90   uint64  `json:"p90"`
	P99   uint64  `json:"p99"`
	Max   uint64  `json:"max"`
	Mean  float64 `json:"mean"`
}

// subBits splits each power of two into 128 buckets, which makes the 1 %.
const subBits = 7

// histogram counts numbers in buckets whose width grows with them, in fixed memory.
type histogram struct {
	buckets  [(64 - subBits + 1) << subBits]int64
	n        int64
	min, max uint64
	sum      float64
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits | int(v>>shift)&(1<<subBits-1)
}

// lowest returns the smallest number of a bucket.
func lowest(b int) uint64 {
	shift := b>>subBits - 1
	if shift < 0 {
		return uint64(b)
	}
	return (1<<subBits | uint64(b)&(1<<subBits-1)) << shift
}

func (h *histogram) add(v uint64) {
	if h.n == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.n++
	h.sum += float64(v)
	h.buckets[bucket(v)]++
}

// quantile returns the smallest number of the bucket in which the share q of all numbers ends.
func (h *histogram) quantile(q float64) uint64 {
	left := int64(q * float64(h.n-1))
	for b, n := range h.buckets {
		if left < n {
			return max(h.min, lowest(b))
		}
		left -= n
	}
	return h.max
}

func (h *histogram) distribution() Distribution {
	if h.n == 0 {
		return Distribution{}
	}
	return Distribution{Count: h.n, Min: h.min, P50: h.quantile(0.5), P90: h.quantile(0.9), P99: h.quantile(0.99), Max: h.max, Mean: h.sum / float64(h.n)}
}
