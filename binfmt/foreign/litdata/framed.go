package litdata

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
)

// A chunk whose items are compressed in batches begins with a head: magic, version (u16), flags (u16), items, items of a batch, batches (each
// u32); then there are the offsets of the items in what was compressed, one more than items (u32), and a table of the batches: first item,
// items (u32), offset (u64) and length in the file, length of what was compressed (u32).
const (
	framedMagic   = "LDFZ01\x00\x00"
	framedHead    = 24
	framedEntry   = 24
	framedVersion = 1
)

// maxInflated bounds what is compressed at once, in bytes.
const maxInflated = 1 << 30

// frame is one batch.
type frame struct {
	first, items     int64
	off, size, plain int64
}

// framed gives the places of the items of such a chunk, batch by batch.
func (r *reader) framed(each func(begin, end int64) error) error {
	offsets, table, err := r.framedHead()
	if err != nil {
		return err
	}
	next := int64(0)
	for i := range len(table) / framedEntry {
		e := table[framedEntry*i:]
		u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(e[at:])) }
		f := frame{first: u32(0), items: u32(4), off: int64(binary.LittleEndian.Uint64(e[8:])), size: u32(16), plain: u32(20)}
		if f.first != next || f.items < 1 || f.items > r.chunk.Items-next {
			return fmt.Errorf("batch %d has %d items from %d on, want some of the %d from %d on: %w", i, f.items, f.first, r.chunk.Items-next, next, foreign.ErrContainer)
		}
		next += f.items
		begin, end := int64(offsets[f.first]), int64(offsets[next])
		if f.plain != end-begin {
			return fmt.Errorf("batch %d: %d bytes, its items have %d: %w", i, f.plain, end-begin, foreign.ErrContainer)
		}
		n, err := r.inflate(f.off, f.size, begin)
		if err == nil && n != f.plain {
			err = fmt.Errorf("it unpacks to %d bytes, want %d: %w", n, f.plain, foreign.ErrContainer)
		}
		if err != nil {
			return fmt.Errorf("batch %d at offset %d: %w", i, f.off, err)
		}
		for item := f.first; item < next; item++ {
			if err := each(int64(offsets[item]), int64(offsets[item+1])); err != nil {
				return err
			}
		}
	}
	if next != r.chunk.Items {
		return fmt.Errorf("the batches have %d items, the chunk %d: %w", next, r.chunk.Items, foreign.ErrContainer)
	}
	return nil
}

// framedHead reads what is before the batches.
func (r *reader) framedHead() (offsets []uint32, table []byte, err error) {
	size, n := r.f.Size(), r.chunk.Items
	bad := func(format string, args ...any) ([]uint32, []byte, error) {
		return nil, nil, fmt.Errorf("%w: %w", fmt.Errorf(format, args...), foreign.ErrContainer)
	}
	if size < framedHead+4*(n+1) {
		return bad("%d bytes, the head and the offsets of %d items have %d: the chunk is cut", size, n, framedHead+4*(n+1))
	}
	head := make([]byte, framedHead)
	if _, err := r.f.ReadAt(head, 0); err != nil {
		return nil, nil, err
	}
	items, batches := binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint32(head[20:])
	switch version, flags := binary.LittleEndian.Uint16(head[8:]), binary.LittleEndian.Uint16(head[10:]); {
	case string(head[:8]) != framedMagic:
		return bad("it begins with % x, which no chunk of compressed batches does", head[:8])
	case version != framedVersion || flags != 0:
		return bad("version %d, flags %d: this program reads version %d without flags", version, flags, framedVersion)
	case int64(items) != n:
		return bad("the chunk counts %d items, %s counts %d: they do not belong together", items, indexName, n)
	case int64(batches) > n || framedHead+4*(n+1)+framedEntry*int64(batches) > size:
		return bad("%d batches of %d items in %d bytes", batches, n, size)
	}
	rest := make([]byte, 4*(n+1)+framedEntry*int64(batches))
	if _, err := r.f.ReadAt(rest, framedHead); err != nil {
		return nil, nil, err
	}
	if offsets, err = ascending(rest[:4*(n+1)]); err == nil && offsets[0] != 0 {
		return bad("the first item begins at %d", offsets[0])
	}
	return offsets, rest[4*(n+1):], err
}

// inflate unpacks bytes of the file, and returns how many there are then. From here on they are those from base on.
func (r *reader) inflate(off, size, base int64) (int64, error) {
	if off < 0 || size > r.f.Size()-off {
		return 0, fmt.Errorf("%d bytes, outside the %d of the chunk: %w", size, r.f.Size(), foreign.ErrContainer)
	}
	if int64(cap(r.packed)) < size {
		r.packed = make([]byte, size)
	}
	if _, err := r.f.ReadAt(r.packed[:size], off); err != nil {
		return 0, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxInflated))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	plain, err := z.DecodeAll(r.packed[:size], r.inflated[:0])
	if err != nil {
		return 0, fmt.Errorf("unpacking it (Zstandard): %w: %w", err, foreign.ErrContainer)
	}
	if plain == nil {
		plain = []byte{}
	}
	r.inflated, r.base = plain, base
	return int64(len(plain)), nil
}
