package megatron

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// maxSources is what Megatron-core's int16 index of datasets can number.
const maxSources = 32766

// A blend is the order of a BlendedDataset over its sources: each sample goes to the source that is
// furthest behind its weight. What comes depends on all that came before, so counts are kept at the
// beginning of blocks, and the block that is asked for is computed from them. Methods may be called
// concurrently.
type blend struct {
	weights []float64 // what the recurrence multiplies with
	sizes   []int64   // exhaustive: the samples of each source, taken exactly; else nil
	size    int64
	block   int64 // samples in a block

	mu    sync.Mutex
	marks [][]float64 // counts before each block, as far as was computed
	at    int64       // the block in turns, or -1
	turns []turn
}

// A turn is one sample of a blend: sample Sample of source Source.
type turn struct {
	source uint16
	sample int64
}

// newBlend returns the order of size samples by weights, which are normalised here once more.
func newBlend(weights []float64, size int64) *blend {
	return (&blend{weights: normalise(weights), size: size}).start()
}

// newExhaustiveBlend returns the order that takes each source's sizes exactly.
func newExhaustiveBlend(sizes []int64) *blend {
	b := &blend{weights: make([]float64, len(sizes)), sizes: sizes}
	for _, n := range sizes {
		b.size += n
	}
	for i, n := range sizes {
		b.weights[i] = float64(n) / float64(b.size)
	}
	return b.start()
}

// Blocks are long enough that marks take at most an eighth of a byte a sample.
const (
	minBlock        = 4096
	blockEachSource = 64
)

func (b *blend) start() *blend {
	b.block = max(minBlock, blockEachSource*int64(len(b.weights)))
	b.marks = [][]float64{make([]float64, len(b.weights))}
	b.at = -1
	return b
}

// bytes is the memory that the blend takes when all of it was asked for.
func (b *blend) bytes() int64 {
	blocks := (b.size + b.block - 1) / b.block
	return blocks*int64(len(b.weights))*8 + b.block*16
}

// turn returns sample i of the blend.
func (b *blend) turn(ctx context.Context, i int64) (turn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := i / b.block; want != b.at {
		for int64(len(b.marks)) <= want {
			if err := b.fill(ctx, int64(len(b.marks))-1); err != nil {
				return turn{}, err
			}
		}
		if err := b.fill(ctx, want); err != nil {
			return turn{}, err
		}
	}
	return b.turns[i%b.block], nil
}

// turnsEvery is how many turns are computed between two looks at the context: each takes time for every source.
const turnsEvery = 64

// fill computes block k, whose mark is known, and the mark after it.
func (b *blend) fill(ctx context.Context, k int64) error {
	counts := append([]float64(nil), b.marks[k]...)
	first := k * b.block
	b.at, b.turns = -1, b.turns[:0]
	for i := first; i < min(first+b.block, b.size); i++ {
		if i%turnsEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d := b.next(float64(max(i, 1)), counts)
		b.turns = append(b.turns, turn{uint16(d), int64(counts[d])})
		counts[d]++
	}
	b.at = k
	if k == int64(len(b.marks))-1 {
		b.marks = append(b.marks, counts)
	}
	return nil
}

// next returns the first source that is furthest behind its weight. Products are rounded before
// they meet the count, as on amd64, on which Megatron-core's build does not fuse them.
func (b *blend) next(x float64, counts []float64) int {
	best, most := -1, math.Inf(-1)
	for d, w := range b.weights {
		if behind := float64(w*x) - counts[d]; behind > most && !b.spent(d, counts) {
			best, most = d, behind
		}
	}
	return best
}

func (b *blend) spent(d int, counts []float64) bool {
	return b.sizes != nil && counts[d] >= float64(b.sizes[d])
}

// checkSizes refuses a blend that takes more samples of a source than it has, as Megatron-core does
// when it starts.
func (b *blend) checkSizes(ctx context.Context, have []int64) error {
	if b.sizes != nil || b.fits(have) {
		return nil
	}
	// Rare: only counting tells.
	b.mu.Lock()
	defer b.mu.Unlock()
	for int64(len(b.marks))*b.block < b.size+b.block {
		if err := b.fill(ctx, int64(len(b.marks))-1); err != nil {
			return err
		}
	}
	for d, taken := range b.marks[len(b.marks)-1] {
		if taken > float64(have[d]) {
			return fmt.Errorf("source %d: the blend takes %d samples of it and it has %d: Megatron-core refuses this too: raise the surplus (mid_level_dataset_surplus)", d, int64(taken), have[d])
		}
	}
	return nil
}

// fits tells in many cases that no source is asked for too much. The largest lag is at least the
// mean one, which is zero but for rounding; so a source that has a turn at x is not ahead of its weight then, and has at
// most weight*x+1 samples after it.
func (b *blend) fits(have []int64) bool {
	for d, w := range b.weights {
		if w*float64(b.size)+1.001 > float64(have[d]) {
			return false
		}
	}
	return true
}
