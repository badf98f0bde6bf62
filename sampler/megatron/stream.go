package megatron

import (
	"context"

	"github.com/stepahead-io/stepahead/sampler"
)

// A stream is the tokens of all documents, in the order of the document index, cut into rows that
// overlap by the extra token: row r has the tokens [r*width, (r+1)*width+extra). Megatron-core keeps
// where each row begins; the stream keeps a mark for some rows and walks from there.
type stream struct {
	lengths   sampler.Lengths
	documents []uint32
	width     int64
	extra     int64
	apart     int64 // rows from one mark to the next
	marks     []mark
}

// A mark is the place of a row's first token.
type mark struct {
	document int64 // in the document index
	off      int64
}

// walkDocuments bounds how many documents lie between two marks on average, and so the walk of a look-up.
const walkDocuments = 32

// rowsApart chooses the distance of marks. Rows of many documents get one each.
func rowsApart(documents, rows int64) int64 {
	if rows == 0 {
		return 1
	}
	return max(1, walkDocuments/max(1, documents/rows))
}

func marksBytes(documents, rows int64) int64 {
	apart := rowsApart(documents, rows)
	return 16 * ((rows + apart - 1) / apart)
}

func newStream(ctx context.Context, lengths sampler.Lengths, documents []uint32, width, extra, rows int64) (stream, error) {
	s := stream{lengths: lengths, documents: documents, width: width, extra: extra}
	s.apart = rowsApart(int64(len(documents)), rows)
	s.marks = make([]mark, 0, (rows+s.apart-1)/s.apart)
	var begin, next int64 // tokens before the document, and before the row of the next mark
	for d, sequence := range documents {
		if d%every == 0 && ctx.Err() != nil {
			return stream{}, ctx.Err()
		}
		end := begin + lengths.Length(int64(sequence))
		for ; next < end && len(s.marks) < cap(s.marks); next += s.apart * width {
			s.marks = append(s.marks, mark{int64(d), next - begin})
		}
		begin = end
	}
	return s, nil
}

// row appends the pieces of row r. Documents without tokens give none.
func (s *stream) row(r int64, dst []sampler.Piece) []sampler.Piece {
	from := s.marks[r/s.apart]
	d, off := from.document, from.off+r%s.apart*s.width
	for {
		have := s.lengths.Length(int64(s.documents[d]))
		if off < have {
			break
		}
		off -= have
		d++
	}
	for need := s.width + s.extra; need > 0; d, off = d+1, 0 {
		sequence := int64(s.documents[d])
		n := min(need, s.lengths.Length(sequence)-off)
		if n > 0 {
			dst = append(dst, sampler.Piece{Sequence: sequence, Off: off, Len: n})
		}
		need -= n
	}
	return dst
}
