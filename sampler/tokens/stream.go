package tokens

import (
	"context"
	"fmt"
	"sort"

	"github.com/stepahead-io/stepahead/sampler"
)

// markEvery is how many sequences lie between two marks of a stream: a look-up walks over half as many
// on average, and a mark takes 8 bytes.
const markEvery = 16

// A stream is sequences one after another, in some order.
type stream struct {
	lengths sampler.Lengths
	// at gives the sequence in a place of the stream; nil: they are in their own order.
	at *sampler.Permutation
	// marks are the tokens before every markEvery-th place.
	marks []int64
}

// newStream reads every length once. It returns the number of tokens too.
func newStream(ctx context.Context, lengths sampler.Lengths, at *sampler.Permutation) (s *stream, tokens int64, err error) {
	s = &stream{lengths: lengths, at: at}
	n := lengths.Sequences()
	if n < 0 {
		return nil, 0, fmt.Errorf("%d sequences: %w", n, ErrLengths)
	}
	s.marks = make([]int64, 0, (n+markEvery-1)/markEvery)
	for place := range n {
		if place%every == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if place%markEvery == 0 {
			s.marks = append(s.marks, tokens)
		}
		length, err := checkedLength(lengths, s.sequence(place), tokens)
		if err != nil {
			return nil, 0, err
		}
		tokens += length
	}
	return s, tokens, nil
}

func (s *stream) sequence(place int64) int64 {
	if s.at == nil {
		return place
	}
	return int64(s.at.At(uint64(place)))
}

// pieces appends the tokens [from, from+count) of the stream, which has as many.
func (s *stream) pieces(from, count int64, dst []sampler.Piece) []sampler.Piece {
	mark := sort.Search(len(s.marks), func(i int) bool { return s.marks[i] > from }) - 1
	skip := from - s.marks[mark]
	return collect(s.lengths, s.sequence, int64(mark)*markEvery, skip, count, dst)
}

// collect appends count tokens that come skip tokens after the start of a place. Sequences without a
// token own no piece.
func collect(lengths sampler.Lengths, sequence func(int64) int64, place, skip, count int64, dst []sampler.Piece) []sampler.Piece {
	for n := lengths.Sequences(); count > 0 && place < n; place++ {
		i := sequence(place)
		length := lengths.Length(i)
		if skip >= length {
			skip -= length
			continue
		}
		take := min(length-skip, count)
		dst = append(dst, sampler.Piece{Sequence: i, Off: skip, Len: take})
		count, skip = count-take, 0
	}
	if count > 0 {
		panic(fmt.Sprintf("tokens: the lengths changed while in use: %d tokens of a sample are missing", count))
	}
	return dst
}

// same is the order in which sequences lie.
func same(place int64) int64 { return place }
