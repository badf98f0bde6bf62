package binfmt

import (
	"fmt"
	"hash/crc32"
	"strconv"
)

// castagnoli is a table that the standard library computes once; it is never written to.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns the checksum used for every part, going on from crc (0 at the start).
func CRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Extent is where the bytes of one part of one sample lie.
type Extent struct {
	Bin    int   // place in Manifest.Bins
	Off    int64 // from the start of the bin's data file
	Len    int64
	CRC    uint32 // CRC32C of the part
	HasCRC bool   // false where a foreign container has no checksums
	// File is the path, below the bin's folder, of the file that holds the part alone; empty but for bins that
	// are folders of small files. Version is then the store's identity of that file.
	File, Version string
}

// Check says whether b is what the extent promises: nil, an error that matches ErrShort, or a
// *ChecksumError. Without a checksum only the length is checked. It keeps no reference to b.
func (e Extent) Check(b []byte) error {
	if int64(len(b)) != e.Len {
		return fmt.Errorf("binfmt.Check: %d bytes at offset %d of bin %d, the index promises %d: %w", len(b), e.Off, e.Bin, e.Len, ErrShort)
	}
	if !e.HasCRC {
		return nil
	}
	if got := CRC32C(0, b); got != e.CRC {
		return &ChecksumError{Bin: e.Bin, Off: e.Off, Want: e.CRC, Got: got}
	}
	return nil
}

// ChecksumError says that the bytes read are not those that were packed.
type ChecksumError struct {
	Bin       int
	Off       int64
	Want, Got uint32
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("binfmt.Check: bin %d, offset %d: CRC32C is %08x, the index says %08x: the bytes are damaged, read another replica or pack again",
		e.Bin, e.Off, e.Got, e.Want)
}

// Part is one media field of one sample: where it is and what is known about it.
type Part struct {
	Extent
	Type string // media type found in the content, such as "image/jpeg"
	// What is not known is 0.
	Width, Height, Frames uint32
	DurationUS            uint64 // microseconds
	CostUS                uint64 // CPU time to decode, microseconds
}

// Value is one scalar. Only the member that Kind names is set.
type Value struct {
	Kind  Kind
	Int   int64
	Float float64
	Bool  bool
	Str   string
}

// String returns the value as text.
func (v Value) String() string {
	switch v.Kind {
	case Int64:
		return strconv.FormatInt(v.Int, 10)
	case Float64:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case Bool:
		return strconv.FormatBool(v.Bool)
	default:
		return v.Str
	}
}
