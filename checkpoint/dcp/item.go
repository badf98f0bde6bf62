package dcp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/stepahead-io/stepahead/checkpoint/dcp/pickle"
)

// HeadBytes is how much of an item ParseHead needs of what torch writes, in every case known.
const HeadBytes = 4 << 10

// Item is a tensor in an item of a .distcp file, which is a zip file as torch.save writes it. Offsets are relative to the item.
type Item struct {
	// Dtype is torch's name without the module.
	Dtype          string
	Shape, Strides []int64
	// Off and Len are the bytes that the tensor's elements span. Without gaps (Contiguous) they are the tensor in C order.
	Off, Len int64
	// BigEndian is the order of bytes within an element.
	BigEndian bool
	// StorageOff and StorageLen are all bytes of the storage that the tensor is a view of.
	StorageOff, StorageLen int64
}

// Contiguous tells whether the bytes are the tensor in C order, without gaps.
func (it *Item) Contiguous() bool {
	if slices.Contains(it.Shape, 0) {
		return true
	}
	want := int64(1)
	for i := len(it.Shape) - 1; i >= 0; i-- {
		if it.Shape[i] != 1 && it.Strides[i] != want {
			return false
		}
		want *= it.Shape[i]
	}
	return true
}

// ParseHead finds the tensor in an item of size bytes by its first bytes, so that the elements can be read straight to where
// they are wanted. If head is too short the error matches io.ErrUnexpectedEOF: call again with more. Its pickle is read as Decode
// reads one, with an allow-list of its own: a tensor of a kind that only torch can build (sparse, quantised, a subclass of
// another library) matches ErrUnsupported or ErrForbidden and is named.
func ParseHead(head []byte, size int64) (*Item, error) {
	z := zipWalker{data: head, size: size}
	first, err := z.entry()
	if err != nil {
		return nil, err
	}
	if first.base != "data.pkl" {
		return nil, formatf("an item that begins with %q, and torch.save begins with data.pkl", clip(first.base))
	}
	v, n, err := pickle.LoadPrefix(head[first.off:], pickle.Options{Class: itemClass, Persistent: storageOf})
	if err != nil {
		return nil, itemError(err)
	}
	t, ok := v.(*view)
	if !ok {
		return nil, formatf("an item whose data.pkl holds no tensor")
	}
	it, err := t.item()
	if err != nil {
		return nil, err
	}
	if err := z.skip(first, int64(n)); err != nil {
		return nil, err
	}
	return it, z.storage(it, t.storage)
}

// ParseItem is ParseHead for a whole item, and compares the size that its zip file says of the storage.
func ParseItem(item []byte) (*Item, error) {
	it, err := ParseHead(item, int64(len(item)))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, formatf("the item is cut: %w", err)
	}
	return it, err
}

func itemError(err error) error {
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrForbidden) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("dcp: data.pkl: %w", err)
	}
	return formatf("data.pkl: %w", err)
}

type (
	// storage is a torch storage that a pickle names.
	storage struct {
		key   string
		dtype string // "" of untyped ones
		bytes int64
	}
	// view is a tensor as a pickle describes it.
	view struct {
		storage       *storage
		dtype         string
		offset        int64
		shape, stride size
	}
)

// SetState implements pickle.State: the attributes of a parameter are not the tensor's.
func (v *view) SetState(any) error { return nil }

// item checks that a view lies in its storage.
func (v *view) item() (*Item, error) {
	width := dtypeBytes[v.dtype]
	if width == 0 {
		return nil, fmt.Errorf("dcp: a tensor of %s: %w", v.dtype, ErrUnsupported)
	}
	span, ok := elements(v.shape, v.stride)
	if !ok || v.offset > math.MaxInt64/width-span || (v.offset+span)*width > v.storage.bytes {
		return nil, formatf("a tensor of shape %s, strides %s and offset %d in a storage of %d bytes",
			clip(fmt.Sprint([]int64(v.shape))), clip(fmt.Sprint([]int64(v.stride))), v.offset, v.storage.bytes)
	}
	return &Item{
		Dtype: v.dtype, Shape: v.shape, Strides: v.stride, Off: v.offset * width, Len: span * width, StorageLen: v.storage.bytes,
	}, nil
}

// elements is the number of elements from the first of a tensor to its last; false if it cannot be counted.
func elements(shape, stride size) (int64, bool) {
	if slices.Contains(shape, 0) {
		return 0, true
	}
	span := int64(1)
	for i, n := range shape {
		hi, lo := bits.Mul64(uint64(n-1), uint64(stride[i]))
		if hi != 0 || lo > uint64(math.MaxInt64-span) {
			return 0, false
		}
		span += int64(lo)
	}
	return span, true
}
