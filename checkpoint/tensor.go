package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/safetensors"
	"github.com/stepahead-io/stepahead/store"
)

// Lookup returns the tensor of a name.
func (c *Checkpoint) Lookup(name string) (*Tensor, bool) {
	i, ok := slices.BinarySearchFunc(c.Tensors, name, func(t Tensor, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &c.Tensors[i], true
}

// ElementBits is the size of an element in bits, whichever layout the dtype is of; false for a dtype that is not known.
func ElementBits(dtype string) (int64, bool) {
	if d, ok := safetensors.ParseDtype(dtype); ok {
		return int64(d.Bits()), true
	}
	n, ok := dcp.DtypeBytes(dtype)
	return n * 8, ok
}

// Bytes is the size of the tensor's elements; false if it cannot be told.
func (t *Tensor) Bytes() (int64, bool) {
	bits, ok := ElementBits(t.Dtype)
	if !ok {
		return 0, false
	}
	n := bits
	for _, d := range t.Shape {
		if d != 0 && n > (1<<62)/d {
			return 0, slices.Contains(t.Shape, 0)
		}
		n *= d
	}
	return n / 8, n%8 == 0
}

// Load reads a whole tensor into memory: its elements in C order, little-endian. Chunks that are missing match ErrIncomplete, other errors
// are those of ReadBoxes; a tensor that only torch can build matches ErrUnsupported.
func (c *Checkpoint) Load(ctx context.Context, t *Tensor) ([]byte, error) {
	size, ok := t.Bytes()
	if !ok {
		return nil, fmt.Errorf("checkpoint %s: tensor %.200q of %s %v cannot be measured: %w", c.URL(), t.Name, t.Dtype, t.Shape, ErrUnsupported)
	}
	held := int64(0)
	for _, ch := range t.Chunks {
		if ch.File < 0 || ch.Off > c.Files[ch.File].Size-ch.Len {
			return nil, fmt.Errorf("checkpoint %s: a part of tensor %.200q lies in a file that is missing or cut: %w", c.URL(), t.Name, ErrIncomplete)
		}
		held += ch.Len
	}
	if held < size { // before memory is taken for what a header only claims
		return nil, fmt.Errorf("checkpoint %s: tensor %.200q has %d bytes, its parts hold %d: %w", c.URL(), t.Name, size, held, ErrIncomplete)
	}
	if err := room(size); err != nil {
		return nil, fmt.Errorf("checkpoint %s: tensor %.200q: %w", c.URL(), t.Name, err)
	}
	whole := make([]byte, size)
	for i := range t.Chunks {
		if err := c.loadChunk(ctx, t, &t.Chunks[i], whole); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// room says whether there is memory for a tensor, before Go takes it and ends the program if there is none: a file with holes can claim any length.
func room(n int64) error {
	const large = 1 << 30
	if n < large {
		return nil
	}
	m, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("no memory for its %d bytes: %w", n, err)
	}
	return syscall.Munmap(m)
}

// loadChunk reads a chunk to its place in the whole tensor.
func (c *Checkpoint) loadChunk(ctx context.Context, t *Tensor, ch *Chunk, whole []byte) error {
	bits, _ := ElementBits(t.Dtype)
	dst, part := whole, !slices.Equal(ch.Sizes, t.Shape)
	if part {
		if bits%8 != 0 {
			return fmt.Errorf("checkpoint %s: tensor %.200q is in parts of %s, which has no whole bytes: %w", c.URL(), t.Name, t.Dtype, ErrUnsupported)
		}
		n, _ := (&Tensor{Dtype: t.Dtype, Shape: ch.Sizes}).Bytes() // no more than whole has
		dst = make([]byte, n)
	}
	box := Box{Name: t.Name, Dtype: t.Dtype, Chunk: *ch, At: make([]int64, len(ch.Sizes)), Shape: ch.Sizes, Dst: dst}
	torch, err := c.ReadBoxes(ctx, []Box{box}, nil)
	switch {
	case err != nil:
		return err
	case len(torch) > 0:
		return fmt.Errorf("checkpoint %s: tensor %.200q is of a kind that only torch can build: %w", c.URL(), t.Name, ErrUnsupported)
	case part:
		scatter(whole, cOrder(t.Shape), dst, cOrder(ch.Sizes), ch, bits/8)
	}
	return nil
}

// cOrder are the strides, in elements, of a box without gaps.
func cOrder(sizes []int64) []int64 {
	strides := make([]int64, len(sizes))
	n := int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d] = n
		n *= sizes[d]
	}
	return strides
}

// scatter copies the elements of a chunk, run by run.
func scatter(whole []byte, to []int64, data []byte, from []int64, ch *Chunk, width int64) {
	if slices.Contains(ch.Sizes, 0) {
		return
	}
	last := len(ch.Sizes) - 1
	run := int64(1) // elements that follow each other in both
	if last >= 0 && from[last] == 1 && to[last] == 1 {
		run = ch.Sizes[last]
	}
	at := make([]int64, len(ch.Sizes))
	for {
		src, dst := int64(0), int64(0)
		for d := range at {
			src += at[d] * from[d]
			dst += (at[d] + ch.Offsets[d]) * to[d]
		}
		copy(whole[dst*width:(dst+run)*width], data[src*width:(src+run)*width])
		d := last
		step := run
		for ; d >= 0; d-- {
			if at[d] += step; at[d] < ch.Sizes[d] {
				break
			}
			at[d], step = 0, 1
		}
		if d < 0 {
			return
		}
	}
}

// mismatch says in what an item differs from what the metadata says of a chunk; "" if in nothing.
func mismatch(it *dcp.Item, dtype string, ch *Chunk) string {
	if it.Dtype == dtype && slices.Equal(it.Shape, ch.Sizes) && !it.BigEndian {
		return ""
	}
	order := ""
	if it.BigEndian {
		order = " big-endian"
	}
	return fmt.Sprintf("the file holds %s %v%s, the metadata says %s %v: the file is of another save", it.Dtype, it.Shape, order, dtype, ch.Sizes)
}

// LoadBlob reads a value that is not a tensor, as it was saved.
func (c *Checkpoint) LoadBlob(ctx context.Context, b *Blob) ([]byte, error) {
	if b.File < 0 || b.Off > c.Files[b.File].Size-b.Len {
		return nil, fmt.Errorf("checkpoint %s: %.200q lies in a file that is missing or cut: %w", c.URL(), b.Name, ErrIncomplete)
	}
	f, err := c.OpenFile(ctx, b.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, b.Len)
	return data, f.ReadRanges(ctx, []store.Range{{Off: b.Off, Buf: data}})
}
