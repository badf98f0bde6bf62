package binfmt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Index is one mapped index file. Its readers may run concurrently with each other, not with Close.
// What it returns does not refer to the mapping.
type Index struct {
	mapping
	bin     Bin
	place   int // of the bin in its manifest
	layout  layout
	batches [][]buffers // by batch, then column
}

// buffers are the memory of one column of one batch, inside the mapping.
type buffers struct {
	valid  []byte // nil if no value is null
	values []byte
	text   []byte
}

// OpenIndex maps an index file and checks its structure, its columns and that it belongs to the
// bin at place in the manifest. It keeps a descriptor of the file until Close. Contents are checked as
// they are read, except for the file's digest: whoever fetched the file has checked that, and
// verification does it for files that were never fetched. Every method that reads compares afterwards what the
// file is with what it was when it was opened: a *ChangedError says that it was written to.
func OpenIndex(index LocalIndex, m *Manifest, place int) (*Index, error) {
	file, err := mapFile(index)
	if err != nil {
		return nil, fmt.Errorf("binfmt.OpenIndex %s: %w", index.Path, err)
	}
	x := &Index{mapping: file, bin: m.Bins[place], place: place, layout: newLayout(m.Fields, m.Bins[place].container())}
	if err := x.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("binfmt.OpenIndex %s: %w", index.Path, err), x.Close())
	}
	return x, nil
}

// Close unmaps the file. A second call does nothing.
func (x *Index) Close() error {
	x.batches = nil
	if err := x.close(); err != nil {
		return fmt.Errorf("binfmt.Index.Close %s: %w", x.name, err)
	}
	return nil
}

// Rows returns the number of rows.
func (x *Index) Rows() int64 { return x.bin.Samples }

func (x *Index) load() error {
	return x.mapping.read(func() error {
		guard := arrowGuard{x.data, x.layout, x.bin.Samples}
		if err := guard.check(); err != nil {
			return fmt.Errorf("%w: %w", err, ErrIndex)
		}
		r, err := ipc.NewMappedFileReader(x.data,
			ipc.WithMetadataSizeLimit(maxArrowMetadata), ipc.WithBodySizeLimit(int64(len(x.data))))
		if err != nil {
			return fmt.Errorf("%w: %w", err, ErrIndex)
		}
		defer r.Close()
		if err := x.checkSchema(r.Schema()); err != nil {
			return err
		}
		x.batches = make([][]buffers, r.NumRecords())
		for i := range x.batches {
			batch, err := r.RecordBatchAt(i)
			if err != nil {
				return fmt.Errorf("record batch %d: %w: %w", i, err, ErrIndex)
			}
			x.batches[i] = columnsOf(batch)
			batch.Release()
		}
		return nil
	})
}

func (x *Index) checkSchema(s *arrow.Schema) error {
	want := x.layout.schema(x.bin.UUID)
	get := func(key string) string {
		v, _ := s.Metadata().GetValue(key)
		return v
	}
	wantFormat, _ := want.Metadata().GetValue(metaFormat)
	if got := get(metaFormat); got != wantFormat {
		return fmt.Errorf("schema metadata %s is %q, this program reads %q: %w", metaFormat, got, wantFormat, ErrVersion)
	}
	if got := get(metaUUID); got != x.bin.UUID {
		return fmt.Errorf("schema metadata %s is %q, the manifest says %q: the index belongs to another bin: %w", metaUUID, got, x.bin.UUID, ErrMismatch)
	}
	for i, f := range want.Fields() {
		if got := s.Field(i); got.Name != f.Name || !arrow.TypeEqual(got.Type, f.Type) {
			return fmt.Errorf("column %d is %s %s, want %s %s: %w", i, got.Name, got.Type, f.Name, f.Type, ErrIndex)
		}
	}
	return nil
}

// columnsOf takes the column's memory out of a batch. The slices are parts of the mapping, which
// outlives the batch.
func columnsOf(batch arrow.RecordBatch) []buffers {
	cols := make([]buffers, batch.NumCols())
	for i, c := range batch.Columns() {
		part := make([][]byte, 3)
		for j, b := range c.Data().Buffers() {
			if b != nil {
				part[j] = b.Bytes()
			}
		}
		if c.Data().NullN() == 0 {
			part[0] = nil
		}
		cols[i] = buffers{part[0], part[1], part[2]}
	}
	return cols
}

func (x *Index) at(row int64, col int) (buffers, int64) {
	return x.batches[row/BatchRows][col], row % BatchRows
}

func (x *Index) u32(row int64, col int) (v uint32, ok bool) {
	b, i := x.at(row, col)
	if b.isNull(i) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b.values[4*i:]), true
}

func (x *Index) u64(row int64, col int) uint64 {
	b, i := x.at(row, col)
	if b.isNull(i) {
		return 0
	}
	return binary.LittleEndian.Uint64(b.values[8*i:])
}

func (b buffers) isNull(i int64) bool {
	return b.valid != nil && b.valid[i/8]>>(i%8)&1 == 0
}

