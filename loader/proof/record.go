// Package proof knows the records of what a run delivered, and the digest that proves two runs equal.
package proof

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// A Record says what was delivered at one place of a run.
type Record struct {
	// Step counts global batches through all epochs, from 0; Position is the place in the global
	// batch, from 0.
	Step, Position int64
	// Sample is the id that was delivered: the substitute's, where there was one.
	Sample uint64
	// Fields are in order of name.
	Fields []Field
}

// A Field is one tensor of a sample, as the user receives it.
type Field struct {
	Name string
	// Dtype is NumPy's name of the element type.
	Dtype string
	// Shape is the shape of one sample; a scalar has none.
	Shape []int64
	// SHA256 is taken over the C-order bytes of the logical shape.
	SHA256 [32]byte
}

// maxLine bounds a record's line in bytes; a record of 100 fields has some 15,000.
const maxLine = 1 << 20

// line is a Record in JSON. Pointers tell a missing key from a zero.
type line struct {
	Step     *int64   `json:"step"`
	Position *int64   `json:"position"`
	Sample   *uint64  `json:"sample"`
	Fields   *[]field `json:"fields"`
}

type field struct {
	Name   *string  `json:"name"`
	Dtype  *string  `json:"dtype"`
	Shape  *[]int64 `json:"shape"`
	SHA256 *string  `json:"sha256"`
}

// AppendLine appends the record's line of JSON, newline included, to dst and returns it.
func (r *Record) AppendLine(dst []byte) []byte {
	fields := make([]field, len(r.Fields))
	for i := range r.Fields {
		f := &r.Fields[i]
		shape := append([]int64{}, f.Shape...) // [] rather than null
		sum := hex.EncodeToString(f.SHA256[:])
		fields[i] = field{&f.Name, &f.Dtype, &shape, &sum}
	}
	text, err := json.Marshal(line{&r.Step, &r.Position, &r.Sample, &fields})
	if err != nil {
		panic("proof: " + err.Error()) // numbers and strings always encode
	}
	return append(append(dst, text...), '\n')
}

// ParseRecord reads one line, with or without its newline. Every key is required and no other is
// known; fields come back in order of name.
func ParseRecord(text []byte) (Record, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var l line
	if err := dec.Decode(&l); err != nil {
		return Record{}, fmt.Errorf("not a record: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("not a record: more data after it")
	}
	if l.Step == nil || l.Position == nil || l.Sample == nil || l.Fields == nil {
		return Record{}, errors.New("not a record: step, position, sample and fields are required")
	}
	r := Record{Step: *l.Step, Position: *l.Position, Sample: *l.Sample}
	if r.Step < 0 || r.Position < 0 {
		return Record{}, fmt.Errorf("step %d, position %d: must not be negative", r.Step, r.Position)
	}
	for i, f := range *l.Fields {
		field, err := f.parse()
		if err != nil {
			return Record{}, fmt.Errorf("fields[%d]: %w", i, err)
		}
		r.Fields = append(r.Fields, field)
	}
	return r, r.sortFields()
}

func (f field) parse() (Field, error) {
	if f.Name == nil || f.Dtype == nil || f.Shape == nil || f.SHA256 == nil {
		return Field{}, errors.New("name, dtype, shape and sha256 are required")
	}
	for _, n := range *f.Shape {
		if n < 0 {
			return Field{}, fmt.Errorf("shape %v: must not be negative", *f.Shape)
		}
	}
	sum, err := hex.DecodeString(*f.SHA256)
	if err != nil || len(sum) != 32 {
		return Field{}, fmt.Errorf("sha256 %q: must be 64 hex digits", *f.SHA256)
	}
	return Field{Name: *f.Name, Dtype: *f.Dtype, Shape: *f.Shape, SHA256: [32]byte(sum)}, nil
}

func (r *Record) sortFields() error {
	slices.SortFunc(r.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(r.Fields); i++ {
		if r.Fields[i].Name == r.Fields[i-1].Name {
			return fmt.Errorf("field %q occurs twice", r.Fields[i].Name)
		}
	}
	return nil
}

// hashInto writes to h what the digest takes of a record.
func (r *Record) hashInto(h hash.Hash, scratch []byte) []byte {
	b := scratch[:0]
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Step))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Position))
	b = binary.LittleEndian.AppendUint64(b, r.Sample)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Fields)))
	for _, f := range r.Fields {
		b = appendString(b, f.Name)
		b = appendString(b, f.Dtype)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Shape)))
		for _, n := range f.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = append(b, f.SHA256[:]...)
	}
	h.Write(b)
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// difference names the first thing in which two records of one place differ, or is empty.
func (r *Record) difference(other *Record) string {
	if r.Sample != other.Sample {
		return fmt.Sprintf("sample %d and sample %d", r.Sample, other.Sample)
	}
	if len(r.Fields) != len(other.Fields) {
		return fmt.Sprintf("%d fields and %d fields", len(r.Fields), len(other.Fields))
	}
	for i, a := range r.Fields {
		b := other.Fields[i]
		switch {
		case a.Name != b.Name:
			return fmt.Sprintf("field %q and field %q", a.Name, b.Name)
		case a.Dtype != b.Dtype:
			return fmt.Sprintf("field %q: dtype %s and %s", a.Name, a.Dtype, b.Dtype)
		case !slices.Equal(a.Shape, b.Shape):
			return fmt.Sprintf("field %q: shape %v and %v", a.Name, a.Shape, b.Shape)
		case a.SHA256 != b.SHA256:
			return fmt.Sprintf("field %q: sha256 %x and %x", a.Name, a.SHA256, b.SHA256)
		}
	}
	return ""
}
