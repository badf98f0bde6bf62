package transform

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// drawIdentity names the stream below, the functions of elementary.go and how operators without an identity of their own
// draw; any change that changes one drawn value needs a new one.
const drawIdentity = "draw/sha256-counter@1"

// These name how operators draw; [drawIdentity] names what they draw from.
const (
	drawRandomCrop    = "draw/random-crop@1"
	drawColorJitter   = "draw/color-jitter@1"
	drawRandAugment   = "draw/rand-augment@1"
	drawRandomApply   = "draw/random-apply@1"
	drawRandomErasing = "draw/random-erasing@1"
)

// stream is the sequence of random 64-bit words of one operator and one sample: block j is SHA-256 of the
// 16-byte operator key and u32le j, and gives four words, little-endian, in order.
type stream struct {
	key   [16]byte
	block uint32
	words [sha256.Size]byte
	used  int // bytes of words already given out
}

func newStream(key [16]byte) *stream { return &stream{key: key, used: sha256.Size} }

func (s *stream) word() uint64 {
	if s.used == sha256.Size {
		var in [20]byte
		copy(in[:], s.key[:])
		binary.LittleEndian.PutUint32(in[16:], s.block)
		s.words, s.used = sha256.Sum256(in[:]), 0
		s.block++
	}
	w := binary.LittleEndian.Uint64(s.words[s.used:])
	s.used += 8
	return w
}

// uniform returns a number in [0, 1): the upper 53 bits of a word, times 2^-53.
func (s *stream) uniform() float64 { return float64(s.word()>>11) * 0x1p-53 }

// below returns a whole number in [0, n): the upper 64 bits of word * n.
func (s *stream) below(n int) int {
	hi, _ := bits.Mul64(s.word(), uint64(n))
	return int(hi)
}

// between returns lo + u*(hi-lo) for the next uniform u.
func (s *stream) between(lo, hi float64) float64 {
	return lo + float64(s.uniform()*float64(hi-lo))
}
