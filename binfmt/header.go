package binfmt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// HeaderSize is the length of the header of a .bin; the first part starts there or later.
const HeaderSize = 64

// Alignment is what every part's offset in a bin written by this package is a multiple of.
const Alignment = 64

// Version is the version of the data file that this package writes and reads.
const Version = 1

// magic starts with no letter of a common format, has a byte that a text-mode copy changes (0a) and
// one that stops a listing on a terminal (1a), as PNG's does.
const magic = "SABIN\n\x1a\n"

// Header returns the header of a data file.
func Header(uuid [16]byte) [HeaderSize]byte {
	var h [HeaderSize]byte
	copy(h[:], magic)
	binary.LittleEndian.PutUint32(h[8:], Version)
	copy(h[12:28], uuid[:])
	binary.LittleEndian.PutUint32(h[28:], Alignment)
	return h
}

// CheckHeader checks the first bytes of a data file (at least HeaderSize, the rest is ignored)
// against the manifest's entry. name is used in errors only.
func CheckHeader(name string, head []byte, b Bin) error {
	if err := checkHeader(head, b); err != nil {
		return fmt.Errorf("binfmt.CheckHeader %s: %w", name, err)
	}
	return nil
}

// CheckBin checks that a data file is the bin's: its size, and its header; of a foreign bin, which has no header
// (HeadSize is 0), its identity.
func CheckBin(name string, size int64, identity string, head []byte, b Bin) error {
	if b.Foreign != nil {
		return checkForeign(name, size, identity, b)
	}
	if size != b.Bytes {
		return fmt.Errorf("binfmt.CheckBin %s: the file has %d bytes, the manifest says %d: it was cut or replaced: %w", name, size, b.Bytes, ErrMismatch)
	}
	return CheckHeader(name, head, b)
}

// HeadSize is how many first bytes of the data file CheckBin needs.
func (b Bin) HeadSize() int64 {
	if b.Foreign != nil {
		return 0
	}
	return HeaderSize
}

func checkHeader(head []byte, b Bin) error {
	if len(head) < HeaderSize {
		return fmt.Errorf("the file has %d bytes, a header has %d: %w", len(head), HeaderSize, ErrHeader)
	}
	if string(head[:8]) != magic {
		return fmt.Errorf("offset 0: magic is % x, want % x: not a bin: %w", head[:8], magic, ErrHeader)
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != Version {
		return fmt.Errorf("offset 8: version is %d, this program reads %d: %w", v, Version, ErrVersion)
	}
	if a := binary.LittleEndian.Uint32(head[28:]); a == 0 || a&(a-1) != 0 {
		return fmt.Errorf("offset 28: alignment is %d, want a power of two: %w", a, ErrHeader)
	}
	if !bytes.Equal(head[32:HeaderSize], make([]byte, HeaderSize-32)) {
		return fmt.Errorf("offset 32: the reserved bytes are not zero: %w", ErrHeader)
	}
	if got := hex.EncodeToString(head[12:28]); got != b.UUID {
		return fmt.Errorf("offset 12: uuid is %s, the manifest says %s: %w", got, b.UUID, ErrMismatch)
	}
	return nil
}

// UUIDHash computes a bin's uuid from its parts, added in the order of the index: samples by key,
// media fields in the manifest's order. Parts without a checksum have none to add, so a bin with
// such parts has no uuid of this kind.
type UUIDHash struct {
	sum hash.Hash
	buf []byte
}

// NewUUIDHash returns an empty hash.
func NewUUIDHash() *UUIDHash { return &UUIDHash{sum: sha256.New()} }

// Add adds one part.
func (h *UUIDHash) Add(key, field string, length int64, crc uint32) {
	b := binary.LittleEndian.AppendUint32(h.buf[:0], uint32(len(key)))
	b = append(b, key...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(field)))
	b = append(b, field...)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	b = binary.LittleEndian.AppendUint32(b, crc)
	h.sum.Write(b)
	h.buf = b
}

// UUID returns the uuid of what was added so far.
func (h *UUIDHash) UUID() [16]byte {
	return [16]byte(h.sum.Sum(nil)[:16])
}
