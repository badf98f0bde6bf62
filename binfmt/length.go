package binfmt

import (
	"context"
	"fmt"
	"strings"
)

// A Length is a column of a dataset's indexes that says how long samples are.
type Length struct {
	field string
	part  func(Part) uint64 // of a media field; nil for scalars
}

// Length returns the length of a column's name: a scalar field of kind int64, or utf8, whose length is that of its text in
// bytes; or, of a media field F, "F.length" (bytes), "F.width", "F.height", "F.frames", "F.duration_us" or "F.cost_us".
// A column that there is not, or of another kind, is an error that matches ErrNoField.
func (m *Manifest) Length(column string) (Length, error) {
	if f, ok := m.Field(column); ok && (f.Kind == Int64 || f.Kind == UTF8) {
		return Length{field: column}, nil
	}
	if at := strings.LastIndexByte(column, '.'); at >= 0 {
		f, ok := m.Field(column[:at])
		if part := partLength(column[at+1:]); ok && f.Kind == Media && part != nil {
			return Length{f.Name, part}, nil
		}
	}
	return Length{}, fmt.Errorf("binfmt.Length: column %q: %w: the columns of lengths here are %s", column, ErrNoField, strings.Join(m.lengths(), ", "))
}

// lengths names the columns that Length knows.
func (m *Manifest) lengths() (names []string) {
	for _, f := range m.Fields {
		switch f.Kind {
		case Int64, UTF8:
			names = append(names, f.Name)
		case Media:
			names = append(names, f.Name+".{length, width, height, frames, duration_us, cost_us}")
		}
	}
	if names == nil {
		return []string{"none"}
	}
	return names
}

func partLength(column string) func(Part) uint64 {
	switch column {
	case "length":
		return func(p Part) uint64 { return uint64(p.Len) }
	case "width":
		return func(p Part) uint64 { return uint64(p.Width) }
	case "height":
		return func(p Part) uint64 { return uint64(p.Height) }
	case "frames":
		return func(p Part) uint64 { return uint64(p.Frames) }
	case "duration_us":
		return func(p Part) uint64 { return p.DurationUS }
	case "cost_us":
		return func(p Part) uint64 { return p.CostUS }
	}
	return nil
}

// Of returns the length of a sample of d, whose manifest l is of: 0 where the index does not have it. A negative number is
// an error.
func (l Length) Of(ctx context.Context, d *Dataset, sample uint64) (uint64, error) {
	if l.part != nil {
		p, err := d.Part(ctx, sample, l.field)
		if err != nil {
			return 0, err
		}
		return l.part(p), nil
	}
	v, err := d.Scalar(ctx, sample, l.field)
	switch {
	case err != nil:
		return 0, err
	case v.Kind == UTF8:
		return uint64(len(v.Str)), nil
	case v.Int < 0:
		return 0, fmt.Errorf("binfmt.Length: column %q of sample %d is %d: a length is not negative", l.field, sample, v.Int)
	}
	return uint64(v.Int), nil
}
