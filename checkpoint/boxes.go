package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store"
)

// Box is a part of a tensor's chunk that shall be in memory: all of it, or what a rank needs that has another part of the tensor
// than the one that saved it.
type Box struct {
	// Name and Dtype are those of the tensor.
	Name, Dtype string
	// Chunk is where it lies; its Offsets do not count.
	Chunk
	// At and Shape place the box in the chunk.
	At, Shape []int64
	// Dst gets its elements in C order without gaps, little-endian. The memory of two boxes does not overlap.
	Dst []byte
}

// boxLimits say what is read how.
type boxLimits struct {
	// whole is the length up to which an item is read as it is, into memory of ours, and its elements copied from there. Of longer
	// ones the beginning is read first, and then the elements to where they are wanted: that costs a round trip more. So it is done
	// with those longer than small of which less than half is wanted.
	whole, small int64
	// window bytes are read at a time into memory of ours.
	window int64
	// run is the length in bytes of runs that are worth a place of their own among what is read; shorter ones are read together with
	// what is between them, into memory of ours.
	run int64
}

var usualLimits = boxLimits{whole: 8 << 20, small: ranges.Small, window: 48 << 20, run: 4 << 10}

// opener may wrap a file that was opened; nil wraps none.
type opener = func(file int, f store.File) store.File

// ReadBoxes fills the memory of all boxes with few large reads, whatever the layout. Files are read in the version in which the
// checkpoint was opened, else the error matches store.ErrIdentity. open, if it is not nil, may wrap each file that is opened.
//
// An item is checked to describe the tensor that its metadata does, and its CRC-32 where it is read whole: what does not fit
// matches ErrFormat and names file, byte and tensor. Items that only torch can build (sparse, quantised, ...) are left out and their
// places returned. A part that lies in a file that is missing or cut matches ErrIncomplete. After an error what the memory holds
// is undefined; it is the caller's again when ReadBoxes returns, which is soon after ctx ends.
func (c *Checkpoint) ReadBoxes(ctx context.Context, boxes []Box, open func(file int, f store.File) store.File) (torch []int, err error) {
	return c.readBoxes(ctx, boxes, open, usualLimits)
}

func (c *Checkpoint) readBoxes(ctx context.Context, boxes []Box, open opener, limits boxLimits) (torch []int, err error) {
	for i := range boxes {
		if err := c.checkBox(&boxes[i]); err != nil {
			return nil, err
		}
	}
	order := make([]int, 0, len(boxes))
	for i, b := range boxes {
		if len(b.Dst) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(boxes[a].File, boxes[b].File), cmp.Compare(boxes[a].Off, boxes[b].Off))
	})
	err = c.eachGroup(ctx, len(order), func(k int) int { return boxes[order[k]].File }, open, func(files []ranges.File, slots map[int]int, from, to int) error {
		g := &boxReader{c: c, boxes: boxes, files: files, slots: slots, limits: limits}
		return g.read(ctx, order[from:to], &torch)
	})
	slices.Sort(torch)
	return torch, err
}

// ReadFiles fills the memory of all wants, whose File is an index of Files, as ReadBoxes does.
func (c *Checkpoint) ReadFiles(ctx context.Context, wants []ranges.Want, open func(file int, f store.File) store.File) error {
	sorted := slices.Clone(wants)
	for _, w := range sorted {
		if w.File < 0 || w.File >= len(c.Files) {
			return fmt.Errorf("checkpoint %s: file %d of %d: %w", c.URL(), w.File, len(c.Files), store.ErrRange)
		}
	}
	slices.SortStableFunc(sorted, func(a, b ranges.Want) int { return cmp.Compare(a.File, b.File) })
	return c.eachGroup(ctx, len(sorted), func(k int) int { return sorted[k].File }, open, func(files []ranges.File, slots map[int]int, from, to int) error {
		some := slices.Clone(sorted[from:to])
		for i := range some {
			some[i].File = slots[some[i].File]
		}
		_, err := ranges.Read(ctx, files, some, ranges.Options{})
		return err
	})
}

// eachGroup opens the files of n things that are sorted by file, a bounded number at a time, and calls use with the things of
// those files: slots has the places of files' numbers in files.
func (c *Checkpoint) eachGroup(ctx context.Context, n int, fileOf func(int) int, open opener, use func(files []ranges.File, slots map[int]int, from, to int) error) error {
	var numbers []int
	for k := range n {
		if f := fileOf(k); len(numbers) == 0 || numbers[len(numbers)-1] != f {
			numbers = append(numbers, f)
		}
	}
	at := 0
	return c.withFiles(ctx, numbers, func(first int, opened []store.File) error {
		files, slots := make([]ranges.File, len(opened)), make(map[int]int, len(opened))
		for k, f := range opened {
			number := numbers[first+k]
			if open != nil {
				f = open(number, f)
			}
			files[k], slots[number] = ranges.File{Name: c.at(c.Files[number]), File: f}, k
		}
		from := at
		for at < n {
			if _, ok := slots[fileOf(at)]; !ok {
				break
			}
			at++
		}
		return use(files, slots, from, at)
	})
}

