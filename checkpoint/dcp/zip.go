package dcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// zipWalker goes through the entries of a zip file from its beginning. torch.save stores entries uncompressed and writes their
// sizes behind them, so that the place of a tensor's bytes is known without the directory at the end.
type zipWalker struct {
	data []byte // the beginning of the file
	size int64  // of the whole file
	pos  int64
	// folder is what the name of every entry begins with.
	folder string
}

// zipEntry is one entry: its name without the folder, and where its content begins.
type zipEntry struct {
	base string
	off  int64
	size int64
	tail bool // the size is written behind the content
}

const (
	localHeader = "PK\x03\x04"
	descriptor  = "PK\x07\x08"
	headerBytes = 30
	// maxSmall bounds the entries that may stand before the storage.
	maxSmall = 64
)

// more is the error of a head that is too short; of a file that is, it is what ParseItem says.
func (z *zipWalker) more(what string) error {
	if int64(len(z.data)) >= z.size {
		return formatf("the item ends in %s: it is cut", what)
	}
	return fmt.Errorf("dcp: %s lies behind the %d bytes given: %w", what, len(z.data), io.ErrUnexpectedEOF)
}

// rest returns n bytes at pos.
func (z *zipWalker) rest(n int64, what string) ([]byte, error) {
	if n > int64(len(z.data))-z.pos {
		return nil, z.more(what)
	}
	return z.data[z.pos : z.pos+n], nil
}

// entry reads the header of the entry at pos and goes to its content.
func (z *zipWalker) entry() (zipEntry, error) {
	h, err := z.rest(headerBytes, "the header of an entry")
	if err != nil {
		return zipEntry{}, err
	}
	if string(h[:4]) != localHeader {
		return zipEntry{}, formatf("byte %d of an item is no entry of a zip file", z.pos)
	}
	flags, method := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:])
	if method != 0 || flags&1 != 0 {
		return zipEntry{}, formatf("byte %d of an item is an entry that is compressed or encrypted, and torch.save stores them", z.pos)
	}
	e := zipEntry{size: int64(binary.LittleEndian.Uint32(h[22:])), tail: flags&8 != 0}
	name, extra := int64(binary.LittleEndian.Uint16(h[26:])), int64(binary.LittleEndian.Uint16(h[28:]))
	z.pos += headerBytes
	full, err := z.rest(name+extra, "the name of an entry")
	if err != nil {
		return zipEntry{}, err
	}
	folder, base, ok := strings.Cut(string(full[:name]), "/")
	if z.folder == "" {
		z.folder = folder
	}
	if !ok || folder != z.folder {
		return zipEntry{}, formatf("byte %d of an item is an entry %q outside of the folder of the others", z.pos, clip(string(full[:name])))
	}
	z.pos += name + extra
	e.base, e.off = base, z.pos
	return e, nil
}

// skip goes behind an entry of n bytes.
func (z *zipWalker) skip(e zipEntry, n int64) error {
	z.pos = e.off + n
	if !e.tail {
		if e.size != n {
			return formatf("the entry %q has %d bytes by its header, and %d by its content", e.base, e.size, n)
		}
		return nil
	}
	d, err := z.rest(maxDescriptor, "the size of an entry")
	if err != nil {
		return err
	}
	_, length, ok := readDescriptor(d, n)
	if !ok {
		return formatf("byte %d of an item is not the size of the entry %q, %d bytes", z.pos, clip(e.base), n)
	}
	z.pos += length
	return nil
}

// maxDescriptor is the length of what may stand behind an entry: signature, CRC, and two sizes of 4 or 8 bytes. Something
// always follows, so that it can be read whatever its length is.
const maxDescriptor = 24

// readDescriptor reads what stands behind an entry of n bytes: its CRC, and the length of the descriptor itself.
func readDescriptor(d []byte, n int64) (crc uint32, length int64, ok bool) {
	if len(d) < maxDescriptor || string(d[:4]) != descriptor {
		return 0, 0, false
	}
	crc = binary.LittleEndian.Uint32(d[4:])
	short := int64(binary.LittleEndian.Uint32(d[8:])) == n && int64(binary.LittleEndian.Uint32(d[12:])) == n
	long := int64(binary.LittleEndian.Uint64(d[8:])) == n && int64(binary.LittleEndian.Uint64(d[16:])) == n
	switch {
	case short && (!long || string(d[16:18]) == "PK"): // of nothing, both are zeros
		return crc, 16, true
	case long:
		return crc, 24, true
	}
	return 0, 0, false
}

// small reads an entry of which only the end says how long it is.
func (z *zipWalker) small(e zipEntry) ([]byte, error) {
	n := e.size
	if e.tail {
		limit := min(int64(len(z.data)), e.off+maxSmall+4)
		at := bytes.Index(z.data[e.off:limit], []byte(descriptor))
		if at < 0 && limit < e.off+maxSmall+4 {
			return nil, z.more("an entry")
		}
		n = int64(at)
	}
	if n < 0 || n > maxSmall {
		return nil, formatf("the entry %q stands before the storage and is longer than %d bytes", clip(e.base), maxSmall)
	}
	if _, err := z.rest(n, "an entry"); err != nil {
		return nil, err
	}
	return z.data[e.off : e.off+n], z.skip(e, n)
}

// storage finds the entry of a storage and completes the item.
func (z *zipWalker) storage(it *Item, s *storage) error {
	for {
		e, err := z.entry()
		if err != nil {
			return err
		}
		if e.base == "data/"+s.key {
			return z.place(it, e, s)
		}
		content, err := z.small(e)
		if err != nil {
			return err
		}
		if e.base == "byteorder" {
			switch string(content) {
			case "little", "big":
				it.BigEndian = string(content) == "big"
			default:
				return formatf("the byte order of an item is %q", content)
			}
		}
	}
}

// place checks that the storage lies in the item, and its size where the bytes behind it are given.
func (z *zipWalker) place(it *Item, e zipEntry, s *storage) error {
	if s.bytes > z.size-e.off || !e.tail && e.size != s.bytes {
		return formatf("a storage of %d bytes at byte %d of an item of %d", s.bytes, e.off, z.size)
	}
	it.StorageOff = e.off
	it.Off += e.off
	if int64(len(z.data)) < z.size {
		return nil
	}
	return z.skip(e, s.bytes)
}

// BehindBytes is how much StorageCRC needs of what follows a storage.
const BehindBytes = maxDescriptor

// StorageCRC returns the CRC-32 (IEEE) of the storage's bytes, from the BehindBytes bytes that follow them in the item; false if
// the writer computed none (torch.serialization.config.save.compute_crc32).
func (it *Item) StorageCRC(behind []byte) (uint32, bool, error) {
	if it.StorageLen == 0 {
		return 0, true, nil // what follows nothing is not written
	}
	crc, _, ok := readDescriptor(behind, it.StorageLen)
	if !ok {
		return 0, false, formatf("what follows the storage at byte %d of the item does not say that it has %d bytes", it.StorageOff, it.StorageLen)
	}
	return crc, crc != 0, nil
}
