package parquet

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// kind is what the values of a column become.
type kind string

const (
	whole64  kind = "int"
	unsigned kind = "uint"
	number   kind = "float"
	half     kind = "float16"
	boolean  kind = "bool"
	text     kind = "text"
	binary   kind = "bytes"
)

// column is one column that becomes a field.
type column struct {
	name  string // in the file
	field string
	kind  kind
	leaf  int // place among the file's leaves
}

// String says it in messages.
func (c column) String() string { return fmt.Sprintf("%q (%s)", c.name, c.kind) }

// columnsOf returns the columns of the fields that are wanted. One that is nested, or of a type that is not known, is an error.
func columnsOf(s *schema.Schema, wanted func(string) bool) ([]column, error) {
	var columns []column
	var refused, good []string
	seen := make(map[string]string)
	for i := range s.Root().NumFields() {
		node := s.Root().Field(i)
		field := foreign.FieldName(node.Name())
		if other, twice := seen[field]; twice {
			return nil, fmt.Errorf("the columns %q and %q would both be the field %q: %w", other, node.Name(), field, foreign.ErrContainer)
		}
		seen[field] = node.Name()
		c, why := columnOf(s, node)
		c.name, c.field = node.Name(), field
		if why == "" {
			good = append(good, field)
		}
		switch {
		case !wanted(field):
		case why != "":
			refused = append(refused, fmt.Sprintf("%q (%s)", node.Name(), why))
		default:
			columns = append(columns, c)
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("columns that become no field: %s: name the fields to take with --field: %s: %w", strings.Join(refused, ", "), strings.Join(good, ", "), foreign.ErrContainer)
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("no column is taken: the fields are %s: %w", strings.Join(good, ", "), foreign.ErrContainer)
	}
	return columns, nil
}

// columnOf says what a column becomes, or why nothing. A group of bytes and path is a file as Hugging Face's datasets stores it: its bytes.
func columnOf(s *schema.Schema, n schema.Node) (c column, why string) {
	if n.RepetitionType() == parquet.Repetitions.Repeated {
		return c, "a list"
	}
	if g, ok := n.(*schema.GroupNode); ok {
		if n = fileOf(g); n == nil {
			return c, nested(g)
		}
	}
	c.leaf = s.ColumnIndexByNode(n)
	if c.leaf < 0 || s.Column(c.leaf).MaxRepetitionLevel() > 0 {
		return c, "a list"
	}
	c.kind, why = kindOf(s.Column(c.leaf))
	return c, why
}

// fileOf returns the bytes of a group that is a file, else nil.
func fileOf(g *schema.GroupNode) schema.Node {
	bytes, name := g.FieldIndexByName("bytes"), g.FieldIndexByName("path")
	if g.NumFields() != 2 || bytes < 0 || name < 0 {
		return nil
	}
	n, ok := g.Field(bytes).(*schema.PrimitiveNode)
	if !ok || n.PhysicalType() != parquet.Types.ByteArray || n.RepetitionType() == parquet.Repetitions.Repeated {
		return nil
	}
	return n
}

func nested(g *schema.GroupNode) string {
	switch g.LogicalType().(type) {
	case schema.ListLogicalType:
		return "a list"
	case schema.MapLogicalType:
		return "a map"
	}
	return "a group"
}

// kindOf tells a leaf's kind by its types.
func kindOf(c *schema.Column) (k kind, why string) {
	none := func() (kind, string) { return "", fmt.Sprintf("%s of %s", c.LogicalType(), c.PhysicalType()) }
	logical := c.LogicalType()
	_, plain := logical.(schema.NoLogicalType)
	plain = plain || logical == nil
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return boolean, ""
	case parquet.Types.Float, parquet.Types.Double:
		return number, ""
	case parquet.Types.Int32, parquet.Types.Int64:
		if i, ok := logical.(schema.IntLogicalType); ok && !i.IsSigned() {
			return unsigned, ""
		} else if ok || plain {
			return whole64, ""
		}
	case parquet.Types.ByteArray:
		switch logical.(type) {
		case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
			return text, ""
		case schema.BSONLogicalType:
			return binary, ""
		}
		if plain {
			return binary, ""
		}
	case parquet.Types.FixedLenByteArray:
		switch logical.(type) {
		case schema.Float16LogicalType:
			return half, ""
		case schema.UUIDLogicalType:
			return binary, ""
		}
		if plain {
			return binary, ""
		}
	}
	return none()
}

