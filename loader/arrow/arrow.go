// Package arrow views a batch as an Arrow record.
package arrow

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/stepahead-io/stepahead/loader"
)

// Record returns a batch as a record of one column a field, over the batch's memory: tensors and numbers are not
// copied, texts are. It takes the batch over: the batch is released when the last reference to the memory is,
// that is when the record was released and every array, slice or buffer that was retained of it. After an error the
// batch is the caller's still.
//
// Numbers are columns of their type, bools of int8 marked in the schema as the canonical extension type arrow.bool8,
// texts of utf8, and fields of bytes of large_binary. A field of more dimensions is a fixed-size list a sample, marked as arrow.fixed_shape_tensor with the
// shape as it lies in memory and, for channels-last images, the permutation that gives the logical one. bfloat16, which
// has no type in Arrow, and fields that have no row for each sample (cu_seqlens of packed tokens) are errors.
func Record(b *loader.Batch) (arrow.RecordBatch, error) {
	var fields []arrow.Field
	var columns []arrow.Array
	held := &lease{batch: b}
	held.buffers.Store(1) // this call's own
	rows := len(b.Samples)
	for i := range b.Fields {
		f := &b.Fields[i]
		column, field, err := columnOf(f, rows, held)
		if err != nil {
			held.keep.Store(true)
			release(columns)
			return nil, fmt.Errorf("arrow.Record: field %q: %w", f.Name, err)
		}
		fields, columns = append(fields, field), append(columns, column)
	}
	record := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
	release(columns) // the record holds them
	held.Free(nil)
	return record, nil
}

func release(columns []arrow.Array) {
	for _, c := range columns {
		c.Release()
	}
}

// lease counts the buffers that refer to a batch and releases it after the last. It is the allocator of those
// buffers, which is who Arrow tells that a buffer is not needed any more.
type lease struct {
	batch   *loader.Batch
	buffers atomic.Int64
	keep    atomic.Bool // the batch is the caller's after all
}

// Allocate implements memory.Allocator. Nothing calls it: buffers of a batch do not grow.
func (l *lease) Allocate(int) []byte { panic("arrow: a batch's buffers do not grow") }

// Reallocate implements memory.Allocator as Allocate does.
func (l *lease) Reallocate(int, []byte) []byte { panic("arrow: a batch's buffers do not grow") }

// Free implements memory.Allocator: one buffer less.
func (l *lease) Free([]byte) {
	if l.buffers.Add(-1) == 0 && !l.keep.Load() {
		l.batch.Release()
	}
}

func (l *lease) buffer(data []byte) *memory.Buffer {
	l.buffers.Add(1)
	return memory.NewBufferWithAllocator(data, l)
}

// columnOf returns a field as an array of so many rows, and its entry in the schema.
func columnOf(f *loader.FieldData, rows int, held *lease) (arrow.Array, arrow.Field, error) {
	if f.Shape[0] != rows {
		return nil, arrow.Field{}, fmt.Errorf("%d entries for %d samples are no column: leave the field out (Options.Fields)", f.Shape[0], rows)
	}
	switch {
	case f.Strings != nil:
		return texts(f.Strings), arrow.Field{Name: f.Name, Type: arrow.BinaryTypes.String}, nil
	case f.Offsets != nil:
		return stored(f, held), arrow.Field{Name: f.Name, Type: arrow.BinaryTypes.LargeBinary}, nil
	}
	element, err := typeOf(f.Dtype)
	if err != nil {
		return nil, arrow.Field{}, err
	}
	if len(f.Shape) == 1 {
		return scalars(f, element, held)
	}
	stored, permutation := loader.MemoryOrder(f.Shape[1:], f.Strides[1:])
	width := 1
	for _, n := range stored {
		width *= n
	}
	buffer := held.buffer(f.Bytes)
	defer buffer.Release()
	values := array.NewData(element, rows*width, []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer values.Release()
	kind := arrow.FixedSizeListOfNonNullable(int32(width), element)
	data := array.NewData(kind, rows, []*memory.Buffer{nil}, []arrow.ArrayData{values}, 0, 0)
	defer data.Release()
	return array.NewFixedSizeListData(data), arrow.Field{Name: f.Name, Type: kind, Metadata: tensorOf(stored, permutation)}, nil
}

func scalars(f *loader.FieldData, element arrow.DataType, held *lease) (arrow.Array, arrow.Field, error) {
	buffer := held.buffer(f.Bytes)
	defer buffer.Release()
	data := array.NewData(element, f.Shape[0], []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer data.Release()
	field := arrow.Field{Name: f.Name, Type: element}
	if f.Dtype == "bool" {
		field.Metadata = extension("arrow.bool8", "")
	}
	return array.MakeFromData(data), field, nil
}

// stored views a field of bytes, which lies as Arrow has its large binary columns.
func stored(f *loader.FieldData, held *lease) arrow.Array {
	values := held.buffer(f.Bytes)
	defer values.Release()
	offsets := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(f.Offsets))
	data := array.NewData(arrow.BinaryTypes.LargeBinary, f.Shape[0], []*memory.Buffer{nil, offsets, values}, nil, 0, 0)
	defer data.Release()
	return array.NewLargeBinaryData(data)
}

func typeOf(dtype string) (arrow.DataType, error) {
	switch dtype {
	case "uint8":
		return arrow.PrimitiveTypes.Uint8, nil
	case "bool":
		return arrow.PrimitiveTypes.Int8, nil
	case "int32":
		return arrow.PrimitiveTypes.Int32, nil
	case "int64":
		return arrow.PrimitiveTypes.Int64, nil
	case "float16":
		return arrow.FixedWidthTypes.Float16, nil
	case "float32":
		return arrow.PrimitiveTypes.Float32, nil
	case "float64":
		return arrow.PrimitiveTypes.Float64, nil
	}
	return nil, fmt.Errorf("dtype %s: Arrow has no type like it: end the plan with a cast to float32 or float16", dtype)
}

func texts(values []string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewStringArray()
}

// tensorOf marks a column as tensors of a shape, as readers of other languages know it.
func tensorOf(shape, permutation []int) arrow.Metadata {
	text, err := json.Marshal(struct {
		Shape       []int `json:"shape"`
		Permutation []int `json:"permutation,omitempty"`
	}{shape, permutation})
	if err != nil {
		panic("arrow: " + err.Error()) // lists of numbers
	}
	return extension("arrow.fixed_shape_tensor", string(text))
}

// extension marks a column as of a canonical extension type, by name: this package needs none of their code.
func extension(name, metadata string) arrow.Metadata {
	return arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{name, metadata})
}
