// Package tokens knows, as a pure function, which runs of tokens make each sample of a token dataset:
// windows of one stream, chunks of shuffled documents, or documents packed by best fit.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/stepahead-io/stepahead/sampler"
)

// The values of Options.Packing.
const (
	// Windows cuts the sequences, one after another as they lie, into samples.
	Windows = sampler.PackWindows
	// Chunk does the same with the sequences in an order of its own in every epoch.
	Chunk = sampler.PackChunk
	// BestFit fills samples with whole sequences.
	BestFit = sampler.PackBestFit
)

// MaxSequenceLength bounds the length of samples.
const MaxSequenceLength = sampler.MaxSequenceLength

// domain separates the permutations of this package from every other use. docs/tokens.md specifies
// them: like the order of samples they are a promise across versions.
const domain = "stepahead/tokens@1"

var (
	// ErrOptions: Options break a rule.
	ErrOptions = errors.New("bad token options")
	// ErrTooShort: all sequences together have too few tokens for one sample.
	ErrTooShort = errors.New("fewer tokens than one sample needs")
	// ErrLengths: the lengths cannot be those of a dataset.
	ErrLengths = errors.New("bad sequence lengths")
)

// Options say how samples are made.
type Options struct {
	// SequenceLength is the number of input tokens of a sample, L; 1 to MaxSequenceLength.
	SequenceLength int64
	// Packing is Windows (default), Chunk or BestFit.
	Packing string
	// Shuffle has Chunk take the sequences in another order in every epoch, and BestFit give other
	// sequences of the same lengths to every pack. Windows are the same in every epoch.
	Shuffle bool
	// Seed and Source, the source's name, choose the shuffles.
	Seed   uint64
	Source string
}

func (o Options) withDefaults() Options {
	if o.Packing == "" {
		o.Packing = Windows
	}
	return o
}

// Validate returns everything that is wrong with the options, or nil. The error matches ErrOptions.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.SequenceLength < 1 || o.SequenceLength > MaxSequenceLength {
		errs = append(errs, fmt.Errorf("sequence_length: %d: must be 1 to %d: %w", o.SequenceLength, MaxSequenceLength, ErrOptions))
	}
	if o.Packing != Windows && o.Packing != Chunk && o.Packing != BestFit {
		errs = append(errs, fmt.Errorf("packing: %q: must be %q, %q or %q: %w", o.Packing, Windows, Chunk, BestFit, ErrOptions))
	}
	return errors.Join(errs...)
}

// An Order maps the samples of every epoch to the tokens that they are made of. All methods are pure
// and may be called concurrently.
type Order struct {
	options Options
	samples int64
	pieces  func(ctx context.Context, epoch uint64, sample int64, dst []sampler.Piece) ([]sampler.Piece, error)
}

// New plans the samples of sequences with these lengths. Windows reads no lengths if they are
// sampler.Offsets; else, and for the other packings, it reads all of them once. What it holds is
// nothing for Windows of Offsets, half a byte a sequence and epoch in use for Chunk, and 8 to 12 bytes
// a sequence for BestFit.
//
// Errors match ErrOptions, ErrTooShort or ErrLengths, or are that of ctx, if it ends first.
func New(ctx context.Context, lengths sampler.Lengths, o Options) (*Order, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("tokens.New: %w", err)
	}
	order := &Order{options: o}
	var err error
	switch o.Packing {
	case Windows:
		err = order.windows(ctx, lengths)
	case Chunk:
		err = order.chunks(ctx, lengths)
	case BestFit:
		err = order.bestFit(ctx, lengths)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens.New: %w", err)
	}
	return order, nil
}

// Samples returns the number of samples of an epoch: every epoch has as many.
func (o *Order) Samples() int64 { return o.samples }

// Pieces appends the pieces of a sample, 0 to Samples()-1, in an epoch to dst and returns it. Those of
// Windows and Chunk are L+1 consecutive tokens of a stream: the first L are inputs, the last L their
// labels. Those of BestFit are at most L inputs; every piece stands for itself, and the label of its last
// token is the token that follows it in its sequence, if one does.
//
// Of a shuffled Chunk, the first call of an epoch reads all lengths again. The error is that of ctx, if it ends
// first; then nothing is kept of what was read. Pieces panics when there is no such sample: that is a mistake of the
// caller, never of the data.
func (o *Order) Pieces(ctx context.Context, epoch uint64, sample int64, dst []sampler.Piece) ([]sampler.Piece, error) {
	if sample < 0 || sample >= o.samples {
		panic(fmt.Sprintf("tokens.Pieces: sample %d is outside 0..%d", sample, o.samples-1))
	}
	return o.pieces(ctx, epoch, sample, dst)
}

// every is how many sequences are looked at between two looks at the context.
const every = 1 << 16

// windowsOf returns how many windows of length inputs, neighbours sharing one token, a stream has.
func windowsOf(tokens, length int64) (int64, error) {
	if tokens <= length {
		return 0, fmt.Errorf("%d tokens in all; a sample of length %d takes %d, the last of them a label only: %w: lower the sequence length or give more data",
			tokens, length, length+1, ErrTooShort)
	}
	return (tokens - 1) / length, nil
}

// checkedLength returns the length of sequence i, whose tokens follow sum others.
func checkedLength(lengths sampler.Lengths, i, sum int64) (int64, error) {
	n := lengths.Length(i)
	if n < 0 || n > math.MaxInt64/2-sum {
		return 0, fmt.Errorf("sequence %d has %d tokens, after %d in the sequences before it: %w", i, n, sum, ErrLengths)
	}
	return n, nil
}
