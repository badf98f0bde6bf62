package sampler

import (
	"fmt"
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

func makePermutation(seed, epoch, n uint64) *permutation {
	var p permutation
	k := newSourceKey(seed, "")
	k.permutation(&p, epoch, 0, n)
	return &p
}

// isBijective sends 0..n-1 through p, in the way Step does, and looks for every value.
func isBijective(p *permutation) error {
	seen := make([]uint64, p.n/64+1)
	refs := make([]SampleRef, 0, 1<<12)
	for x := uint64(0); x < p.n; {
		refs = refs[:0]
		for ; x < p.n && len(refs) < cap(refs); x++ {
			refs = append(refs, SampleRef{Sample: x})
		}
		p.apply(refs)
		for _, r := range refs {
			if r.Sample >= p.n {
				return fmt.Errorf("n=%d: %d is out of range", p.n, r.Sample)
			}
			if seen[r.Sample/64]>>(r.Sample%64)&1 == 1 {
				return fmt.Errorf("n=%d: %d occurs twice", p.n, r.Sample)
			}
			seen[r.Sample/64] |= 1 << (r.Sample % 64)
		}
	}
	return nil
}

func TestBijectiveForEverySmallSize(t *testing.T) {
	for n := uint64(1); n <= 600; n++ {
		for epoch := range uint64(3) {
			if err := isBijective(makePermutation(n, epoch, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A well-known loader loses a sample at 4^k+1 for k >= 8; these are the places where such faults hide.
func TestBijectiveAroundPowersOfTwo(t *testing.T) {
	for k := 2; k <= 20; k++ {
		for d := range uint64(3) {
			if err := isBijective(makePermutation(1, 0, 1<<k-1+d)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBijectiveAroundLargePowersOfTwo(t *testing.T) {
	testdata.Soak(t)
	for k := 21; k <= 28; k++ {
		for d := range uint64(3) {
			if err := isBijective(makePermutation(2, 5, 1<<k-1+d)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBijectiveForDrawnSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 20000).Draw(t, "n")
		p := makePermutation(rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "epoch"), n)
		if err := isBijective(p); err != nil {
			t.Fatal(err)
		}
	})
}

// Sizes that nobody can enumerate: every pass can be undone, so it is a bijection of its domain.
func TestEveryPassCanBeUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, maxSamples).Draw(t, "n")
		p := makePermutation(rapid.Uint64().Draw(t, "seed"), 0, n)
		x := rapid.Uint64Range(0, n-1).Draw(t, "x")
		y := p.pass(x)
		if y>>bits.Len64(n-1) != 0 {
			t.Fatalf("pass(%d) = %d leaves the domain", x, y)
		}
		if back := undo(p, y); back != x {
			t.Fatalf("pass(%d) = %d, undone %d", x, y, back)
		}
	})
}

func undo(p *permutation, x uint64) uint64 {
	low, high := x&p.lowMask, x>>p.low
	for i := p.rounds - 2; i >= 0; i -= 2 {
		low ^= scramble(high^p.keys[i+1]) & p.lowMask
		high ^= scramble(low^p.keys[i]) & p.highMask
	}
	return high<<p.low | low
}

func TestApplyIsAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, maxSamples).Draw(t, "n")
		p := makePermutation(rapid.Uint64().Draw(t, "seed"), 0, n)
		refs := make([]SampleRef, rapid.IntRange(0, 3*lanes).Draw(t, "count"))
		want := make([]uint64, len(refs))
		for i := range refs {
			refs[i].Sample = uint64(i) * 977 % n
			want[i] = p.at(refs[i].Sample)
		}
		p.apply(refs)
		for i := range refs {
			if refs[i].Sample != want[i] {
				t.Fatalf("apply gives %d at %d, at gives %d", refs[i].Sample, i, want[i])
			}
		}
	})
}

func TestTheWalkIsShort(t *testing.T) {
	for _, n := range []uint64{1<<15 + 1, 1<<20 + 1, 1<<40 + 1} {
		p := makePermutation(3, 0, n)
		passes := 0
		for x := range uint64(20000) {
			for y := p.pass(x); ; y = p.pass(y) {
				passes++
				if y < n {
					break
				}
			}
		}
		if mean := float64(passes) / 20000; mean > 2.1 {
			t.Errorf("n=%d: %.2f passes a look-up, expected 2", n, mean)
		}
	}
}

// zScore tells how many standard deviations the counts are from what a fair draw of cells gives.
// Above 5, chance is no explanation (1 in 3 million).
func zScore(counts []int, cells int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	e := float64(total) / float64(cells)
	chi := 0.0
	for _, c := range counts {
		chi += (float64(c) - e) * (float64(c) - e) / e
	}
	chi += float64(cells-len(counts)) * e
	df := float64(cells - 1)
	return (chi - df) / math.Sqrt(2*df)
}

// Every permutation of few samples is equally likely over seeds and epochs.
func TestAllOrdersOfFewSamplesAreEquallyLikely(t *testing.T) {
	orders := 1
	for n := uint64(2); n <= 6; n++ {
		orders *= int(n)
		count := make(map[string]int)
		for i := range uint64(max(20000, 40*orders)) {
			p := makePermutation(i/8, i%8, n)
			var order []byte
			for x := range n {
				order = append(order, byte(p.at(x)))
			}
			count[string(order)]++
		}
		var counts []int
		for _, c := range count {
			counts = append(counts, c)
		}
		if z := zScore(counts, orders); math.Abs(z) > 5 {
			t.Errorf("n=%d: %d of %d orders, z = %.1f", n, len(count), orders, z)
		}
	}
}

// Where two samples go, jointly, is uniform over seeds: for neighbours, halves and ends.
func TestPairsAreUniformOverSeeds(t *testing.T) {
	for _, n := range []uint64{8, 17, 64} {
		for _, pair := range [][2]uint64{{0, 1}, {0, n - 1}, {n/2 - 1, n / 2}} {
			counts := make([]int, n*n)
			for seed := range 20 * n * n {
				p := makePermutation(seed, seed%3, n)
				counts[p.at(pair[0])*n+p.at(pair[1])]++
			}
			var possible []int
			for i, c := range counts {
				if uint64(i)/n != uint64(i)%n {
					possible = append(possible, c)
				}
			}
			if z := zScore(possible, len(possible)); math.Abs(z) > 5 {
				t.Errorf("n=%d pair %v: z = %.1f", n, pair, z)
			}
		}
	}
}

// In one order, where x and x+d go is independent, in the high bits and in the low ones: reservoir
// shuffles and chunk shuffles, which leave neighbours together, fail this.
func TestNeighboursAreScattered(t *testing.T) {
	const side = 32
	for _, n := range []uint64{1 << 17, 1<<20 + 1, 1e12} {
		p := makePermutation(n, 1, n)
		for _, d := range []uint64{1, 64, n / 2} {
			var high, low [side * side]int
			for x := range min(n-d, 1<<17) {
				a, b := p.at(x), p.at(x+d)
				low[a%side*side+b%side]++
				high[cell(a, n, side)*side+cell(b, n, side)]++
			}
			if z := max(zScore(high[:], side*side), zScore(low[:], side*side)); z > 5 {
				t.Errorf("n=%d distance %d: z = %.1f", n, d, z)
			}
		}
	}
}

// cell cuts 0..n-1 into side equal parts.
func cell(x, n, side uint64) uint64 {
	hi, lo := bits.Mul64(x, side)
	q, _ := bits.Div64(hi, lo, n)
	return q
}

func TestMixChangesHalfOfTheBits(t *testing.T) {
	for bit := range 64 {
		changed := 0
		for x := range uint64(1000) {
			changed += bits.OnesCount64(mix(x) ^ mix(x^1<<bit))
		}
		if mean := float64(changed) / 1000; mean < 31 || mean > 33 {
			t.Errorf("bit %d of the input changes %.1f bits of the output, want 32", bit, mean)
		}
	}
}