// checkBox refuses a box that its chunk or its memory does not hold.
func (c *Checkpoint) checkBox(b *Box) error {
	if b.File < 0 || b.File >= len(c.Files) || b.Off > c.Files[b.File].Size-b.Len {
		return fmt.Errorf("checkpoint %s: a part of tensor %.200q lies in a file that is missing or cut: %w", c.URL(), b.Name, ErrIncomplete)
	}
	bits, ok := ElementBits(b.Dtype)
	if !ok {
		return fmt.Errorf("checkpoint %s: tensor %.200q is of %s, which cannot be measured: %w", c.URL(), b.Name, b.Dtype, ErrUnsupported)
	}
	if len(b.At) != len(b.Sizes) || len(b.Shape) != len(b.Sizes) {
		return fmt.Errorf("checkpoint %s: tensor %.200q: a box at %v of %v in a chunk of %v: %w", c.URL(), b.Name, b.At, b.Shape, b.Sizes, store.ErrRange)
	}
	n, whole := int64(1), true
	for d := range b.Sizes {
		if b.At[d] < 0 || b.Shape[d] < 0 || b.Shape[d] > b.Sizes[d]-b.At[d] {
			return fmt.Errorf("checkpoint %s: tensor %.200q: a box at %v of %v in a chunk of %v: %w", c.URL(), b.Name, b.At, b.Shape, b.Sizes, store.ErrRange)
		}
		n *= b.Shape[d]
		whole = whole && b.Shape[d] == b.Sizes[d]
	}
	if bits%8 != 0 && !whole {
		return fmt.Errorf("checkpoint %s: tensor %.200q of %s is read whole or not at all: %w", c.URL(), b.Name, b.Dtype, ErrUnsupported)
	}
	if int64(len(b.Dst))*8 != n*bits || !b.Item && whole && int64(len(b.Dst)) != b.Len {
		return fmt.Errorf("checkpoint %s: tensor %.200q: a box of %v of %s in %d bytes of memory, from %d: %w", c.URL(), b.Name, b.Shape, b.Dtype, len(b.Dst), b.Len, store.ErrRange)
	}
	return nil
}

// boxReader reads boxes whose files are open.
type boxReader struct {
	c      *Checkpoint
	boxes  []Box
	files  []ranges.File
	slots  map[int]int
	limits boxLimits

	mu    sync.Mutex
	torch []int // boxes that only torch can read
}

// stretch is a part of a file that goes through memory of ours.
type stretch struct {
	box    int
	off, n int64
	// strides are those of the elements in the stretch, and shape and dst the part of the box that it has; nil of an item that is
	// read whole.
	strides, shape []int64
	dst            []byte
}

// tail is what follows the storage of a box that is read in place.
type tail struct {
	box  int
	item *dcp.Item
	buf  []byte
}

// read reads boxes, and adds to torch those that it cannot.
func (g *boxReader) read(ctx context.Context, order []int, torch *[]int) error {
	direct, stretches, heads := g.sort(order)
	wants, tails, more, err := g.place(ctx, heads, direct)
	if err != nil {
		return err
	}
	if err := g.readAll(ctx, wants, tails, cut(append(stretches, more...), g.limits.window)); err != nil {
		return err
	}
	*torch = append(*torch, g.torch...)
	return nil
}

// sort tells boxes that lie in the file as they are from items that are read whole, and from items whose beginning is read first.
func (g *boxReader) sort(order []int) (direct []int, stretches []stretch, heads []int) {
	for _, i := range order {
		b := &g.boxes[i]
		switch part := b.Len > g.limits.small && int64(len(b.Dst)) < b.Len/2; {
		case !b.Item:
			direct = append(direct, i)
		case b.Len > g.limits.whole || part:
			heads = append(heads, i)
		default:
			stretches = append(stretches, stretch{box: i, off: b.Off, n: b.Len})
		}
	}
	return direct, stretches, heads
}

// place finds out where the elements of boxes lie, and what is to be read where.
func (g *boxReader) place(ctx context.Context, heads, direct []int) (wants []ranges.Want, tails []tail, stretches []stretch, err error) {
	items, err := g.readHeads(ctx, heads)
	if err != nil {
		return nil, nil, nil, err
	}
	for k, i := range heads {
		if it := items[k]; it != nil {
			b := &g.boxes[i]
			wants, stretches = g.spread(i, b.Off+it.Off, it.Strides, wants, stretches)
			if len(b.Dst) == int(it.StorageLen) && it.Off == it.StorageOff && it.Contiguous() {
				t := tail{box: i, item: it, buf: make([]byte, max(0, min(dcp.BehindBytes, b.Len-it.StorageOff-it.StorageLen)))}
				tails = append(tails, t)
				wants = append(wants, ranges.Want{File: g.slots[b.File], Off: b.Off + it.StorageOff + it.StorageLen, Dst: t.buf})
			}
		}
	}
	for _, i := range direct {
		wants, stretches = g.spread(i, g.boxes[i].Off, cOrder(g.boxes[i].Sizes), wants, stretches)
	}
	return wants, tails, stretches, nil
}

