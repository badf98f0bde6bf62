package megatron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stepahead-io/stepahead/sampler"
)

// GPTOptions are what the order of one GPTDataset depends on beside the lengths of its sequences.
type GPTOptions struct {
	// First and Count choose the sequences [First, First+Count): a split's.
	First, Count int64
	// SequenceLength is the number of tokens the model sees in a sample; 2 to 2^29.
	SequenceLength int64
	// Samples is the number of samples asked for, or OneEpoch. As many passes over the sequences are
	// made as it takes; Len can be larger.
	Samples int64
	// Seed is Megatron's --seed.
	Seed uint32
	// NoExtraToken leaves out the token after the sample, the last label
	// (add_extra_token_to_sequence=False).
	NoExtraToken bool
}

func (o GPTOptions) extra() int64 {
	if o.NoExtraToken {
		return 0
	}
	return 1
}

// Validate returns everything that is wrong with the options for a dataset of sequences.
func (o GPTOptions) Validate(sequences int64) error {
	var errs []error
	if o.First < 0 || o.Count < 0 || o.First > sequences-o.Count {
		errs = append(errs, fmt.Errorf("sequences %d to %d: the dataset has %d", o.First, o.First+o.Count, sequences))
	}
	if sequences > maxSequences {
		errs = append(errs, fmt.Errorf("%d sequences: Megatron-core numbers at most %d: split the dataset", sequences, maxSequences))
	}
	if o.SequenceLength < 2 || o.SequenceLength > maxSequenceLength {
		errs = append(errs, fmt.Errorf("sequence length %d: must be 2 to %d", o.SequenceLength, maxSequenceLength))
	}
	if o.Samples < OneEpoch || o.Samples > maxSamples {
		errs = append(errs, fmt.Errorf("%d samples asked for: must be 0 to %d, or %d for one epoch", o.Samples, maxSamples, OneEpoch))
	}
	return errors.Join(errs...)
}

// A GPT is the order of one GPTDataset. NewGPT only counts; the indexes, Bytes of them, are built by the first call of
// Prepare or Sample. Methods may be called concurrently.
type GPT struct {
	options GPTOptions
	lengths sampler.Lengths
	counts  counts

	turn    chan struct{} // of whoever builds the indexes
	indexes atomic.Pointer[indexes]
}

type indexes struct {
	shuffle []uint32 // sample -> row
	stream  stream   // where rows begin
}

// every is how many elements of a long array are worked on between two looks at the context.
const every = 1 << 16

// counts are the numbers that Megatron-core derives before it shuffles anything.
type counts struct {
	tokens   int64 // of one epoch
	epochs   int64
	rows     int64 // samples of all epochs
	separate bool  // the last epoch is shuffled apart, because little of it is used
	before   int64 // rows that need no token of the last epoch
}

// NewGPT returns the order of the sequences that o chooses out of lengths, which must not change.
func NewGPT(ctx context.Context, lengths sampler.Lengths, o GPTOptions) (*GPT, error) {
	g, err := newGPT(ctx, lengths, o)
	if err != nil {
		return nil, fmt.Errorf("megatron.NewGPT: %w", err)
	}
	return g, nil
}

func newGPT(ctx context.Context, lengths sampler.Lengths, o GPTOptions) (*GPT, error) {
	if err := o.Validate(lengths.Sequences()); err != nil {
		return nil, err
	}
	tokens, err := tokensOf(ctx, lengths, o.First, o.Count)
	if err != nil {
		return nil, err
	}
	c, err := count(tokens, o)
	if err != nil {
		return nil, err
	}
	return &GPT{options: o, lengths: lengths, counts: c, turn: make(chan struct{}, 1)}, nil
}

func tokensOf(ctx context.Context, lengths sampler.Lengths, first, n int64) (sum int64, err error) {
	if at, ok := lengths.(sampler.Offsets); ok {
		return at.Offset(first+n) - at.Offset(first), nil
	}
	for i := first; i < first+n; i++ {
		if i%every == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		sum += lengths.Length(i)
	}
	return sum, nil
}

// separateBelow is the share of the last epoch below which it is shuffled apart.
const separateBelow = 0.80

