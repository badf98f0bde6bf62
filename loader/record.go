package loader

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/stepahead-io/stepahead/loader/proof"
)

// record returns the proof records of what the batch holds, as lines.
func (b *build) record() (lines []byte) {
	for slot, ref := range b.refs {
		r := proof.Record{Step: b.step, Position: ref.Position, Sample: b.l.data.number(ref)}
		for i, f := range b.l.fields {
			data := &b.fields[i]
			p := proof.Field{Name: f.name, Dtype: data.Dtype, SHA256: sha256.Sum256(b.logicalBytes(i, f, slot))}
			for _, n := range data.Shape[1:] {
				p.Shape = append(p.Shape, int64(n))
			}
			r.Fields = append(r.Fields, p)
		}
		slices.SortFunc(r.Fields, func(a, b proof.Field) int { return cmp.Compare(a.Name, b.Name) })
		lines = r.AppendLine(lines)
	}
	return lines
}

// logicalBytes returns one sample's bytes of field i in C order of its logical shape.
func (b *build) logicalBytes(i int, f field, slot int) []byte {
	data := &b.fields[i]
	switch {
	case data.Strings != nil:
		return []byte(data.Strings[slot])
	case data.Offsets != nil:
		return data.Stored(slot)
	}
	size := len(data.Bytes) / len(b.refs)
	sample := data.Bytes[slot*size : (slot+1)*size]
	if f.media < 0 || b.l.media[f.media].contiguous {
		return sample
	}
	out := make([]byte, size)
	planes(out, sample, b.delivered(f.media))
	return out
}
