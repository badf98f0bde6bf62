package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of a bbolt file, as far as it has to be trusted before it is mapped: bbolt ends the process where a page is not what it should be.
const (
	pageSize   = 4096
	pageHead   = 16
	elemSize   = 16
	bucketHead = 16
	magic      = 0xED0CDAED
	layout     = 2
	noFreelist = ^uint64(0)

	branchPage, leafPage, metaPage = 1, 2, 4
	bucketLeaf                     = 1
	mostDepth                      = 64
	mostPages                      = 1 << 26
)

var native = binary.NativeEndian

// image is a file that is read page by page.
type image struct {
	r    io.ReaderAt
	high uint64 // pages behind it are not used
	seen map[uint64]bool
	// each gets every key of a bucket; path are the names of the buckets around it.
	each func(bucket string, key, value []byte) error
}

// verify reads all that a file's newest state refers to, and calls each with the records in their order. Errors match ErrDamaged and name the page, or
// are those of r or each.
func verify(r io.ReaderAt, size int64, each func(bucket string, key, value []byte) error) error {
	if size < 2*pageSize {
		return fmt.Errorf("%w: it has %d bytes, at least %d: it was cut, or is not a journal", ErrDamaged, size, 2*pageSize)
	}
	m, err := newest(r)
	if err != nil {
		return err
	}
	if m.high > mostPages || int64(m.high)*pageSize > size {
		return fmt.Errorf("%w: it has %d bytes, and %d pages of %d: it was cut", ErrDamaged, size, m.high, pageSize)
	}
	if m.freelist != noFreelist {
		return fmt.Errorf("%w: it has a list of free pages, which a journal does not keep: another program wrote to it", ErrDamaged)
	}
	v := &image{r: r, high: m.high, seen: make(map[uint64]bool), each: each}
	return v.page(m.root, "", 0)
}

// meta is the state that a meta page describes.
type meta struct{ root, freelist, high, txid uint64 }

// newest reads both meta pages and returns the newer of those that are whole.
func newest(r io.ReaderAt) (meta, error) {
	var best meta
	found := false
	for i := range int64(2) {
		b := make([]byte, pageHead+64)
		if _, err := r.ReadAt(b, i*pageSize); err != nil {
			return best, fmt.Errorf("%w: meta page %d: %w", ErrDamaged, i, err)
		}
		m, ok := readMeta(b)
		if ok && (!found || m.txid > best.txid) {
			best, found = m, true
		}
	}
	if !found {
		return best, fmt.Errorf("%w: neither of its meta pages is whole", ErrDamaged)
	}
	return best, nil
}

func readMeta(page []byte) (meta, bool) {
	b := page[pageHead:]
	h := fnv.New64a()
	h.Write(b[:56])
	whole := native.Uint32(b) == magic && native.Uint32(b[4:]) == layout && native.Uint32(b[8:]) == pageSize && native.Uint64(b[56:]) == h.Sum64()
	return meta{root: native.Uint64(b[16:]), freelist: native.Uint64(b[32:]), high: native.Uint64(b[40:]), txid: native.Uint64(b[48:])},
		whole && native.Uint16(page[8:]) == metaPage
}

// page reads a page of a tree, and all below it.
func (v *image) page(id uint64, bucket string, depth int) error {
	if id < 2 || id >= v.high || depth > mostDepth {
		return fmt.Errorf("%w: page %d is referred to, of %d, at depth %d", ErrDamaged, id, v.high, depth)
	}
	h := make([]byte, pageHead)
	if _, err := v.r.ReadAt(h, int64(id)*pageSize); err != nil {
		return fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	more := uint64(native.Uint32(h[12:]))
	if own := native.Uint64(h); own != id || more >= v.high || id+more >= v.high {
		return fmt.Errorf("%w: page %d says that it is page %d with %d more, of %d", ErrDamaged, id, own, more, v.high)
	}
	for n := id; n <= id+more; n++ {
		if v.seen[n] {
			return fmt.Errorf("%w: page %d is referred to twice", ErrDamaged, n)
		}
		v.seen[n] = true
	}
	b := make([]byte, (1+more)*pageSize)
	if _, err := v.r.ReadAt(b, int64(id)*pageSize); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	return v.elements(b, fmt.Sprintf("page %d", id), bucket, depth)
}

// elements reads what a page, or the page inside of a small bucket, lists.
func (v *image) elements(b []byte, at, bucket string, depth int) error {
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage || pageHead+count*elemSize > len(b) || flags == branchPage && count == 0 {
		return fmt.Errorf("%w: %s has %d elements and flags %#x", ErrDamaged, at, count, flags)
	}
	var last []byte
	for i := range count {
		e := pageHead + i*elemSize
		if flags == branchPage {
			key, ok := piece(b, e, native.Uint32(b[e:]), native.Uint32(b[e+4:]))
			if !ok || i > 0 && bytes.Compare(last, key) >= 0 {
				return fmt.Errorf("%w: %s: element %d", ErrDamaged, at, i)
			}
			last = key
			if err := v.page(native.Uint64(b[e+8:]), bucket, depth+1); err != nil {
				return err
			}
			continue
		}
		key, ok := piece(b, e, native.Uint32(b[e+4:]), native.Uint32(b[e+8:]))
		var value []byte
		if ok {
			value, ok = piece(b, e, native.Uint32(b[e+4:])+native.Uint32(b[e+8:]), native.Uint32(b[e+12:]))
		}
		if kind := native.Uint32(b[e:]); !ok || kind > bucketLeaf || i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%w: %s: element %d", ErrDamaged, at, i)
		} else if err := v.leaf(kind, bucket, key, value, depth); err != nil {
			return err
		}
		last = key
	}
	return nil
}

// piece is so many bytes from an element's position on.
func piece(b []byte, elem int, pos, n uint32) ([]byte, bool) {
	from := uint64(elem) + uint64(pos)
	if from+uint64(n) > uint64(len(b)) {
		return nil, false
	}
	return b[from : from+uint64(n)], true
}

// leaf reads a key, or the bucket that it names.
func (v *image) leaf(kind uint32, bucket string, key, value []byte, depth int) error {
	if kind != bucketLeaf {
		if bucket == "" {
			return fmt.Errorf("%w: a key outside of all buckets", ErrDamaged)
		}
		return v.each(bucket, key, value)
	}
	if bucket != "" || len(value) < bucketHead {
		return fmt.Errorf("%w: a bucket inside of bucket %q", ErrDamaged, bucket)
	}
	if root := native.Uint64(value); root != 0 {
		return v.page(root, string(key), depth+1)
	}
	if len(value) < bucketHead+pageHead {
		return fmt.Errorf("%w: bucket %q has no page", ErrDamaged, key)
	}
	inline := value[bucketHead:]
	if native.Uint16(inline[8:]) != leafPage {
		return fmt.Errorf("%w: bucket %q has a page with flags %#x", ErrDamaged, key, native.Uint16(inline[8:]))
	}
	return v.elements(inline, fmt.Sprintf("bucket %q", key), string(key), depth+1)
}
