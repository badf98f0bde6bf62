package catalogue

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// noise is content that does not repeat.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func crcOf(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func TestCombine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		data := noise(r.IntN(5000), r.Uint64())
		cut := r.IntN(len(data) + 1)
		if got := combine(crcOf(data[:cut]), crcOf(data[cut:]), int64(len(data)-cut)); got != crcOf(data) {
			t.Fatalf("%d+%d bytes: %08x, want %08x", cut, len(data)-cut, got, crcOf(data))
		}
	}
	// Lengths beyond what can be tried: what is appended in one step is what is appended in two.
	a, b, c := uint32(0x12345678), uint32(0x9abcdef0), uint32(0x0fedcba9)
	for _, n := range []int64{1 << 20, 1<<33 + 5, 1 << 45} {
		if one, two := combine(combine(a, b, n), c, 3*n), combine(a, combine(b, c, 3*n), 4*n); one != two {
			t.Errorf("%d: %08x is not %08x", n, one, two)
		}
	}
}

// TestSum: in whatever pieces a file is read, twice or not, the last one tells whether a byte of it was wrong, and not one before.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		data := noise(1+r.IntN(3000), r.Uint64())
		wrong := r.IntN(2*len(data)) - len(data) // half of the time there is none
		s := newSum(int64(len(data)), crcOf(data))
		read := bytes.Clone(data)
		if wrong >= 0 {
			read[wrong] ^= 1
		}
		seen := make([]bool, len(data))
		left := len(data)
		for left > 0 {
			var ranges []store.Range
			whole := false
			for range 1 + r.IntN(3) {
				off := r.IntN(len(data))
				n := r.IntN(len(data) - off + 1)
				ranges = append(ranges, store.Range{Off: int64(off), Buf: read[off : off+n]})
				for i := off; i < off+n; i++ {
					if !seen[i] {
						seen[i] = true
						left--
						whole = left == 0
					}
				}
			}
			if _, ok := s.add(ranges); ok != (!whole || wrong < 0) {
				t.Fatalf("%d bytes, wrong %d, %d left: %v", len(data), wrong, left, ok)
			}
		}
	}
}

func TestSumBounded(t *testing.T) {
	data := noise(4*maxPieces, 1)
	s := newSum(int64(len(data)), 0)
	for i := 0; i < len(data); i += 2 {
		if _, ok := s.add([]store.Range{{Off: int64(i), Buf: data[i : i+1]}}); !ok {
			t.Fatal("a sum was compared")
		}
	}
	if s.pieces != nil {
		t.Errorf("%d pieces are remembered", len(s.pieces))
	}
}
