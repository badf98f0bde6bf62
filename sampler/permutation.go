package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// The order is a promise across versions: nothing in this file may change what a permutation gives.
// docs/order.md specifies it; testdata/golden.json holds the vectors and testdata/order.py an
// independent implementation.

// orderDomain separates this use of SHA-256 from every other.
const orderDomain = "stepahead/order@1"

// The multipliers are the fractional parts of the square roots of 2, 3 and 5 in 64 bits, made odd:
// numbers without structure that anyone can recompute.
const (
	mulA  = 0x6a09e667f3bcc909
	mulB  = 0xbb67ae8584caa73b
	gamma = 0x3c6ef372fe94f82b
)

// Rounds of the Feistel network. A narrow half carries few bits a round, so small sources, where
// nobody feels the cost, take twice as many.
const (
	rounds      = 8
	roundsSmall = 16
	smallBits   = 16 // up to here a permutation counts as small
)

// sourceKey is the key material of a (seed, source name).
type sourceKey [4]uint64

func newSourceKey(seed uint64, name string) sourceKey {
	b := make([]byte, 0, len(orderDomain)+12+len(name))
	b = append(b, orderDomain...)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	sum := sha256.Sum256(b)
	var k sourceKey
	for i := range k {
		k[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return k
}

// permutation returns the permutation of 0..n-1 for an epoch. Use tells apart the permutations of
// one epoch: 0 is the order, 1+p belongs to the substitutes of place p. n is at least 1.
func (k sourceKey) permutation(epoch, use, n uint64) permutation {
	width := uint(bits.Len64(n - 1))
	p := permutation{n: n, low: (width + 1) / 2, rounds: rounds}
	p.lowMask = 1<<p.low - 1
	p.highMask = 1<<(width-p.low) - 1
	if width <= smallBits {
		p.rounds = roundsSmall
	}
	e := mix(mix(k[0]^epoch) + use)
	for i := range p.rounds {
		p.keys[i] = mix(e ^ k[1+i%3] + uint64(i)*gamma)
	}
	return p
}

// mix is a bijection of 64-bit words in which every bit of the input reaches every bit of the output.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * mulA
	x = (x ^ x>>29) * mulB
	return x ^ x>>32
}

// permutation is a bijection of 0..n-1: a Feistel network over exactly the bits that n-1 needs,
// followed again and again until the value is below n (cycle walking). As n is more than half of
// the network's domain, that takes fewer than two passes on average.
type permutation struct {
	n                 uint64
	low               uint // bits of the low half; the high half has as many, or one fewer
	lowMask, highMask uint64
	rounds            int
	keys              [roundsSmall]uint64
}

// pass sends x through the network once.
func (p *permutation) pass(x uint64) uint64 {
	low, high := x&p.lowMask, x>>p.low
	for i := 0; i+1 < p.rounds; i += 2 {
		high ^= scramble(low^p.keys[i]) & p.highMask
		low ^= scramble(high^p.keys[i+1]) & p.lowMask
	}
	return high<<p.low | low
}

// scramble is the round function: 32 good bits of a 64-bit word.
func scramble(x uint64) uint64 {
	x *= mulA
	return (x ^ x>>32) * mulB >> 32
}

// at returns the image of x, which is below n.
func (p *permutation) at(x uint64) uint64 {
	for {
		if x = p.pass(x); x < p.n {
			return x
		}
	}
}

// apply replaces the Sample of every ref by its image.
func (p *permutation) apply(refs []SampleRef) {
	for i := range refs {
		refs[i].Sample = p.at(refs[i].Sample)
	}
}
