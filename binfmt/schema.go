package binfmt

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// BatchRows is the number of rows of every record batch of an index but the last, so that a row is
// found by a division.
const BatchRows = 1 << 16

// Keys of the metadata in an index's schema.
const (
	metaFormat = "stepahead.format"
	metaUUID   = "stepahead.uuid"
)

const keyColumn = "key"

// width is how a column's values are stored.
type width int

const (
	varBytes width = 0 // utf8: 32-bit offsets, then text
	oneBit   width = 1
	bits32   width = 32
	bits64   width = 64
)

// column is one column that the format demands.
type column struct {
	name     string
	typ      arrow.DataType
	width    width
	nullable bool
}

// The columns of a media field F, in order: F.offset, F.length and so on.
const (
	colOffset = iota
	colLength
	colCRC
	colType
	colWidth
	colHeight
	colFrames
	colDuration
	colCost
	mediaColumns
	// In the index of a bin that is a folder, each media field has these too.
	colFile     = mediaColumns
	colIdentity = mediaColumns + 1
	fileColumns = mediaColumns + 2
)

func mediaColumn(i int) column {
	switch i {
	case colOffset:
		return column{"offset", arrow.PrimitiveTypes.Uint64, bits64, false}
	case colLength:
		return column{"length", arrow.PrimitiveTypes.Uint64, bits64, false}
	case colCRC:
		return column{"crc32c", arrow.PrimitiveTypes.Uint32, bits32, true}
	case colType:
		return column{"type", arrow.BinaryTypes.String, varBytes, false}
	case colWidth:
		return column{"width", arrow.PrimitiveTypes.Uint32, bits32, true}
	case colHeight:
		return column{"height", arrow.PrimitiveTypes.Uint32, bits32, true}
	case colFrames:
		return column{"frames", arrow.PrimitiveTypes.Uint32, bits32, true}
	case colDuration:
		return column{"duration_us", arrow.PrimitiveTypes.Uint64, bits64, true}
	case colFile:
		return column{"file", arrow.BinaryTypes.String, varBytes, false}
	case colIdentity:
		return column{"identity", arrow.BinaryTypes.String, varBytes, false}
	default:
		return column{"cost_us", arrow.PrimitiveTypes.Uint64, bits64, true}
	}
}

func scalarColumn(f Field) column {
	switch f.Kind {
	case Int64:
		return column{f.Name, arrow.PrimitiveTypes.Int64, bits64, false}
	case Float64:
		return column{f.Name, arrow.PrimitiveTypes.Float64, bits64, false}
	case Bool:
		return column{f.Name, arrow.FixedWidthTypes.Boolean, oneBit, false}
	default:
		return column{f.Name, arrow.BinaryTypes.String, varBytes, false}
	}
}

// layout is the columns of an index for a list of fields, and where each field starts in them.
type layout struct {
	fields  []Field
	columns []column
	first   map[string]int
	foreign bool
	files   bool // each part has a file of its own
}

// newLayout returns the layout of the index of a bin that is in a container, "" for one that was packed.
func newLayout(fields []Field, container string) layout {
	l := layout{fields: fields, first: make(map[string]int, len(fields)), foreign: container != "", files: container == Folder}
	perPart := mediaColumns
	if l.files {
		perPart = fileColumns
	}
	l.columns = append(l.columns, column{keyColumn, arrow.BinaryTypes.String, varBytes, false})
	for _, f := range fields {
		l.first[f.Name] = len(l.columns)
		if f.Kind != Media {
			l.columns = append(l.columns, scalarColumn(f))
			continue
		}
		for i := range perPart {
			c := mediaColumn(i)
			c.name = f.Name + "." + c.name
			l.columns = append(l.columns, c)
		}
	}
	return l
}

// schema returns the Arrow schema, which names the bin that the index belongs to.
func (l layout) schema(uuid string) *arrow.Schema {
	fields := make([]arrow.Field, len(l.columns))
	for i, c := range l.columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable}
	}
	format := Format
	if l.foreign {
		format = FormatForeign
	}
	meta := arrow.NewMetadata([]string{metaFormat, metaUUID}, []string{strconv.Itoa(format), uuid})
	return arrow.NewSchema(fields, &meta)
}
