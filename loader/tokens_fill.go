package loader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/stepahead-io/stepahead/loader/proof"
)

// constantRows are the loss mask and the positions of a sample of one piece.
func constantRows(length int64) (ones, counting []byte) {
	ones, counting = make([]byte, 0, 4*length), make([]byte, 0, 8*length)
	for i := range length {
		ones = binary.LittleEndian.AppendUint32(ones, math.Float32bits(1))
		counting = binary.LittleEndian.AppendUint64(counting, uint64(i))
	}
	return ones, counting
}

// fillSlots is how many samples one task fills.
const fillSlots = 64

// fill starts filling all that does not depend on what is read.
func (b *tokenBuild) fill(t *tasks) {
	for from := 0; from < len(b.refs); from += fillSlots {
		t.start(func(ctx context.Context) error {
			if err := b.m.writes.enter(ctx, b.step, 1); err != nil {
				return err
			}
			defer b.m.writes.leave(1)
			for slot := from; slot < min(from+fillSlots, len(b.refs)); slot++ {
				if b.m.packed {
					b.fillPack(slot)
				} else {
					b.fillRow(b.row(fieldLossMask, slot), b.m.ones)
					b.fillRow(b.row(fieldPositions, slot), b.m.counting)
				}
			}
			return nil
		})
	}
	if mem := b.mem[fieldCuSeqlens]; mem != nil {
		b.fillBoundaries(mem)
	}
}

// fillRow copies a whole row of a field that is not left out.
func (b *tokenBuild) fillRow(row, from []byte) {
	if b.past {
		copyPast(row, from[:len(row)])
	} else {
		copy(row, from)
	}
}

// fillPack fills the rows of a pack, and clears the inputs and labels that no token gets.
func (b *tokenBuild) fillPack(slot int) {
	mask, positions, documents := b.row(fieldLossMask, slot), b.row(fieldPositions, slot), b.row(fieldDocuments, slot)
	inputs, labels := b.row(fieldTokens, slot), b.row(fieldLabels, slot)
	at := int64(0)
	for i, p := range b.parts[slot] {
		at = p.at + p.n
		copy(part(mask, 4, p.at, at), b.m.ones)
		copy(part(positions, 8, p.at, at), b.m.counting)
		fillInt64(part(documents, 8, p.at, at), int64(i))
		if p.last {
			clear(part(mask, 4, at-1, at))
			clear(part(labels, 8, at-1, at))
		}
	}
	end := b.m.length
	clear(part(mask, 4, at, end))
	copy(part(positions, 8, at, end), b.m.counting)
	fillInt64(part(documents, 8, at, end), -1)
	clear(part(inputs, 8, at, end))
	clear(part(labels, 8, at, end))
}

// part is the elements [from, to) of a row; nothing of a field that is left out.
func part(row []byte, size, from, to int64) []byte {
	if len(row) == 0 {
		return nil
	}
	return row[from*size : to*size]
}

func fillInt64(mem []byte, v int64) {
	for len(mem) > 0 {
		binary.LittleEndian.PutUint64(mem, uint64(v))
		mem = mem[8:]
	}
}

// fillBoundaries writes where the pieces of all packs start, in the batch seen as one row, and its end.
func (b *tokenBuild) fillBoundaries(mem []byte) {
	put := func(n int64) {
		binary.LittleEndian.PutUint32(mem, uint32(n))
		mem = mem[4:]
	}
	for slot, parts := range b.parts {
		row, at := int64(slot)*b.m.length, int64(0)
		for _, p := range parts {
			put(row + p.at)
			at = p.at + p.n
		}
		if at < b.m.length {
			put(row + at)
		}
	}
	put(int64(len(b.parts)) * b.m.length)
}

// convert puts the tokens of a run into its sample; src holds them, and may hold more.
func (b *tokenBuild) convert(r tokenRun, src []byte) error {
	size := r.source.size
	largest := b.widen(r, part(b.row(fieldTokens, r.slot), 8, r.at, r.at+r.inputs), src)
	first, skip := r.at, int64(1)
	if r.joined {
		first, skip = r.at-1, 0
	}
	labels := part(b.row(fieldLabels, r.slot), 8, first, first+r.n-skip)
	largest = max(largest, b.widen(r, labels, src[skip*size:]))
	largest = max(largest, b.widen(r, part(b.row(fieldText, r.slot), 8, r.at, r.at+r.n), src))
	if largest < b.m.limit {
		return nil
	}
	return b.wrongToken(r, src)
}

// widen fills dst with the first tokens of src.
func (b *tokenBuild) widen(r tokenRun, dst, src []byte) (largest uint64) {
	done := 0
	if b.past {
		done, largest = widenPast(r.source.dtype, dst, src)
	}
	return max(largest, widen(r.source.dtype, dst[8*done:], src[int64(done)*r.source.size:]))
}

// wrongToken names the first token of a run that is none.
func (b *tokenBuild) wrongToken(r tokenRun, src []byte) error {
	size := r.source.size
	one := make([]byte, 8)
	for i := range r.n {
		if widen(r.source.dtype, one, src[i*size:]) < b.m.limit {
			continue
		}
		id := int64(binary.LittleEndian.Uint64(one))
		reason := fmt.Sprintf("token %d: ids are not negative: the file is damaged, or holds no tokens", id)
		if id >= 0 {
			reason = fmt.Sprintf("token %d: the vocabulary has the ids 0 to %d (vocab_size): give the size of the tokenizer that the file was made with", id, b.m.limit-1)
		}
		return b.bad(r, i, 1, KindToken, reason)
	}
	return nil
}

// record returns the proof records of the batch, as lines. cu_seqlens is of the batch, not of a sample,
// and follows from what is recorded.
func (b *tokenBuild) record() (lines []byte) {
	for slot, ref := range b.refs {
		r := proof.Record{Step: b.step, Position: ref.Position, Sample: b.m.number(ref)}
		for _, field := range b.m.fields {
			if row, f := b.row(field, slot), tokenFields[field]; field != fieldCuSeqlens {
				r.Fields = append(r.Fields, proof.Field{Name: f.name, Dtype: f.dtype, Shape: []int64{int64(len(row)) / f.size}, SHA256: sha256.Sum256(row)})
			}
		}
		slices.SortFunc(r.Fields, func(a, b proof.Field) int { return cmp.Compare(a.Name, b.Name) })
		lines = r.AppendLine(lines)
	}
	return lines
}
