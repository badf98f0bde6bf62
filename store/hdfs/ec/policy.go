// Package ec knows how HDFS lays an erasure-coded file out: which internal block holds which bytes of a
// block group, and how the bytes of missing internal blocks follow from the others.
package ec

import (
	"errors"
	"fmt"
)

// Policy is an erasure coding policy as the NameNode states it for a file. A block group of the policy has
// Data + Parity internal blocks, called units here: unit i is the block whose id is the group's id + i.
type Policy struct {
	// Codec is the code's name. "rs" and "xor" are known; any other, "rs-legacy" too, is refused.
	Codec string
	// Data and Parity are the numbers of units of each kind.
	Data, Parity int
	// Cell is the number of bytes that lie in one unit before the next unit's begin.
	Cell int64
}

// Limits of a policy. HDFS counts a group's units in the four low bits of a block id; the cell's is far
// above what any cluster uses, and keeps sums of offsets far from overflow.
const (
	maxUnits = 16
	maxCell  = 1 << 30
)

// Validate says why a file of this policy cannot be read: errors.ErrUnsupported.
func (p Policy) Validate() error {
	switch {
	case p.Codec != "rs" && p.Codec != "xor":
		return fmt.Errorf("%w: erasure codec %q: only rs and xor can be read; copy the file to a folder with another policy", errors.ErrUnsupported, p.Codec)
	case p.Data < 1 || p.Parity < 1 || p.Data > maxUnits-p.Parity:
		return fmt.Errorf("%w: an erasure coding policy of %d data and %d parity units: each at least 1, together at most %d", errors.ErrUnsupported, p.Data, p.Parity, maxUnits)
	case p.Codec == "xor" && p.Parity != 1:
		return fmt.Errorf("%w: erasure codec xor with %d parity units: it has one", errors.ErrUnsupported, p.Parity)
	case p.Cell < 1 || p.Cell > maxCell:
		return fmt.Errorf("%w: an erasure coding cell of %d bytes: it must lie between 1 and %d", errors.ErrUnsupported, p.Cell, maxCell)
	}
	return nil
}

// UnitLen returns the length in bytes of a unit of a group that holds `group` bytes of the file. A unit of
// length 0 does not exist in the cluster. Parity units are as long as the first data unit.
func (p Policy) UnitLen(group int64, unit int) int64 {
	if unit >= p.Data {
		unit = 0
	}
	stripe := p.Cell * int64(p.Data)
	rest := group%stripe - int64(unit)*p.Cell
	return group/stripe*p.Cell + min(max(rest, 0), p.Cell)
}

// Part asks for the bytes [Off, Off+len(Buf)): of a group's part of the file, or of a unit.
type Part struct {
	Off int64
	Buf []byte
}

func (p Part) end() int64 { return p.Off + int64(len(p.Buf)) }

// split cuts parts of a group into the parts of each data unit. They share the callers' memory, and are
// sorted and disjoint as the given ones are.
func (p Policy) split(parts []Part) [][]Part {
	units := make([][]Part, p.Data)
	for _, part := range parts {
		for len(part.Buf) > 0 {
			cell := part.Off / p.Cell
			in := part.Off % p.Cell
			n := min(p.Cell-in, int64(len(part.Buf)))
			unit := cell % int64(p.Data)
			units[unit] = append(units[unit], Part{Off: cell/int64(p.Data)*p.Cell + in, Buf: part.Buf[:n:n]})
			part = Part{Off: part.Off + n, Buf: part.Buf[n:]}
		}
	}
	return units
}

func checkParts(group int64, parts []Part) error {
	var last int64
	for _, part := range parts {
		if part.Off < last || part.end() > group {
			return fmt.Errorf("a part [%d, %d) of a block group of %d bytes: parts must be sorted, disjoint and inside", part.Off, part.end(), group)
		}
		last = part.end()
	}
	return nil
}
