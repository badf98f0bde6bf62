package transform

import "slices"

// Dtype is the element type of a tensor, by its NumPy name (bfloat16 by ml_dtypes' name).
type Dtype string

// The dtypes of tensors. Multi-byte elements are little-endian.
const (
	Uint8    Dtype = "uint8"
	Float32  Dtype = "float32"
	Float16  Dtype = "float16"
	BFloat16 Dtype = "bfloat16"
)

// Size returns the bytes of one element, 0 for an unknown dtype.
func (d Dtype) Size() int {
	switch d {
	case Uint8:
		return 1
	case Float16, BFloat16:
		return 2
	case Float32:
		return 4
	}
	return 0
}

// TensorSpec is the dtype and the physical shape of one sample: height, width, channels.
type TensorSpec struct {
	Dtype Dtype `json:"dtype"`
	Shape []int `json:"shape"`
}

// Bytes returns the size of the tensor in bytes.
func (t TensorSpec) Bytes() int64 {
	n := int64(t.Dtype.Size())
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Equal reports whether both name the same dtype and shape.
func (t TensorSpec) Equal(u TensorSpec) bool {
	return t.Dtype == u.Dtype && slices.Equal(t.Shape, u.Shape)
}
