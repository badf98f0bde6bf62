// Package dense views the fields of a batch as tensors of gorgonia.
package dense

import (
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/stepahead-io/stepahead/loader"
)

// View returns a field of a batch as a tensor over the batch's memory: nothing is copied. Its shape is the
// field's; images in channels-last layout are a transposed view, which operations of gorgonia that need
// another layout copy by themselves. The tensor, and every view of it, must not be used once the batch is
// released, and writing to it writes to the batch. Text, bytes as they are stored, and the 16-bit floats that gorgonia does not have,
// are errors. View may be called concurrently.
func View(f *loader.FieldData) (*tensor.Dense, error) {
	data, err := elements(f)
	if err != nil {
		return nil, fmt.Errorf("dense.View: field %q: %w", f.Name, err)
	}
	stored, axes := loader.MemoryOrder(f.Shape, f.Strides)
	t := tensor.New(tensor.WithShape(stored...), tensor.WithBacking(data))
	if axes == nil {
		return t, nil
	}
	if err := t.T(axes...); err != nil {
		return nil, fmt.Errorf("dense.View: field %q: %w", f.Name, err)
	}
	return t, nil
}

// elements is the field's memory as a slice of what it holds.
func elements(f *loader.FieldData) (any, error) {
	switch f.Dtype {
	case "uint8":
		return f.Bytes, nil
	case "bool":
		return as[bool](f.Bytes), nil
	case "int32":
		return as[int32](f.Bytes), nil
	case "int64":
		return as[int64](f.Bytes), nil
	case "float32":
		return as[float32](f.Bytes), nil
	case "float64":
		return as[float64](f.Bytes), nil
	case "str":
		return nil, fmt.Errorf("text lies in Strings: it is no tensor")
	case "bytes":
		return nil, fmt.Errorf("parts as they are stored are no tensor: FieldData.Stored has them")
	}
	return nil, fmt.Errorf("dtype %s: gorgonia has none like it: end the plan with a cast to float32", f.Dtype)
}

// as views bytes as elements; a batch's memory is aligned for all of them.
func as[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}