// text returns a piece of the mapping.
func (x *Index) text(row int64, col int) ([]byte, error) {
	b, i := x.at(row, col)
	from := int64(int32(binary.LittleEndian.Uint32(b.values[4*i:])))
	to := int64(int32(binary.LittleEndian.Uint32(b.values[4*i+4:])))
	if from < 0 || to < from || to > int64(len(b.text)) {
		return nil, fmt.Errorf("column %q: text from %d to %d of %d bytes: %w", x.layout.columns[col].name, from, to, len(b.text), ErrIndex)
	}
	if !utf8.Valid(b.text[from:to]) {
		return nil, fmt.Errorf("column %q: the text is not UTF-8: %w", x.layout.columns[col].name, ErrIndex)
	}
	return b.text[from:to], nil
}

// read runs f for a row that exists, and puts file and row before its error.
func (x *Index) read(op string, row int64, f func() error) error {
	if row < 0 || row >= x.bin.Samples || x.closed() {
		return fmt.Errorf("binfmt.%s %s: row %d of %d: %w", op, x.name, row, x.bin.Samples, ErrNoSample)
	}
	if err := x.mapping.read(f); err != nil {
		return fmt.Errorf("binfmt.%s %s: row %d: %w", op, x.name, row, err)
	}
	return nil
}

// Key returns the key of a row.
func (x *Index) Key(row int64) (string, error) {
	var key string
	err := x.read("Key", row, func() error {
		b, err := x.text(row, 0)
		key = string(b)
		return err
	})
	return key, err
}

// Part returns where a media field of a row is. The extent lies inside the bin.
func (x *Index) Part(row int64, field string) (Part, error) {
	var p Part
	err := x.read("Part", row, func() error {
		first, err := x.column(field, true)
		if err != nil {
			return err
		}
		p, err = x.part(row, first)
		return err
	})
	return p, err
}

func (x *Index) part(row int64, first int) (Part, error) {
	off, length := x.u64(row, first+colOffset), x.u64(row, first+colLength)
	if size := uint64(x.bin.Bytes); off < uint64(x.bin.HeadSize()) || off > size || length > size-off {
		return Part{}, fmt.Errorf("column %q: offset %d, length %d: outside the bin's %d bytes: %w", x.layout.columns[first].name, off, length, size, ErrIndex)
	}
	typ, err := x.text(row, first+colType)
	if err != nil {
		return Part{}, err
	}
	crc, ok := x.u32(row, first+colCRC)
	p := Part{
		Extent:     Extent{Bin: x.place, Off: int64(off), Len: int64(length), CRC: crc, HasCRC: ok},
		Type:       internType(typ),
		DurationUS: x.u64(row, first+colDuration),
		CostUS:     x.u64(row, first+colCost),
	}
	if x.layout.files {
		if p.File, p.Version, err = x.file(row, first); err != nil {
			return Part{}, err
		}
	}
	p.Width, _ = x.u32(row, first+colWidth)
	p.Height, _ = x.u32(row, first+colHeight)
	p.Frames, _ = x.u32(row, first+colFrames)
	return p, nil
}

// file returns which file below the bin's folder a part is, and its identity.
func (x *Index) file(row int64, first int) (name, identity string, err error) {
	file, err := x.text(row, first+colFile)
	if err != nil {
		return "", "", err
	}
	version, err := x.text(row, first+colIdentity)
	if err != nil {
		return "", "", err
	}
	if err := CheckFile(string(file)); err != nil {
		return "", "", fmt.Errorf("column %q: %w: %w", x.layout.columns[first+colFile].name, err, ErrIndex)
	}
	return string(file), string(version), nil
}

// internType spares a copy for the types that nearly all parts have.
func internType(b []byte) string {
	switch string(b) {
	case "image/jpeg":
		return "image/jpeg"
	case "image/png":
		return "image/png"
	case "image/webp":
		return "image/webp"
	}
	return string(b)
}

// Scalar returns the value of a scalar field of a row.
func (x *Index) Scalar(row int64, field string) (Value, error) {
	var v Value
	err := x.read("Scalar", row, func() error {
		col, err := x.column(field, false)
		if err != nil {
			return err
		}
		v, err = x.scalar(row, col, field)
		return err
	})
	return v, err
}

func (x *Index) scalar(row int64, col int, field string) (Value, error) {
	v := Value{Kind: x.kind(field)}
	switch v.Kind {
	case Int64:
		v.Int = int64(x.u64(row, col))
	case Float64:
		v.Float = math.Float64frombits(x.u64(row, col))
	case Bool:
		b, i := x.at(row, col)
		v.Bool = b.values[i/8]>>(i%8)&1 == 1
	default:
		text, err := x.text(row, col)
		if err != nil {
			return Value{}, err
		}
		v.Str = string(text)
	}
	return v, nil
}

func (x *Index) kind(field string) Kind {
	for _, f := range x.layout.fields {
		if f.Name == field {
			return f.Kind
		}
	}
	return ""
}

// column returns the first column of a field that is, or is not, a media field.
func (x *Index) column(field string, media bool) (int, error) {
	col, ok := x.layout.first[field]
	if !ok {
		return 0, fmt.Errorf("field %q: %w", field, ErrNoField)
	}
	if isMedia := x.kind(field) == Media; isMedia != media {
		return 0, fmt.Errorf("field %q is of kind %s: %w", field, x.kind(field), ErrNoField)
	}
	return col, nil
}
