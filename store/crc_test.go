package store

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// TestJoinCRC32C: against the sum of both runs at once.
func TestJoinCRC32C(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		zeros := make([]byte, rapid.IntRange(0, 100_000).Draw(t, "zeros"))
		b = append(b, zeros...)
		if got, want := JoinCRC32C(crc32.Checksum(a, table), crc32.Checksum(b, table), int64(len(b))), crc32.Checksum(append(a, b...), table); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
	// Lengths beyond what can be tried: what is appended in one step is what is appended in two.
	a, b, c := uint32(0x12345678), uint32(0x9abcdef0), uint32(0x0fedcba9)
	for _, n := range []int64{1 << 20, 1<<33 + 5, 1 << 45} {
		if one, two := JoinCRC32C(JoinCRC32C(a, b, n), c, 3*n), JoinCRC32C(a, JoinCRC32C(b, c, 3*n), 4*n); one != two {
			t.Errorf("%d: %08x is not %08x", n, one, two)
		}
	}
}
