package sampler

import (
	"math"
	"math/big"
	"math/bits"
)

// shareBits is the precision of a share: shares are integers out of 2^62.
const shareBits = 62

// shares returns what each weight is of their sum, as an integer out of about 2^62: at least 1 where
// the weight is positive, 0 where it is 0. Everything here is exact integer arithmetic or one IEEE
// operation at a time, so that every machine and language gets the same.
func shares(weights []float64, temperature float64) []uint64 {
	powers := weights
	if temperature != 0 {
		powers = temper(weights, temperature)
	}
	sum := 0.0
	for _, p := range powers {
		sum += p
	}
	out := make([]uint64, len(weights))
	for i, p := range powers {
		if weights[i] > 0 { // its power may have come down to 0
			out[i] = max(1, uint64(p/sum*(1<<shareBits)))
		}
	}
	return out
}

// fractionBits is the precision of the logarithms of temper.
const fractionBits = 40

// temper raises the positive weights to the power 1/temperature, times one factor that makes the
// largest at most 2.
func temper(weights []float64, temperature float64) []float64 {
	powers := make([]int64, len(weights))
	top := int64(math.MinInt64)
	for i, w := range weights {
		if w > 0 {
			powers[i] = int64(math.Floor(float64(log2(w)) / temperature))
			top = max(top, powers[i]>>fractionBits)
		}
	}
	roots := rootsOfTwo()
	out := make([]float64, len(weights))
	for i, w := range weights {
		if w > 0 {
			out[i] = exp2(powers[i]-top<<fractionBits, &roots)
		}
	}
	return out
}

// log2 returns the logarithm of x, a normal number, in units of 2^-40, rounded down: the bits of the
// fraction come one by one, by squaring.
func log2(x float64) int64 {
	mantissa, exponent := math.Frexp(x) // in [1/2, 1)
	m := uint64(mantissa * (1 << 63))   // in [2^62, 2^63): 62 bits after the point
	log := int64(exponent - 1)
	for range fractionBits {
		hi, lo := bits.Mul64(m, m)
		m = hi<<2 | lo>>62
		log <<= 1
		if m >= 1<<63 {
			m >>= 1
			log++
		}
	}
	return log
}

// exp2 returns 2^(y/2^40), the inverse of log2; y is not above 2^40.
func exp2(y int64, roots *[fractionBits]uint64) float64 {
	m := uint64(1) << 62
	for i, root := range roots {
		if y>>(fractionBits-1-i)&1 == 1 {
			hi, lo := bits.Mul64(m, root)
			m = hi<<2 | lo>>62
		}
	}
	return math.Ldexp(float64(m), int(y>>fractionBits)-62)
}

// rootsOfTwo returns 2^(1/2), 2^(1/4), 2^(1/8) ... with 62 bits after the point, each the integer
// root of the one before.
func rootsOfTwo() [fractionBits]uint64 {
	var roots [fractionBits]uint64
	x := big.NewInt(2 << 61)
	x.Lsh(x, 1)
	for i := range roots {
		x.Sqrt(x.Lsh(x, 62))
		roots[i] = x.Uint64()
	}
	return roots
}
