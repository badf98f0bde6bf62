package loader

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/sampler"
)

// Batch is a rank's part of one step. It belongs to the caller until Release.
type Batch struct {
	// Step counts through all epochs from 0; Epoch is the one it belongs to.
	Step, Epoch int64
	// Fields in the order of the manifest, or of TokenOptions.
	Fields []FieldData
	// Samples are those delivered, in order: a bad one's place holds its substitute.
	Samples []sampler.SampleRef
	// Stats says what this step cost.
	Stats StepStats

	records []byte   // proof records, ready to be written
	origins []origin // of the parts that an agent owns, for the ledger
	release func()
	done    atomic.Bool

	releaseStored func() // of what fields of bytes hold; nil without such fields
	doneStored    atomic.Bool
}

// origin is how a part that agents might have prepared was obtained.
type origin struct {
	node   string
	reason fetch.Reason // "" for a prepared one
	lead   time.Duration
}

// Release gives the batch's memory back. Until then it is never reused, whatever the Loader does,
// Close included; afterwards the fields must not be touched. A second call does nothing. It may be
// called from any goroutine.
func (b *Batch) Release() {
	if !b.done.Swap(true) && b.release != nil {
		b.release()
	}
	b.ReleaseStored()
}

// ReleaseStored gives back the memory of fields of bytes alone, which may be large, for callers that copied them; the other
// fields stay. Like Release it may be called from any goroutine, and a second call does nothing.
func (b *Batch) ReleaseStored() {
	if !b.doneStored.Swap(true) && b.releaseStored != nil {
		b.releaseStored()
	}
}

// FieldData is one field of all samples of a Batch.
type FieldData struct {
	Name string
	// Dtype is a NumPy name: "uint8", "float32", "float16", "bfloat16", "int32", "int64", "float64", "bool",
	// "str" for text, which lies in Strings, or "bytes" for parts as they are stored, between Offsets.
	Dtype string
	// Shape is the logical shape, the batch first: [N, C, H, W] for images, [N] for scalars.
	Shape []int
	// Strides of Shape, in elements.
	Strides []int
	// Bytes is the memory of the batch, little-endian, aligned to 64 bytes, outside the Go heap.
	Bytes []byte
	// Strings are the values of a text field; Bytes is nil then.
	Strings []string
	// Offsets are where the parts of a field of bytes lie in Bytes, one behind the other: that of sample i is
	// Bytes[Offsets[i]:Offsets[i+1]]. nil for other fields.
	Offsets []int64
}

// Addr is the address of Bytes; it stays valid until the batch is released. 0 for text.
func (f *FieldData) Addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(f.Bytes))) }

// Stored returns the part of sample i of a field of bytes, in the batch's memory.
func (f *FieldData) Stored(i int) []byte {
	from, to := f.Offsets[i], f.Offsets[i+1]
	return f.Bytes[from:to:to]
}

// The dtypes of scalar fields, and of parts that are delivered as they are stored; those of media are transform's.
const (
	dtypeStored  = "bytes"
	dtypeInt64   = "int64"
	dtypeFloat64 = "float64"
	dtypeBool    = "bool"
	dtypeText    = "str"
)

// logical returns the shape and strides, in elements, of n samples of physical shape hwc: channels
// move in front of height and width, and lie last in memory unless contiguous.
func logical(n int, hwc []int, contiguous bool) (shape, strides []int) {
	shape = append([]int{n}, sampleShape(hwc)...)
	strides = make([]int, len(shape))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= shape[i]
	}
	if d := len(shape); !contiguous && d >= 4 {
		c, w := shape[d-3], shape[d-1]
		strides[d-3], strides[d-2], strides[d-1] = 1, w*c, c
	}
	return shape, strides
}

// sampleShape returns the logical shape of one sample of physical shape hwc: channels first.
func sampleShape(hwc []int) []int {
	d := len(hwc)
	if d < 3 {
		return hwc
	}
	shape := append([]int{}, hwc[:d-3]...)
	return append(shape, hwc[d-1], hwc[d-3], hwc[d-2])
}

// MemoryOrder returns a shape in the order in which memory with these strides has it, outermost axis first, and for each
// logical axis its place in that order; axes is nil where both orders are the same.
func MemoryOrder(shape, strides []int) (stored, axes []int) {
	order := make([]int, len(shape)) // logical axes from the outermost in memory
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strides[b] - strides[a] })
	stored, axes = make([]int, len(shape)), make([]int, len(shape))
	for at, axis := range order {
		stored[at], axes[axis] = shape[axis], at
	}
	if slices.IsSorted(axes) {
		return stored, nil
	}
	return stored, axes
}
