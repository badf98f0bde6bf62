package litdata

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// maxText is the longest text that becomes a scalar, in bytes: a name, a class or a caption. Longer text is data.
const maxText = 1024

// leaf is one value of an item, and how it is serialised.
type leaf struct {
	field  string
	format string
	known  bool
	unused bool
	typ    string // media type where the content tells none
}

// leafOf tells a leaf by its name and serialiser. What is carried are its bytes: files as they were, arrays with the head that LitData
// gives them.
func leafOf(name, format string) leaf {
	l := leaf{field: foreign.FieldName(name), format: format}
	l.format, _, _ = strings.Cut(format, ":") // behind it, the end of a file's name or the type of an array's numbers
	switch l.format {
	case "str", "text":
		l.known, l.typ = true, "text/plain"
	case "int", "float", "bool", // scalars
		"bytes", "jpeg", "image", "video", "audio", "pdf", "tifffile", "tiff", "file", // as they were
		"pil", "numpy", "tensor", "no_header_numpy", "no_header_tensor", "jpeg_array": // with LitData's own head, or none
		l.known = true
	}
	return l
}

// isScalar tells whether a leaf of that many bytes may be a scalar.
func (l leaf) isScalar(size int64) bool {
	switch l.format {
	case "int", "float":
		return size == 8
	case "bool":
		return size == 1
	case "str", "text":
		return size <= maxText
	}
	return false
}

// value reads a scalar; false if it is none that an index can hold.
func (l leaf) value(b []byte) (binfmt.Value, bool) {
	switch l.format {
	case "int":
		return binfmt.Value{Kind: binfmt.Int64, Int: int64(binary.LittleEndian.Uint64(b))}, true
	case "float":
		f := math.Float64frombits(binary.LittleEndian.Uint64(b))
		return binfmt.Value{Kind: binfmt.Float64, Float: f}, !math.IsNaN(f) && !math.IsInf(f, 0)
	case "bool":
		return binfmt.Value{Kind: binfmt.Bool, Bool: b[0] != 0}, b[0] <= 1
	}
	return binfmt.Value{Kind: binfmt.UTF8, Str: string(b)}, utf8.Valid(b)
}
