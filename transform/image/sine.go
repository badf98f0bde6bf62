package image

import "math"

// Package math's sine is not the same on every architecture: some have their own, and compilers may fuse a*b+c. The one
// below uses only operations that IEEE 754 rounds exactly one way, each rounded on its own by an explicit conversion. It
// errs by less than one unit in the last place, which no rounded weight of a resampling filter has been seen to show.
// The sine of package transform, which docs/randomness.md defines for rotations, keeps no rest and errs by more.

// Half of pi: the 33 upper bits, so that a small multiple is exact, and the rest.
const (
	halfPiHi = 0x1.921fb544p+0
	halfPiLo = 0x1.0b4611a626331p-34
)

// sinCoeff[k] is (-1)^(k+1) / (2k+3)!, and cosCoeff[k] is (-1)^k / (2k+4)!.
var (
	sinCoeff = [...]float64{
		-1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000, 1. / 355687428096000,
	}
	cosCoeff = [...]float64{
		1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600, -1. / 87178291200, 1. / 20922789888000, -1. / 6402373705728000,
	}
)

// sine returns sin x for |x| < 100.
func sine(x float64) float64 {
	n := math.RoundToEven(float64(x * (2 / math.Pi)))
	// x - n*pi/2 as a sum of two numbers, r and a much smaller rest.
	a := x - float64(n*halfPiHi)
	b := float64(n * halfPiLo)
	r := a - b
	rest := (a - r) - b
	var v float64
	if int(n)&1 == 0 {
		v = sineOf(r, rest)
	} else {
		v = cosineOf(r, rest)
	}
	if int(n)&2 != 0 {
		return -v
	}
	return v
}

// sineOf returns sin(r + rest) for |r| <= pi/4.
func sineOf(r, rest float64) float64 {
	z := float64(r * r)
	p := 0.0
	for k := len(sinCoeff) - 1; k >= 0; k-- {
		p = float64(p*z) + sinCoeff[k]
	}
	return r + (float64(float64(r*z)*p) + float64(rest*(1-float64(0.5*z))))
}

// cosineOf returns cos(r + rest) for |r| <= pi/4.
func cosineOf(r, rest float64) float64 {
	z := float64(r * r)
	p := 0.0
	for k := len(cosCoeff) - 1; k >= 0; k-- {
		p = float64(p*z) + cosCoeff[k]
	}
	half := float64(0.5 * z)
	w := 1 - half // what it lost to rounding, (1-w)-half, is added back below
	return w + (((1 - w) - half) + (float64(float64(z*z)*p) - float64(r*rest)))
}
