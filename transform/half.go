package transform

import "math"

// toHalf returns the IEEE binary16 nearest to x, ties to even; NaN becomes the quiet NaN 0x7e00 with x's sign.
func toHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs >= 0x38800000: // normal: keep 10 of 23 bits, rebias the exponent from 127 to 15
		return sign | uint16((abs-0x38000000+0xfff+(abs>>13&1))>>13)
	}
	// Subnormal: a multiple of 2^-24. Adding 0.5 puts that multiple into the low bits of the sum, rounded
	// to even by the addition itself.
	sum := math.Float32frombits(abs) + 0.5
	return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
}

// fromHalf returns the value of a binary16.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// toBFloat returns the bfloat16 nearest to x, ties to even; NaN becomes the quiet NaN 0x7fc0.
func toBFloat(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
