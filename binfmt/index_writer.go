package binfmt

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Limits of text in an index, in bytes: a batch's text then stays below the 2 GiB that utf8's
// offsets reach.
const (
	MaxKey  = 4096
	MaxText = 16 << 10
)

// CheckKey says whether a sample may have that key: 1 to MaxKey bytes of UTF-8 without control
// characters, so that a key is one line wherever it is printed.
func CheckKey(key string) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fmt.Errorf("a key has 1 to %d bytes, %.100q has %d", MaxKey, key, len(key))
	case !utf8.ValidString(key):
		return fmt.Errorf("the key %q is not UTF-8", key)
	}
	if i := strings.IndexFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return fmt.Errorf("the key %q has a control character (a newline, perhaps) at byte %d", key, i)
	}
	return nil
}

// Row is one sample of an index.
type Row struct {
	Key     string
	Parts   []Part  // one a media field, in the manifest's order; Extent.Bin is not used
	Scalars []Value // one a scalar field, in the manifest's order
}

// IndexWriter writes an index file. It is not safe for concurrent use. The same rows give the same
// bytes.
type IndexWriter struct {
	layout  layout
	build   *array.RecordBuilder
	out     *ipc.FileWriter
	rows    int
	lastKey string
}

// NewIndexWriter returns a writer of the index of the bin with that uuid. It does not close w.
func NewIndexWriter(w io.Writer, fields []Field, uuid [16]byte) (*IndexWriter, error) {
	return newIndexWriter(w, fields, uuid, "")
}

// NewForeignIndexWriter returns a writer of the index of a bin that is in a container. Its keys may come in any
// order, and several times.
func NewForeignIndexWriter(w io.Writer, fields []Field, uuid [16]byte, container string) (*IndexWriter, error) {
	return newIndexWriter(w, fields, uuid, container)
}

func newIndexWriter(w io.Writer, fields []Field, uuid [16]byte, container string) (*IndexWriter, error) {
	if err := CheckFields(fields); err != nil { // columns that share a name would not have the kinds that Append fills
		return nil, fmt.Errorf("binfmt.NewIndexWriter: %w", err)
	}
	for _, f := range fields {
		if f.Kind == Tokens {
			return nil, fmt.Errorf("binfmt.NewIndexWriter: field %q: tokens are indexed by their container", f.Name)
		}
	}
	l := newLayout(fields, container)
	schema := l.schema(hex.EncodeToString(uuid[:]))
	out, err := ipc.NewFileWriter(w, ipc.WithSchema(schema))
	if err != nil {
		return nil, fmt.Errorf("binfmt.NewIndexWriter: %w", err)
	}
	return &IndexWriter{layout: l, build: array.NewRecordBuilder(memory.DefaultAllocator, schema), out: out}, nil
}

// Append adds a row. Rows come in ascending order of their keys' bytes, except in the index of a foreign bin.
func (w *IndexWriter) Append(r Row) error {
	if err := w.check(r); err != nil {
		return fmt.Errorf("binfmt.IndexWriter.Append: row %d: %w", w.rows, err)
	}
	w.build.Field(0).(*array.StringBuilder).Append(r.Key)
	parts, scalars := r.Parts, r.Scalars
	for _, f := range w.layout.fields {
		col := w.layout.first[f.Name]
		if f.Kind == Media {
			w.appendPart(col, parts[0])
			parts = parts[1:]
			continue
		}
		w.appendScalar(col, scalars[0])
		scalars = scalars[1:]
	}
	w.lastKey = r.Key
	w.rows++
	if w.rows%BatchRows == 0 {
		return w.flush()
	}
	return nil
}

func (w *IndexWriter) check(r Row) error {
	if err := CheckKey(r.Key); err != nil {
		return err
	}
	if r.Key <= w.lastKey && !w.layout.foreign {
		return fmt.Errorf("key %q comes after %q: keys ascend and are unique", r.Key, w.lastKey)
	}
	parts, scalars := 0, 0
	for _, f := range w.layout.fields {
		if f.Kind == Media {
			if w.layout.files && parts < len(r.Parts) {
				if err := checkFilePart(r.Parts[parts]); err != nil {
					return fmt.Errorf("key %q, field %q: %w", r.Key, f.Name, err)
				}
			}
			parts++
			continue
		}
		if scalars < len(r.Scalars) {
			if err := checkScalar(f, r.Scalars[scalars]); err != nil {
				return fmt.Errorf("key %q: %w", r.Key, err)
			}
		}
		scalars++
	}
	if parts != len(r.Parts) || scalars != len(r.Scalars) {
		return fmt.Errorf("key %q: %d parts and %d scalars, the fields need %d and %d", r.Key, len(r.Parts), len(r.Scalars), parts, scalars)
	}
	return nil
}

func checkScalar(f Field, v Value) error {
	switch {
	case v.Kind != f.Kind:
		return fmt.Errorf("field %q: a value of kind %s, want %s", f.Name, v.Kind, f.Kind)
	case v.Kind == UTF8 && (len(v.Str) > MaxText || !utf8.ValidString(v.Str)):
		return fmt.Errorf("field %q: text of %d bytes: want UTF-8 of at most %d", f.Name, len(v.Str), MaxText)
	case v.Kind == Float64 && (math.IsNaN(v.Float) || math.IsInf(v.Float, 0)):
		return fmt.Errorf("field %q: %v is not a number one can train on", f.Name, v.Float)
	}
	return nil
}

func (w *IndexWriter) appendPart(col int, p Part) {
	u32 := func(i int, v uint32, ok bool) {
		b := w.build.Field(col + i).(*array.Uint32Builder)
		if ok {
			b.Append(v)
		} else {
			b.AppendNull()
		}
	}
	u64 := func(i int, v uint64, ok bool) {
		b := w.build.Field(col + i).(*array.Uint64Builder)
		if ok {
			b.Append(v)
		} else {
			b.AppendNull()
		}
	}
	u64(colOffset, uint64(p.Off), true)
	u64(colLength, uint64(p.Len), true)
	u32(colCRC, p.CRC, p.HasCRC)
	w.build.Field(col + colType).(*array.StringBuilder).Append(p.Type)
	u32(colWidth, p.Width, p.Width != 0)
	u32(colHeight, p.Height, p.Height != 0)
	u32(colFrames, p.Frames, p.Frames != 0)
	u64(colDuration, p.DurationUS, p.DurationUS != 0)
	u64(colCost, p.CostUS, p.CostUS != 0)
	if w.layout.files {
		w.build.Field(col + colFile).(*array.StringBuilder).Append(p.File)
		w.build.Field(col + colIdentity).(*array.StringBuilder).Append(p.Version)
	}
}

func (w *IndexWriter) appendScalar(col int, v Value) {
	switch b := w.build.Field(col).(type) {
	case *array.Int64Builder:
		b.Append(v.Int)
	case *array.Float64Builder:
		b.Append(v.Float)
	case *array.BooleanBuilder:
		b.Append(v.Bool)
	case *array.StringBuilder:
		b.Append(v.Str)
	}
}

func (w *IndexWriter) flush() error {
	batch := w.build.NewRecordBatch()
	defer batch.Release()
	if err := w.out.Write(batch); err != nil {
		return fmt.Errorf("binfmt.IndexWriter: %w", err)
	}
	return nil
}

// Close writes what is left and the footer. The writer cannot be used afterwards.
func (w *IndexWriter) Close() error {
	var err error
	if w.rows%BatchRows != 0 {
		err = w.flush()
	}
	if cerr := w.out.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("binfmt.IndexWriter.Close: %w", cerr))
	}
	w.build.Release()
	return err
}
