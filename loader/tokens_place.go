package loader

import (
	"sort"

	"github.com/stepahead-io/stepahead/sampler"
)

// binLengths are whole bins in the place of sequences: a stream that is cut into windows does not know
// where a sequence ends, and a file has no gaps. So nothing of an index is held or searched.
type binLengths []tokenBin

func (b binLengths) Sequences() int64     { return int64(len(b)) }
func (b binLengths) Length(i int64) int64 { return b[i].index.Tokens() }

func (b binLengths) Offset(i int64) int64 {
	if i < int64(len(b)) {
		return b[i].firstToken
	}
	if i == 0 {
		return 0
	}
	return b[i-1].firstToken + b[i-1].index.Tokens()
}

// sequenceLengths are the lengths of all sequences of a dataset, in memory: orders that are not those of
// the file look them up at random.
type sequenceLengths []uint32

func (s sequenceLengths) Sequences() int64     { return int64(len(s)) }
func (s sequenceLengths) Length(i int64) int64 { return int64(s[i]) }

func (s *tokenSource) sequenceLengths() (sequenceLengths, error) {
	var n int64
	for _, b := range s.bins {
		n += b.index.Sequences()
	}
	lengths := make(sequenceLengths, n)
	for _, b := range s.bins {
		if err := b.index.Lengths(lengths[b.firstSequence:][:b.index.Sequences()], 0); err != nil {
			return nil, err
		}
	}
	return lengths, nil
}

// place returns where a piece lies: its bin, and its first token in the bin's file.
func (s *tokenSource) place(p sampler.Piece) (bin int, token int64, err error) {
	if s.lengths == nil {
		return int(p.Sequence), p.Off, nil
	}
	bin = sort.Search(len(s.bins), func(i int) bool { return s.bins[i].firstSequence > p.Sequence }) - 1
	b := s.bins[bin]
	token = b.index.Offset(p.Sequence-b.firstSequence) + p.Off
	return bin, token, b.index.Err()
}

// goesOn tells whether the sequence of a piece has a token behind it.
func (s *tokenSource) goesOn(p sampler.Piece) bool { return p.Off+p.Len < s.lengths.Length(p.Sequence) }
