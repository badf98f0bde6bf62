package transform

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
)

// drawIdentity names the algorithms of this file; any change that changes one drawn value needs a new one.
const drawIdentity = "draw/sha256-counter@1"

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

// The logarithm and the exponential below are ours because package math's are not the same on every
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
	p := 0.0
	for k := len(logCoeff) - 1; k >= 0; k-- {
		p = float64(p*z) + logCoeff[k]
	}
	return float64(float64(e)*ln2) + float64(float64(2*s)*p)
}

// expCoeff[k] is 1/k!.
var expCoeff = [...]float64{
	1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880,
	1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800,
}

// exponential returns e^y for |y| < 700.
func exponential(y float64) float64 {
	n := math.RoundToEven(y / ln2)
	r := float64(y-float64(n*ln2Hi)) - float64(n*ln2Lo)
	p := 0.0
	for k := len(expCoeff) - 1; k >= 0; k-- {
		p = float64(p*r) + expCoeff[k]
	}
	return math.Ldexp(p, int(n)) // exact
}
