package binfmt

import (
	"encoding/binary"
	"fmt"
)

// The Arrow library trusts the metadata it reads: a vector length in a hostile file is an allocation
// of that size, a child that points back at its parent is endless recursion, and neither can be
// recovered from. So the few tables that an index has are checked here first, with no allocation
// and no recursion; what passes is small and flat.

// flatTable is a table in a flatbuffer. Positions are 64-bit, so that no sum of them wraps.
type flatTable struct {
	buf    []byte
	pos    int64
	vtable int64
	slots  int64 // number of slots in the vtable
}

func flatU32(buf []byte, pos int64) (int64, error) {
	if pos < 0 || pos > int64(len(buf))-4 {
		return 0, fmt.Errorf("flatbuffer: position %d is outside the %d bytes", pos, len(buf))
	}
	return int64(binary.LittleEndian.Uint32(buf[pos:])), nil
}

// flatRoot returns the root table of a flatbuffer.
func flatRoot(buf []byte) (flatTable, error) {
	off, err := flatU32(buf, 0)
	if err != nil {
		return flatTable{}, err
	}
	return flatTableAt(buf, off)
}

func flatTableAt(buf []byte, pos int64) (flatTable, error) {
	raw, err := flatU32(buf, pos)
	if err != nil {
		return flatTable{}, err
	}
	vtable := pos - int64(int32(uint32(raw)))
	if vtable < 0 || vtable > int64(len(buf))-4 {
		return flatTable{}, fmt.Errorf("flatbuffer: vtable at %d is outside the %d bytes", vtable, len(buf))
	}
	size := int64(binary.LittleEndian.Uint16(buf[vtable:]))
	if size < 4 || size%2 != 0 || size > int64(len(buf))-vtable {
		return flatTable{}, fmt.Errorf("flatbuffer: vtable at %d has size %d", vtable, size)
	}
	return flatTable{buf, pos, vtable, (size - 4) / 2}, nil
}

// field returns the position of a slot's value, or 0 if it is absent. n bytes of it are inside.
func (t flatTable) field(slot, n int64) (int64, error) {
	if slot >= t.slots {
		return 0, nil
	}
	off := int64(binary.LittleEndian.Uint16(t.buf[t.vtable+4+2*slot:]))
	if off == 0 {
		return 0, nil
	}
	if t.pos+off > int64(len(t.buf))-n {
		return 0, fmt.Errorf("flatbuffer: slot %d at %d is outside the %d bytes", slot, t.pos+off, len(t.buf))
	}
	return t.pos + off, nil
}

// u8 returns a one-byte slot, 0 if absent.
func (t flatTable) u8(slot int64) (byte, error) {
	pos, err := t.field(slot, 1)
	if err != nil || pos == 0 {
		return 0, err
	}
	return t.buf[pos], nil
}

// u16 returns a two-byte slot, 0 if absent.
func (t flatTable) u16(slot int64) (uint16, error) {
	pos, err := t.field(slot, 2)
	if err != nil || pos == 0 {
		return 0, err
	}
	return binary.LittleEndian.Uint16(t.buf[pos:]), nil
}

// table returns the table in a slot; ok is false if it is absent.
func (t flatTable) table(slot int64) (sub flatTable, ok bool, err error) {
	pos, err := t.field(slot, 4)
	if err != nil || pos == 0 {
		return flatTable{}, false, err
	}
	off, err := flatU32(t.buf, pos)
	if err != nil {
		return flatTable{}, false, err
	}
	sub, err = flatTableAt(t.buf, pos+off)
	return sub, err == nil, err
}

// vector returns where the elements of the vector in a slot start and how many there are; all of
// them, of size bytes each, are inside the buffer. An absent vector has none.
func (t flatTable) vector(slot, size int64) (start, n int64, err error) {
	pos, err := t.field(slot, 4)
	if err != nil || pos == 0 {
		return 0, 0, err
	}
	off, err := flatU32(t.buf, pos)
	if err != nil {
		return 0, 0, err
	}
	n, err = flatU32(t.buf, pos+off)
	if err != nil {
		return 0, 0, err
	}
	start = pos + off + 4
	if n*size > int64(len(t.buf))-start {
		return 0, 0, fmt.Errorf("flatbuffer: slot %d has %d elements, more than the %d bytes hold", slot, n, len(t.buf))
	}
	return start, n, nil
}

// element returns the i-th table of a vector of tables that starts at start.
func (t flatTable) element(start, i int64) (flatTable, error) {
	pos := start + 4*i
	off, err := flatU32(t.buf, pos)
	if err != nil {
		return flatTable{}, err
	}
	return flatTableAt(t.buf, pos+off)
}
