package checkpoint

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/bits"
)

// Parallel is how the ranks of a job divide a model among them. The zero value of each field but Ranks means that it is not divided so.
type Parallel struct {
	// Ranks is how many there are in all.
	Ranks int
	// Tensor ranks divide each layer, Pipeline groups of ranks the layers.
	Tensor, Pipeline int
	// Expert ranks divide the experts of a layer.
	Expert int
	// Shards is over how many data-parallel ranks the tensors of each model-parallel rank are divided (FSDP, ZeRO). Default: over all of them;
	// 1: each has a copy.
	Shards int
}

// Validate says what does not fit together, as an error that matches fs.ErrInvalid.
func (p Parallel) Validate() error {
	_, err := p.withDefaults()
	return err
}

// mostRanks bounds Ranks: more than any job has.
const mostRanks = 1 << 16

// withDefaults fills in what is not divided, or says what does not fit together.
func (p Parallel) withDefaults() (Parallel, error) {
	fail := func(format string, args ...any) (Parallel, error) {
		return p, fmt.Errorf("checkpoint.Parallel: %s: %w", fmt.Sprintf(format, args...), fs.ErrInvalid)
	}
	if p.Ranks < 1 || p.Ranks > mostRanks {
		return fail("Ranks is %d: give 1 to %d", p.Ranks, mostRanks)
	}
	if min(p.Tensor, p.Pipeline, p.Expert, p.Shards) < 0 || max(p.Tensor, p.Pipeline, p.Expert, p.Shards) > p.Ranks {
		return fail("Tensor, Pipeline, Expert or Shards is negative or more than Ranks")
	}
	p.Tensor, p.Pipeline, p.Expert = cmp.Or(p.Tensor, 1), cmp.Or(p.Pipeline, 1), cmp.Or(p.Expert, 1)
	if p.Ranks%(p.Tensor*p.Pipeline) != 0 {
		return fail("%d ranks cannot be divided into %d x %d (Tensor x Pipeline)", p.Ranks, p.Tensor, p.Pipeline)
	}
	data := p.data()
	p.Shards = cmp.Or(p.Shards, data)
	if data%p.Shards != 0 {
		return fail("%d data-parallel ranks cannot be divided into %d Shards", data, p.Shards)
	}
	if p.Ranks%p.Expert != 0 {
		return fail("%d ranks cannot be divided into groups of %d experts", p.Ranks, p.Expert)
	}
	return p, nil
}

// data is how many data-parallel ranks each model-parallel one has.
func (p Parallel) data() int { return p.Ranks / (p.Tensor * p.Pipeline) }

// places is a box of places in a job: which of its tensor, pipeline and data-parallel ranks. The last of each pair is beyond.
type places struct{ tensor, pipeline, shard [2]int }

// holders is the set of places that read a file.
type holders struct {
	size  places // from 0
	words []uint64
}

func newHolders(tensor, pipeline, shard int) *holders {
	return &holders{size: places{[2]int{0, tensor}, [2]int{0, pipeline}, [2]int{0, shard}}, words: make([]uint64, (tensor*pipeline*shard+63)/64)}
}

// add puts a box into the set.
func (h *holders) add(b places) {
	for t := b.tensor[0]; t < b.tensor[1]; t++ {
		for p := b.pipeline[0]; p < b.pipeline[1]; p++ {
			row := (t*h.size.pipeline[1] + p) * h.size.shard[1]
			for s := row + b.shard[0]; s < row+b.shard[1]; s++ {
				h.words[s/64] |= 1 << (s % 64)
			}
		}
	}
}

// count is how many ranks the set stands for, if each place stands for as many.
func (h *holders) count(ranks int) int {
	n := 0
	for _, w := range h.words {
		n += bits.OnesCount64(w)
	}
	return n * ranks / (h.size.tensor[1] * h.size.pipeline[1] * h.size.shard[1])
}
