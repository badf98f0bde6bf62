package loader

import (
	"sort"

	"github.com/stepahead-io/stepahead/sampler"
)

// binLengths are whole bins in the place of sequences: a stream that is cut into windows does not know
// where a sequence ends, and a file has no gaps. So nothing of an index is held or searched.
type binLengths []tokenBin

func (b binLengths) Sequences() int64     { return int64(len(b)) }
func (b binLengths) Length(i int64) int64 { return b[i].tokens }

func (b binLengths) Offset(i int64) int64 {
	if i < int64(len(b)) {
		return b[i].firstToken
	}
	if i == 0 {
		return 0
	}
	return b[i-1].firstToken + b[i-1].tokens
}

// sequenceLengths are the lengths of all sequences of a dataset, in memory: orders that are not those of
// the file look them up at random.
type sequenceLengths []uint32

func (s sequenceLengths) Sequences() int64     { return int64(len(s)) }
func (s sequenceLengths) Length(i int64) int64 { return int64(s[i]) }

// markEvery is how many sequences a mark is for: few enough that adding their lengths up costs less than reading what a piece has.
const markEvery = 64

// mark notes how many tokens lie before every markEvery-th sequence.
func (s *tokenSource) mark() {
	var n int64
	for i, length := range s.lengths {
		if i%markEvery == 0 {
			s.marks = append(s.marks, n)
		}
		n += int64(length)
	}
}

// before is the number of tokens before a sequence, in all bins.
func (s *tokenSource) before(sequence int64) int64 {
	n := s.marks[sequence/markEvery]
	for _, length := range s.lengths[sequence-sequence%markEvery : sequence] {
		n += int64(length)
	}
	return n
}

// place returns where a piece lies: its bin, and its first token in the bin's file.
func (s *tokenSource) place(p sampler.Piece) (bin int, token int64) {
	if s.lengths == nil {
		return int(p.Sequence), p.Off
	}
	bin = sort.Search(len(s.bins), func(i int) bool { return s.bins[i].firstSequence > p.Sequence }) - 1
	return bin, s.before(p.Sequence) - s.bins[bin].firstToken + p.Off
}

// goesOn tells whether the sequence of a piece has a token behind it.
func (s *tokenSource) goesOn(p sampler.Piece) bool { return p.Off+p.Len < s.lengths.Length(p.Sequence) }
