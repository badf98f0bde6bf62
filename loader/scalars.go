package loader

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stepahead-io/stepahead/binfmt"
)

// field is a field that is delivered; media is its place in Loader.media, -1 for a scalar.
type field struct {
	name  string
	kind  binfmt.Kind
	media int
}

func scalarBytes(k binfmt.Kind) int64 {
	switch k {
	case binfmt.Int64, binfmt.Float64:
		return 8
	case binfmt.Bool:
		return 1
	}
	return 0 // text lies in Strings
}

func scalarDtype(k binfmt.Kind) string {
	switch k {
	case binfmt.Int64:
		return dtypeInt64
	case binfmt.Float64:
		return dtypeFloat64
	case binfmt.Bool:
		return dtypeBool
	}
	return dtypeText
}

// scalars fills in the scalar fields of the samples that are delivered.
func (b *build) scalars(ctx context.Context) error {
	for i, f := range b.l.fields {
		if f.media >= 0 {
			continue
		}
		data := &b.fields[i]
		if f.kind == binfmt.UTF8 {
			data.Bytes, data.Strings = nil, make([]string, len(b.refs))
		}
		for slot, ref := range b.refs {
			v, err := b.l.data.Scalar(ctx, b.l.data.number(ref), f.name)
			if err != nil {
				return fmt.Errorf("%s, field %q: %w", b.l.nameOf(ref), f.name, err)
			}
			data.set(slot, v)
		}
	}
	return nil
}

func (f *FieldData) set(i int, v binfmt.Value) {
	switch v.Kind {
	case binfmt.Int64:
		binary.LittleEndian.PutUint64(f.Bytes[8*i:], uint64(v.Int))
	case binfmt.Float64:
		binary.LittleEndian.PutUint64(f.Bytes[8*i:], math.Float64bits(v.Float))
	case binfmt.Bool:
		f.Bytes[i] = 0
		if v.Bool {
			f.Bytes[i] = 1
		}
	default:
		f.Strings[i] = v.Str
	}
}