func count(tokens int64, o GPTOptions) (counts, error) {
	c := counts{tokens: tokens, epochs: 1}
	if tokens > maxTokens {
		return c, fmt.Errorf("%d tokens: at most %d can be ordered: use several datasets", tokens, int64(maxTokens))
	}
	if tokens == 0 {
		if o.Samples > 0 {
			return c, fmt.Errorf("%d samples asked for, and the sequences %d to %d have no token: leave this source out of the split or give it a larger share", o.Samples, o.First, o.First+o.Count)
		}
		return c, nil
	}
	extra := o.extra()
	if o.Samples > 0 {
		need := o.Samples*o.SequenceLength + extra
		c.epochs = (need + tokens - 1) / tokens
	}
	c.rows = (c.epochs*tokens - extra) / o.SequenceLength
	if c.epochs > 1 {
		share := float64(separateBelow * float64((tokens-extra)/o.SequenceLength))
		c.before = ((c.epochs-1)*tokens - extra) / o.SequenceLength
		c.separate = o.Samples-c.before < int64(share)
	}
	if c.epochs > maxSamples/o.Count || c.rows > maxSamples {
		return c, fmt.Errorf("%d epochs of %d sequences, %d samples: Megatron's order is reproduced up to %d places and samples of a source: ask for fewer samples", c.epochs, o.Count, c.rows, int64(maxSamples))
	}
	return c, nil
}

// Len returns the number of samples, as Megatron-core's len(dataset).
func (g *GPT) Len() int64 { return g.counts.rows }

// Epochs returns how many times the sequences are gone through.
func (g *GPT) Epochs() int64 { return g.counts.epochs }

// Bytes returns the memory that the indexes take once they are built: 4 bytes a sample, 4 a sequence
// and epoch, and at most a quarter as much again.
func (g *GPT) Bytes() int64 {
	places := g.counts.epochs * g.options.Count
	return 4*places + 4*g.counts.rows + marksBytes(places, g.counts.rows)
}

// Prepare builds the indexes if they are not built yet, in time for each sample and each sequence of each epoch. If ctx ends
// first it returns its error, and has built nothing.
func (g *GPT) Prepare(ctx context.Context) error {
	_, err := g.prepared(ctx)
	return err
}

func (g *GPT) prepared(ctx context.Context) (*indexes, error) {
	if x := g.indexes.Load(); x != nil {
		return x, nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x := g.indexes.Load(); x != nil { // built meanwhile
		return x, nil
	}
	x, err := g.buildIndexes(ctx)
	if err != nil {
		return nil, err
	}
	g.indexes.Store(x)
	return x, nil
}

// Sample appends the pieces of sample i, 0 to Len()-1, to dst and returns it. They have
// SequenceLength tokens together, and the extra one unless that is left out; the model's inputs are
// all but the last, its labels all but the first. The error is that of Prepare.
func (g *GPT) Sample(ctx context.Context, i int64, dst []sampler.Piece) ([]sampler.Piece, error) {
	x, err := g.prepared(ctx)
	if err != nil {
		return dst, err
	}
	return x.stream.row(int64(x.shuffle[i]), dst), nil
}

// buildIndexes draws in the order in which Megatron-core draws from its one generator: documents,
// then samples.
func (g *GPT) buildIndexes(ctx context.Context) (*indexes, error) {
	random := newTwister(g.options.Seed)
	documents, err := g.documents(ctx, random)
	if err != nil {
		return nil, err
	}
	stream, err := newStream(ctx, g.lengths, documents, g.options.SequenceLength, g.options.extra(), g.counts.rows)
	if err != nil {
		return nil, err
	}
	rows, err := filled(ctx, g.counts.rows, func(i int64) uint32 { return uint32(i) })
	if err != nil {
		return nil, err
	}
	first := g.counts.rows
	if g.counts.separate {
		first = g.counts.before
	}
	if err := errors.Join(random.shuffle(ctx, rows[:first]), random.shuffle(ctx, rows[first:])); err != nil {
		return nil, err
	}
	return &indexes{rows, stream}, nil
}

// documents returns the sequences of all epochs, shuffled: all together, or the last epoch apart.
func (g *GPT) documents(ctx context.Context, random *twister) ([]uint32, error) {
	o := g.options
	all, err := filled(ctx, g.counts.epochs*o.Count, func(i int64) uint32 { return uint32(o.First + i%o.Count) })
	if err != nil {
		return nil, err
	}
	first := int64(len(all))
	if g.counts.separate {
		first -= o.Count
	}
	return all, errors.Join(random.shuffle(ctx, all[:first]), random.shuffle(ctx, all[first:]))
}

// filled is an array of n elements.
func filled(ctx context.Context, n int64, element func(i int64) uint32) ([]uint32, error) {
	x := make([]uint32, n)
	for i := range x {
		if i%every == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x[i] = element(int64(i))
	}
	return x, nil
}
