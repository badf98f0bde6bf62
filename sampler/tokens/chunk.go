package tokens

import (
	"context"

	"github.com/stepahead-io/stepahead/sampler"
)

// useDocuments is the permutation of an epoch's documents; those of best fit are numbered by length,
// which is at least 1.
const useDocuments = 0

// chunks has sample w take the tokens [w*L, w*L+L+1) of the sequences in the epoch's own order.
func (o *Order) chunks(ctx context.Context, lengths sampler.Lengths) error {
	c := &chunker{lengths: lengths, shuffle: sampler.NewShuffle(domain, o.options.Seed, o.options.Source), turn: make(chan struct{}, 1)}
	c.shuffled = o.options.Shuffle && lengths.Sequences() > 0
	tokens, err := c.open(ctx, 0)
	if err != nil {
		return err
	}
	length := o.options.SequenceLength
	o.samples, err = windowsOf(tokens, length)
	o.pieces = func(ctx context.Context, epoch uint64, sample int64, dst []sampler.Piece) ([]sampler.Piece, error) {
		s, err := c.stream(ctx, epoch)
		if err != nil {
			return dst, err
		}
		return s.pieces(sample*length, length+1, dst), nil
	}
	return err
}

// keptEpochs is how many epochs' marks are kept: the one that is read and the one prefetched.
const keptEpochs = 2

// A chunker keeps the streams of the epochs in use. What it keeps changes nothing but the time a look-up
// takes.
type chunker struct {
	lengths  sampler.Lengths
	shuffle  *sampler.Shuffle
	shuffled bool

	turn chan struct{} // of whoever looks at what is kept, and makes what is not
	kept []keptStream  // the last used at the end
}

type keptStream struct {
	epoch  uint64
	stream *stream
}

// open makes the stream of an epoch.
func (c *chunker) open(ctx context.Context, epoch uint64) (tokens int64, err error) {
	var at *sampler.Permutation
	if c.shuffled {
		p := c.shuffle.Permutation(epoch, useDocuments, uint64(c.lengths.Sequences()))
		at = &p
	}
	s, tokens, err := newStream(ctx, c.lengths, at)
	if err != nil {
		return 0, err
	}
	if len(c.kept) == keptEpochs {
		c.kept = append(c.kept[:0], c.kept[1:]...)
	}
	c.kept = append(c.kept, keptStream{epoch, s})
	return tokens, nil
}

// stream returns the stream of an epoch, making it if need be. Unshuffled, all epochs have the same.
func (c *chunker) stream(ctx context.Context, epoch uint64) (*stream, error) {
	if !c.shuffled {
		return c.kept[0].stream, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for i, k := range c.kept {
		if k.epoch == epoch {
			c.kept = append(append(c.kept[:i], c.kept[i+1:]...), k)
			return k.stream, nil
		}
	}
	switch _, err := c.open(ctx, epoch); {
	case err == nil:
		return c.kept[len(c.kept)-1].stream, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		panic("tokens: the lengths changed while in use: " + err.Error()) // they were right in epoch 0
	}
}