// put puts a value into a row: numbers as scalars, bytes as a part, text as both.
func (c column) put(v any, r *foreign.Row) {
	switch v := v.(type) {
	case bool:
		r.Set(c.field, binfmt.Value{Kind: binfmt.Bool, Bool: v})
	case int32:
		c.putInt(int64(v), int64(uint32(v)), r)
	case int64:
		c.putInt(v, v, r)
	case float32:
		c.putFloat(float64(v), r)
	case float64:
		c.putFloat(v, r)
	case []byte:
		c.putBytes(v, r)
	}
}

// putInt takes a whole number: signed, or as the number without a sign that its bits are.
func (c column) putInt(signed, bits int64, r *foreign.Row) {
	if c.kind == unsigned {
		signed = bits
	}
	if c.kind == unsigned && signed < 0 { // beyond 2^63
		return
	}
	r.Set(c.field, binfmt.Value{Kind: binfmt.Int64, Int: signed})
}

func (c column) putFloat(f float64, r *foreign.Row) {
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		r.Set(c.field, binfmt.Value{Kind: binfmt.Float64, Float: f})
	}
}

func (c column) putBytes(b []byte, r *foreign.Row) {
	if c.kind == half {
		c.putFloat(float64(float16.FromLEBytes(b).Float32()), r)
		return
	}
	if b == nil {
		b = []byte{}
	}
	p := foreign.Part{Field: c.field, Data: b}
	p.Len = int64(len(b))
	if c.kind == text {
		p.Type = "text/plain"
		if len(b) <= binfmt.MaxText && utf8.Valid(b) {
			r.Set(c.field, binfmt.Value{Kind: binfmt.UTF8, Str: string(b)})
		}
	}
	r.Parts = append(r.Parts, p)
}

// cell gives the values of a column, one by one. A value is good until the next.
type cell interface {
	// next returns the next value; false if it is null.
	next() (any, bool, error)
	// more tells whether there is another.
	more() bool
}

// cellOf returns the values of a chunk of a column.
func cellOf(r file.ColumnChunkReader) cell {
	switch r := r.(type) {
	case *file.BooleanColumnChunkReader:
		return &cells[bool]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v bool) any { return v }}
	case *file.Int32ColumnChunkReader:
		return &cells[int32]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v int32) any { return v }}
	case *file.Int64ColumnChunkReader:
		return &cells[int64]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v int64) any { return v }}
	case *file.Float32ColumnChunkReader:
		return &cells[float32]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v float32) any { return v }}
	case *file.Float64ColumnChunkReader:
		return &cells[float64]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v float64) any { return v }}
	case *file.ByteArrayColumnChunkReader:
		return &cells[parquet.ByteArray]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v parquet.ByteArray) any { return []byte(v) }}
	case *file.FixedLenByteArrayColumnChunkReader:
		return &cells[parquet.FixedLenByteArray]{ColumnChunkReader: r, read: r.ReadBatchInPage, as: func(v parquet.FixedLenByteArray) any { return []byte(v) }}
	}
	return unknown{}
}

// cells reads values of one physical type.
type cells[T any] struct {
	file.ColumnChunkReader
	read   func(n int64, values []T, def, rep []int16) (rows int64, read int, err error)
	as     func(T) any
	values [1]T
	def    [1]int16
}

func (c *cells[T]) next() (any, bool, error) {
	rows, n, err := c.read(1, c.values[:], c.def[:], nil)
	if err == nil && rows != 1 {
		err = errors.Join(errors.New("the column ends before the rows of its group do"), c.Err())
	}
	if err != nil || n == 0 {
		return nil, false, err
	}
	return c.as(c.values[0]), true, nil
}

func (c *cells[T]) more() bool { return c.HasNext() }

// unknown is a column of a type that kindOf refuses.
type unknown struct{}

func (unknown) next() (any, bool, error) {
	return nil, false, errors.New("a physical type that is not known")
}
func (unknown) more() bool { return false }
