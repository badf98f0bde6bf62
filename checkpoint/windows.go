package checkpoint

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/stepahead-io/stepahead/checkpoint/dcp"
	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store"
)

// windows are read at a time, so that one is under way while another ends.
const windows = 2

// cut makes windows of stretches.
func cut(stretches []stretch, window int64) [][]stretch {
	var out [][]stretch
	for len(stretches) > 0 {
		n, bytes := 0, int64(0)
		for n < len(stretches) && (n == 0 || bytes+stretches[n].n <= window) {
			bytes += stretches[n].n
			n++
		}
		out, stretches = append(out, stretches[:n]), stretches[n:]
	}
	return out
}

// readAll reads what goes to its place, and windows of what does not, at the same time.
func (g *boxReader) readAll(ctx context.Context, wants []ranges.Want, tails []tail, all [][]stretch) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan []stretch, len(all))
	for _, w := range all {
		work <- w
	}
	close(work)
	jobs := []func() error{func() error { return g.readDirect(ctx, wants, tails) }}
	for range min(windows, len(all)) {
		jobs = append(jobs, func() error {
			var memory []byte
			for w := range work {
				var err error
				if memory, err = g.readWindow(ctx, w, memory); err != nil {
					return err
				}
			}
			return nil
		})
	}
	results := make(chan error, len(jobs))
	for _, job := range jobs {
		go func() { results <- job() }()
	}
	var first error
	for range jobs {
		if err := <-results; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

func (g *boxReader) readDirect(ctx context.Context, wants []ranges.Want, tails []tail) error {
	if len(wants) == 0 {
		return nil
	}
	if _, err := ranges.Read(ctx, g.files, wants, ranges.Options{}); err != nil {
		return err
	}
	for _, t := range tails {
		if err := g.checkSum(t.box, t.item, g.boxes[t.box].Dst, t.buf); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// checkSum compares a storage with the CRC-32 that torch wrote behind it, if it wrote one.
func (g *boxReader) checkSum(box int, it *dcp.Item, storage, behind []byte) error {
	b := &g.boxes[box]
	where := fmt.Sprintf("%s, byte %d, tensor %.200q", g.c.at(g.c.Files[b.File]), b.Off, b.Name)
	want, ok, err := it.StorageCRC(behind)
	if err != nil {
		return wrap(where, err)
	}
	if got := crc32.ChecksumIEEE(storage); ok && got != want {
		return fmt.Errorf("checkpoint: %s: CRC-32 %08x, torch wrote %08x: %w", where, got, want, store.ErrCorrupt)
	}
	return nil
}

// readWindow reads stretches into memory and copies what is wanted of them. It returns the memory, to be used again.
func (g *boxReader) readWindow(ctx context.Context, stretches []stretch, memory []byte) ([]byte, error) {
	total := int64(0)
	for _, p := range stretches {
		total += p.n
	}
	if int64(len(memory)) < total {
		memory = make([]byte, max(total, min(g.limits.window, 2*total)))
	}
	wants, at := make([]ranges.Want, len(stretches)), int64(0)
	for k, p := range stretches {
		wants[k] = ranges.Want{File: g.slots[g.boxes[p.box].File], Off: p.off, Dst: memory[at : at+p.n : at+p.n]}
		at += p.n
	}
	if _, err := ranges.Read(ctx, g.files, wants, ranges.Options{}); err != nil {
		return memory, err
	}
	for k, p := range stretches {
		if err := g.deal(p, wants[k].Dst); err != nil {
			return memory, err
		}
		if err := ctx.Err(); err != nil {
			return memory, err
		}
	}
	return memory, nil
}

// deal copies what is wanted of a stretch.
func (g *boxReader) deal(p stretch, data []byte) error {
	b := &g.boxes[p.box]
	if p.strides != nil {
		bits, _ := ElementBits(b.Dtype)
		copyBox(p.dst, data, p.strides, p.shape, bits/8)
		return nil
	}
	it, err := dcp.ParseItem(data)
	if it, err = g.accept(p.box, it, err); it == nil || err != nil {
		return err
	}
	end := it.StorageOff + it.StorageLen
	if err := g.checkSum(p.box, it, data[it.StorageOff:end], data[end:min(end+dcp.BehindBytes, int64(len(data)))]); err != nil {
		return err
	}
	bits, _ := ElementBits(b.Dtype)
	from := it.Off
	for d, at := range b.At {
		from += at * it.Strides[d] * (bits / 8)
	}
	copyBox(b.Dst, data[from:], it.Strides, b.Shape, bits/8)
	return nil
}

// copyBox copies elements that have strides to memory without gaps.
func copyBox(dst, data []byte, strides, shape []int64, width int64) {
	if (&dcp.Item{Shape: shape, Strides: strides}).Contiguous() {
		copy(dst, data)
		return
	}
	scatter(dst, cOrder(shape), data, strides, &Chunk{Offsets: make([]int64, len(shape)), Sizes: shape}, width)
}
