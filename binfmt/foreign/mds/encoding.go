package mds

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/binfmt"
)

// maxText is the longest text that becomes a scalar, in bytes: a name, a class or a caption. Longer text is data, which stays
// where it is.
const maxText = 1024

// encoding is what we know of a column's encoding.
type encoding struct {
	name  string
	width int64  // of a fixed scalar, in bytes
	text  bool   // of any length
	file  bool   // the values are, or may be, files of a media type
	typ   string // media type where the content tells none
}

// encodingOf tells an encoding by its name. What it does not know is bytes, as the sizes alone say where they are.
func encodingOf(name string) encoding {
	e := encoding{name: name}
	switch name {
	case "uint8", "int8":
		e.width = 1
	case "uint16", "int16", "float16":
		e.width = 2
	case "uint32", "int32", "float32":
		e.width = 4
	case "uint64", "int64", "float64", "int":
		e.width = 8
	case "str", "str_int", "str_float", "str_decimal":
		e.text, e.typ = true, "text/plain"
	case "json":
		e.typ = "application/json"
	case "jpeg", "png", "bytes":
		e.file = true
	}
	return e
}

// scalar tells whether a value of that many bytes may be a scalar. Mosaic's writer takes bytes for a column of any encoding
// as they are, so that their number may be any.
func (e encoding) scalar(size int64) bool {
	return e.width > 0 && size == e.width || e.text && size <= maxText
}

// value reads a scalar; false if it is none that an index can hold.
func (e encoding) value(b []byte) (binfmt.Value, bool) {
	switch e.name {
	case "int8":
		return whole(int64(int8(b[0]))), true
	case "uint8":
		return whole(int64(b[0])), true
	case "int16":
		return whole(int64(int16(binary.LittleEndian.Uint16(b)))), true
	case "uint16":
		return whole(int64(binary.LittleEndian.Uint16(b))), true
	case "int32":
		return whole(int64(int32(binary.LittleEndian.Uint32(b)))), true
	case "uint32":
		return whole(int64(binary.LittleEndian.Uint32(b))), true
	case "int", "int64":
		return whole(int64(binary.LittleEndian.Uint64(b))), true
	case "uint64":
		n := binary.LittleEndian.Uint64(b)
		return whole(int64(n)), n <= math.MaxInt64
	case "float16":
		return number(half(binary.LittleEndian.Uint16(b)))
	case "float32":
		return number(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case "float64":
		return number(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case "str_int":
		n, err := strconv.ParseInt(string(b), 10, 64)
		return whole(n), err == nil
	case "str_float":
		f, err := strconv.ParseFloat(string(b), 64)
		v, ok := number(f)
		return v, ok && err == nil
	}
	return binfmt.Value{Kind: binfmt.UTF8, Str: string(b)}, utf8.Valid(b)
}

func whole(n int64) binfmt.Value { return binfmt.Value{Kind: binfmt.Int64, Int: n} }

// number returns a value of a number that an index can hold.
func number(f float64) (binfmt.Value, bool) {
	return binfmt.Value{Kind: binfmt.Float64, Float: f}, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// half is the value of a float16.
func half(bits uint16) float64 {
	sign := 1.0
	if bits>>15 == 1 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
