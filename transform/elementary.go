package transform

import "math"

// The functions of this file are ours because package math's are not the same on every
// architecture (some have assembly, and compilers may fuse a*b+c). They use only operations that IEEE 754
// rounds exactly one way, each rounded on its own by an explicit conversion, so that the result is equal to
// the last bit everywhere, Python included. They err by a few units in the last place, which no crop shows.
const (
	ln2   = 0x1.62e42fefa39efp-1  // the float64 nearest to ln 2
	ln2Hi = 0x1.62e42feep-1       // upper 32 bits of ln 2
	ln2Lo = 0x1.a39ef35793c76p-33 // the rest
)

// logCoeff[k] is 1/(2k+1), of log(x) = 2 atanh((x-1)/(x+1)).
var logCoeff = [...]float64{1, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21}

// naturalLog returns ln x for finite x > 0.
func naturalLog(x float64) float64 {
	m, e := math.Frexp(x) // exact: x = m * 2^e, m in [0.5, 1)
	if m < 0x1.6a09e667f3bcdp-1 {
		m, e = m*2, e-1 // m in [sqrt(1/2), sqrt(2))
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	return float64(float64(e)*ln2) + float64(float64(2*s)*polynomial(logCoeff[:], z))
}

// expCoeff[k] is 1/k!.
var expCoeff = [...]float64{
	1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880,
	1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800,
}

// Exp returns e^y for |y| < 700, to a few units in the last place, and equal to the last bit on every machine.
func Exp(y float64) float64 {
	n := math.RoundToEven(y / ln2)
	r := float64(y-float64(n*ln2Hi)) - float64(n*ln2Lo)
	return math.Ldexp(polynomial(expCoeff[:], r), int(n)) // exact
}

// The circle constant as in the sine and cosine: halfPiHi has 33 bits, so that small multiples of it are exact.
const (
	twoOverPi = 0x1.45f306dc9c883p-1  // the float64 nearest to 2/pi
	halfPiHi  = 0x1.921fb544p0        // upper 33 bits of pi/2
	halfPiLo  = 0x1.0b4611a626331p-34 // the rest
)

// sinCoeff[k] is (-1)^k / (2k+1)!, cosCoeff[k] is (-1)^k / (2k)!.
var (
	sinCoeff = [...]float64{1, -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000, 1. / 355687428096000}
	cosCoeff = [...]float64{1, -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600, -1. / 87178291200, 1. / 20922789888000}
)

// sine returns sin x for |x| < 100.
func sine(x float64) float64 { return quarter(x, 0) }

// cosine returns cos x for |x| < 100.
func cosine(x float64) float64 { return quarter(x, 1) }

// quarter returns the sine of x + ahead quarter turns.
func quarter(x float64, ahead int) float64 {
	n := math.RoundToEven(float64(x * twoOverPi))
	r := float64(x-float64(n*halfPiHi)) - float64(n*halfPiLo)
	z := float64(r * r)
	v := 0.0
	turn := (int(n) + ahead) & 3
	if turn&1 == 0 {
		v = float64(r * polynomial(sinCoeff[:], z))
	} else {
		v = polynomial(cosCoeff[:], z)
	}
	if turn >= 2 {
		return -v
	}
	return v
}

// polynomial returns the sum of coeff[k] * z^k, from the last to the first.
func polynomial(coeff []float64, z float64) float64 {
	p := 0.0
	for k := len(coeff) - 1; k >= 0; k-- {
		p = float64(p*z) + coeff[k]
	}
	return p
}