// readHeads reads the beginning of items and returns what they are; nil of one that only torch can build.
func (g *boxReader) readHeads(ctx context.Context, heads []int) ([]*dcp.Item, error) {
	items := make([]*dcp.Item, len(heads))
	todo := make([]int, len(heads))
	for k := range todo {
		todo[k] = k
	}
	for size := int64(dcp.HeadBytes); len(todo) > 0; size *= 16 {
		wants := make([]ranges.Want, len(todo))
		for n, k := range todo {
			b := &g.boxes[heads[k]]
			wants[n] = ranges.Want{File: g.slots[b.File], Off: b.Off, Dst: make([]byte, min(size, b.Len))}
		}
		if _, err := ranges.Read(ctx, g.files, wants, ranges.Options{}); err != nil {
			return nil, err
		}
		var longer []int
		for n, k := range todo {
			b := &g.boxes[heads[k]]
			it, err := dcp.ParseHead(wants[n].Dst, b.Len)
			if errors.Is(err, io.ErrUnexpectedEOF) && size < b.Len {
				longer = append(longer, k)
				continue
			}
			if items[k], err = g.accept(heads[k], it, err); err != nil {
				return nil, err
			}
		}
		todo = longer
	}
	return items, nil
}

// accept compares an item with the metadata. Of one that only torch can build it notes the box.
func (g *boxReader) accept(box int, it *dcp.Item, err error) (*dcp.Item, error) {
	b := &g.boxes[box]
	where := fmt.Sprintf("%s, byte %d, tensor %.200q", g.c.at(g.c.Files[b.File]), b.Off, b.Name)
	switch {
	case errors.Is(err, dcp.ErrUnsupported):
		g.mu.Lock()
		g.torch = append(g.torch, box)
		g.mu.Unlock()
		return nil, nil
	case err != nil:
		return nil, wrap(where, err)
	}
	if wrong := mismatch(it, b.Dtype, &b.Chunk); wrong != "" {
		return nil, wrapFormat(where, "%s", wrong)
	}
	return it, nil
}

// spread adds what is to be read for a box whose chunk's elements begin at byte off of the file and have strides: long runs to where
// they are wanted, short ones in stretches.
func (g *boxReader) spread(box int, off int64, strides []int64, wants []ranges.Want, stretches []stretch) ([]ranges.Want, []stretch) {
	b := &g.boxes[box]
	bits, _ := ElementBits(b.Dtype)
	if bits%8 != 0 { // whole, without gaps
		return append(wants, ranges.Want{File: g.slots[b.File], Off: off, Dst: b.Dst}), stretches
	}
	width := bits / 8
	for d, at := range b.At {
		off += at * strides[d] * width
	}
	// The last dimensions whose elements follow each other in the file.
	run, d := int64(1), len(b.Shape)
	for d > 0 && (strides[d-1] == run || b.Shape[d-1] == 1) {
		d--
		run *= b.Shape[d]
	}
	if d > 0 && run*width < g.limits.run {
		return wants, g.split(stretch{box: box, off: off, strides: strides, shape: b.Shape, dst: b.Dst}, width, stretches)
	}
	outer, dst := b.Shape[:d], b.Dst
	eachIndex(outer, func(index []int64) {
		from := off
		for k, i := range index {
			from += i * strides[k] * width
		}
		wants = append(wants, ranges.Want{File: g.slots[b.File], Off: from, Dst: dst[:run*width]})
		dst = dst[run*width:]
	})
	return wants, stretches
}

// split cuts a part of a box along its first dimension so that what is read for each is not too much memory.
func (g *boxReader) split(p stretch, width int64, to []stretch) []stretch {
	span := int64(1)
	for d, n := range p.shape {
		span += (n - 1) * p.strides[d]
	}
	p.n = span * width
	if p.n <= g.limits.whole || p.shape[0] < 2 {
		return append(to, p)
	}
	half := p.shape[0] / 2
	first, second := p, p
	first.shape, second.shape = slices.Clone(p.shape), slices.Clone(p.shape)
	first.shape[0], second.shape[0] = half, p.shape[0]-half
	bytes := int64(len(p.dst)) / p.shape[0] * half
	first.dst, second.dst = p.dst[:bytes], p.dst[bytes:]
	second.off += half * p.strides[0] * width
	return g.split(second, width, g.split(first, width, to))
}

// eachIndex calls each with all indices of a box, the last dimension first. Of a box without dimensions there is one.
func eachIndex(shape []int64, each func([]int64)) {
	index := make([]int64, len(shape))
	if slices.Contains(shape, 0) {
		return
	}
	for {
		each(index)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}
