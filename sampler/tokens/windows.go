package tokens

import (
	"context"
	"fmt"
	"sort"

	"github.com/stepahead-io/stepahead/sampler"
)

// windows has sample w take the tokens [w*L, w*L+L+1) of all sequences as they lie.
func (o *Order) windows(ctx context.Context, lengths sampler.Lengths) (err error) {
	length := o.options.SequenceLength
	var tokens int64
	var stretch func(from, count int64, dst []sampler.Piece) []sampler.Piece
	if offsets, ok := lengths.(sampler.Offsets); ok {
		if tokens = offsets.Offset(offsets.Sequences()); tokens < 0 {
			return fmt.Errorf("%d tokens in all: %w", tokens, ErrLengths)
		}
		stretch = func(from, count int64, dst []sampler.Piece) []sampler.Piece {
			return search(offsets, from, count, dst)
		}
	} else {
		s, n, err := newStream(ctx, lengths, nil)
		if err != nil {
			return err
		}
		tokens, stretch = n, s.pieces
	}
	o.samples, err = windowsOf(tokens, length)
	o.pieces = func(_ context.Context, _ uint64, sample int64, dst []sampler.Piece) ([]sampler.Piece, error) {
		return stretch(sample*length, length+1, dst), nil
	}
	return err
}

// search appends the tokens [from, from+count) of sequences whose offsets are known.
func search(offsets sampler.Offsets, from, count int64, dst []sampler.Piece) []sampler.Piece {
	n := int(offsets.Sequences())
	// The last sequence that starts at from or before it: those without a token are passed over.
	i := int64(sort.Search(n, func(i int) bool { return offsets.Offset(int64(i)) > from })) - 1
	return collect(offsets, same, i, from-offsets.Offset(i), count, dst)
}
