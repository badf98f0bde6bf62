package binfmt

// Dtype is the type of the elements of a tokens field, by NumPy's name.
type Dtype string

// dtypeOf returns the type that a code of an .idx file stands for, "" if it stands for none.
func dtypeOf(code byte) Dtype {
	types := [...]Dtype{"", "uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"}
	if int(code) >= len(types) {
		return ""
	}
	return types[code]
}

// Size returns the bytes of one element, or 0 for a type that Megatron's format does not have.
func (d Dtype) Size() int64 {
	switch d {
	case "uint8", "int8":
		return 1
	case "uint16", "int16":
		return 2
	case "int32", "float32":
		return 4
	case "int64", "float64":
		return 8
	}
	return 0
}

// Integer tells whether the elements can be token ids.
func (d Dtype) Integer() bool { return d.Size() > 0 && d != "float32" && d != "float64" }
