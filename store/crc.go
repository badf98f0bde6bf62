package store

import (
	"context"
	"hash/crc32"
)

// Checksummer is implemented by Files of stores that make a sum where the bytes are, and send the sum alone.
type Checksummer interface {
	// CRC32C returns the CRC32C of the whole content, of the version that is open, as the store has kept it: bytes that a disk has changed since do not show. An
	// error that matches errors.ErrUnsupported says that this File's cannot be had so; after any error the sum can still be made by reading.
	CRC32C(ctx context.Context) (uint32, error)
}

// JoinCRC32C is the CRC32C of two runs of bytes, one after the other, from those of each and the length of the second.
func JoinCRC32C(first, second uint32, n int64) uint32 {
	factor := uint32(1) << 31                      // the polynomial 1: the coefficient of x^0 is the highest bit
	for power := uint32(1) << 23; n > 0; n >>= 1 { // x^8: a byte that follows multiplies by it
		if n&1 != 0 {
			factor = multiplyCRC32C(factor, power)
		}
		power = multiplyCRC32C(power, power)
	}
	return multiplyCRC32C(first, factor) ^ second
}

// multiplyCRC32C multiplies two polynomials over GF(2) modulo that of CRC32C.
func multiplyCRC32C(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.Castagnoli*(b&1)
	}
	return product
}
