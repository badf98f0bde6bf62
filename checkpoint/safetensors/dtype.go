package safetensors

import "strings"

// Dtype is the type of a tensor's elements.
type Dtype uint8

// The element types of safetensors 0.8. The list is open: a later writer's type is an error that names it.
const (
	Bool Dtype = iota + 1
	F4
	F6E2M3
	F6E3M2
	U8
	I8
	F8E5M2
	F8E4M3
	F8E8M0
	F8E4M3FNUZ
	F8E5M2FNUZ
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	C64
	F64
	I64
	U64
)

var dtypes = [...]struct {
	name string
	bits uint8
}{
	Bool: {"BOOL", 8}, F4: {"F4", 4}, F6E2M3: {"F6_E2M3", 6}, F6E3M2: {"F6_E3M2", 6}, U8: {"U8", 8}, I8: {"I8", 8},
	F8E5M2: {"F8_E5M2", 8}, F8E4M3: {"F8_E4M3", 8}, F8E8M0: {"F8_E8M0", 8}, F8E4M3FNUZ: {"F8_E4M3FNUZ", 8},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 8}, I16: {"I16", 16}, U16: {"U16", 16}, F16: {"F16", 16}, BF16: {"BF16", 16},
	I32: {"I32", 32}, U32: {"U32", 32}, F32: {"F32", 32}, C64: {"C64", 64}, F64: {"F64", 64}, I64: {"I64", 64}, U64: {"U64", 64},
}

// String is the type's name in headers.
func (d Dtype) String() string {
	if d == 0 || int(d) >= len(dtypes) {
		return "invalid"
	}
	return dtypes[d].name
}

// Bits is the size of one element in bits; 0 of what is no type.
func (d Dtype) Bits() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return int(dtypes[d].bits)
}

// ParseDtype returns the type of a name in a header.
func ParseDtype(name string) (Dtype, bool) {
	for d := Bool; int(d) < len(dtypes); d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return 0, false
}

// dtypeNames lists all names, for a message.
func dtypeNames() string {
	var names []string
	for d := Bool; int(d) < len(dtypes); d++ {
		names = append(names, dtypes[d].name)
	}
	return strings.Join(names, ", ")
}
