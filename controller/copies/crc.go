package copies

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// joinCRC is the CRC32C of two texts, one after the other, from those of each and the length of the second: the first one's is multiplied by x to the power of 8n
// modulo the polynomial.
func joinCRC(first, second uint32, n int64) uint32 {
	factor := uint32(1) << 31                       // the polynomial 1, bits reversed as everywhere here
	for square := uint32(1) << 23; n > 0; n >>= 1 { // x^8
		if n&1 != 0 {
			factor = multiply(factor, square)
		}
		square = multiply(square, square)
	}
	return multiply(first, factor) ^ second
}

// multiply multiplies two polynomials modulo that of CRC32C.
func multiply(a, b uint32) (product uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return product
}
