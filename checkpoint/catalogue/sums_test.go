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
