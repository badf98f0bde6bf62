package ec

import "github.com/klauspost/reedsolomon"

// newDecoder returns the code of a valid policy. Its generator is stated here and not left to the library:
// it must be the one that Hadoop's coders write with (package rawcoder, and Intel's ISA-L).
func newDecoder(p Policy) (reedsolomon.Encoder, error) {
	parity := make([][]byte, p.Parity)
	for r := range parity {
		parity[r] = make([]byte, p.Data)
		for c := range parity[r] {
			parity[r][c] = coefficient(p, r, c)
		}
	}
	return reedsolomon.New(p.Data, p.Parity, reedsolomon.WithCustomMatrix(parity))
}

// coefficient is what data unit c is multiplied by in parity unit r: 1 for xor, and for rs the Cauchy
// matrix 1/(Data+r + c), where + and / are those of GF(2^8) over x^8+x^4+x^3+x^2+1.
func coefficient(p Policy, r, c int) byte {
	if p.Codec == "xor" {
		return 1
	}
	return inverse(byte(p.Data+r) ^ byte(c))
}

func inverse(a byte) byte {
	for b := 1; b < 256; b++ {
		if multiply(a, byte(b)) == 1 {
			return byte(b)
		}
	}
	return 0 // of 0 alone, which no coefficient asks for
}

func multiply(a, b byte) byte {
	const reduce = 0x1d // the polynomial without x^8
	var product byte
	for ; b > 0; b >>= 1 {
		if b&1 != 0 {
			product ^= a
		}
		carry := a & 0x80
		a <<= 1
		if carry != 0 {
			a ^= reduce
		}
	}
	return product
}
