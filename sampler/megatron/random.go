package megatron

import (
	"context"
	"math/bits"
)

const (
	twisterWords = 624
	twisterShift = 397
)

// A twister is the generator MT19937 (Matsumoto and Nishimura, 1998), seeded as NumPy's RandomState
// seeds it with one integer, with NumPy's legacy shuffle on it.
type twister struct {
	state [twisterWords]uint32
	next  int
}

func newTwister(seed uint32) *twister {
	t := &twister{next: twisterWords}
	for i := range t.state {
		t.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	return t
}

func (t *twister) uint32() uint32 {
	if t.next == twisterWords {
		t.twist()
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (t *twister) twist() {
	for i := range t.state {
		y := t.state[i]&0x80000000 | t.state[(i+1)%twisterWords]&0x7fffffff
		t.state[i] = t.state[(i+twisterShift)%twisterWords] ^ y>>1 ^ -(y&1)&0x9908b0df
	}
	t.next = 0
}

// upTo draws evenly from 0 to limit: numbers of as many bits as limit has, until one is not above it.
func (t *twister) upTo(limit uint32) uint32 {
	mask := uint32(1)<<bits.Len32(limit) - 1
	for {
		if v := t.uint32() & mask; v <= limit {
			return v
		}
	}
}

// shuffle permutes x as RandomState.shuffle does: from the last element down to the second, each is
// swapped with one drawn from those up to itself. Draws are made in advance, so that the misses of
// the cache that a long slice costs overlap. If ctx ends first, what x holds is of no use.
func (t *twister) shuffle(ctx context.Context, x []uint32) error {
	var draws [256]uint32
	for last := len(x) - 1; last > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		ahead := draws[:min(len(draws), last)]
		for k := range ahead {
			ahead[k] = t.upTo(uint32(last - k))
		}
		for k, j := range ahead {
			x[last-k], x[j] = x[j], x[last-k]
		}
		last -= len(ahead)
	}
	return nil
}
