package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// The order is a promise across versions: nothing in this file may change what a permutation gives.
// docs/sampler.md specifies it; testdata/golden.json holds the vectors and testdata/order.py an
// independent implementation.

// The domains separate the uses of SHA-256 from each other.
const (
	orderDomain = "stepahead/order@1"
	groupDomain = "stepahead/group-by-length@1"
)

// The multipliers are the fractional parts of the square roots of 2, 3 and 5 in 64 bits, made odd:
// numbers without structure that anyone can recompute.
const (
	mulA  = 0x6a09e667f3bcc909
	mulB  = 0xbb67ae8584caa73b
	gamma = 0x3c6ef372fe94f82b
)

// Rounds of the Feistel network. A narrow half carries few bits a round: of the 40,320 orders of 8
// samples, 24 rounds still prefer some and 32 do not. The longer network serves up to 12 bits, where
// nobody feels its cost; 8 rounds are already even at 6 bits. In wider orders 4 rounds scatter
// neighbours as well as 16, and we take 8.
const (
	rounds      = 8
	roundsSmall = 32
	smallBits   = 12
)

// sourceKey is the key material of a (seed, source name).
type sourceKey [4]uint64

func newSourceKey(seed uint64, name string) sourceKey { return keyOf(orderDomain, seed, name) }

func keyOf(domain string, seed uint64, name string) sourceKey {
	b := make([]byte, 0, len(domain)+12+len(name))
	b = append(b, domain...)
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

// permutation sets p to the permutation of 0..n-1 for an epoch. Use tells apart the permutations of
// one epoch: 0 is the order, 1+place belongs to the substitutes of that place. n is at least 1.
func (k *sourceKey) permutation(p *permutation, epoch, use, n uint64) {
	width := uint(bits.Len64(n - 1))
	p.n, p.low = n, (width+1)/2
	p.lowMask = 1<<p.low - 1
	p.highMask = 1<<(width-p.low) - 1
	p.rounds = rounds
	if width <= smallBits {
		p.rounds = roundsSmall
	}
	e := mix(mix(k[0]^epoch) + use)
	for i := range uint64(p.rounds) {
		p.keys[i] = mix((e ^ k[i%4]) + i*gamma)
	}
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
	for keys := p.keys[:p.rounds]; len(keys) >= 2; keys = keys[2:] {
		high ^= scramble(low^keys[0]) & p.highMask
		low ^= scramble(high^keys[1]) & p.lowMask
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

// lanes is how many values apply walks side by side.
const lanes = 64

// apply replaces the Sample of every ref by its image. Values walk side by side, and those still
// out of range are gathered without a branch: the passes of different values do not depend on each
// other, so the processor overlaps them, and there is no jump for it to guess wrongly.
func (p *permutation) apply(refs []SampleRef) {
	var left [lanes]uint8
	for len(refs) > 0 {
		chunk := refs[:min(lanes, len(refs))]
		refs = refs[len(chunk):]
		for i := range chunk {
			left[i] = uint8(i)
		}
		for n := len(chunk); n > 0; {
			n = p.walk(chunk, left[:n])
		}
	}
}

// walk takes the refs named by left one pass further and moves the names of those that are still
// out of range to the front of left. It returns how many they are.
func (p *permutation) walk(refs []SampleRef, left []uint8) int {
	n := 0
	for _, i := range left {
		x := p.pass(refs[i].Sample)
		refs[i].Sample = x
		left[n] = i
		_, below := bits.Sub64(x, p.n, 0) // 1 when x < n
		n += 1 - int(below)
	}
	return n
}
