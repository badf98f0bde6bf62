package loader

import "unsafe"

// widen writes the first elements of src to dst as int64, as many as dst holds, and returns the largest as a number
// without sign: a negative one is larger than all others.
func widen(dtype string, dst, src []byte) uint64 {
	switch dtype {
	case "uint8":
		return widenAs[uint8](dst, src)
	case "int8":
		return widenAs[int8](dst, src)
	case "uint16":
		return widenAs[uint16](dst, src)
	case "int16":
		return widenAs[int16](dst, src)
	case "int32":
		return widenAs[int32](dst, src)
	case "int64":
		return widenAs[int64](dst, src)
	}
	panic("loader: tokens of type " + dtype) // openTokenSource refuses it
}

// widenAs is widen for elements of type T. Batches and token files are little-endian, as are the processors that
// this program is built for (TestWiden checks it), so memory is read and written as what it is.
func widenAs[T uint8 | int8 | uint16 | int16 | int32 | int64](dst, src []byte) uint64 {
	n := len(dst) / 8
	if n == 0 {
		return 0
	}
	var zero T
	_ = src[n*int(unsafe.Sizeof(zero))-1] // too few tokens panic before memory is touched
	out := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(dst))), n)
	in := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(src))), n)
	var largest uint64
	for i, v := range in[:len(out)] {
		wide := uint64(int64(v))
		out[i] = wide
		largest = max(largest, wide)
	}
	return largest
}
