package datanode

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// A packet is PLEN (4 bytes: itself, checksums and data), HLEN (2 bytes), the header (HLEN bytes), checksums, data.
const (
	lengths   = 6
	maxPacket = 16 << 20 // PLEN + HLEN, as in Hadoop's PacketReceiver
	headerLen = 25       // of the headers that a DataNode sends to readers: the fields below, without syncBlock
)

// packet is the header of a packet: what it says, not yet what it should say.
type packet struct {
	plen, hlen int
	off        int64 // in the block, of the first byte of data
	seqno      int64
	last       bool
	data       int // bytes of data
}

// size is the packet's length in bytes, from PLEN to the end of the data.
func (p packet) size() int { return lengths - 4 + p.hlen + p.plen }

// sums is the length in bytes of the checksums.
func (p packet) sums() int { return p.plen - 4 - p.data }

// parseLengths reads the first 6 bytes of a packet. What it returns is bounded: a packet of that size may be read.
func parseLengths(b []byte) (p packet, err error) {
	plen, hlen := binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:])
	if plen < 4 || uint64(plen)+uint64(hlen) > maxPacket {
		return p, violation("packet of %d bytes and a header of %d: allowed are 4 to %d in all", int32(plen), hlen, maxPacket)
	}
	return packet{plen: int(plen), hlen: int(hlen)}, nil
}

// parseHeader reads the header into p; b is the header alone.
func (p *packet) parseHeader(b []byte) error {
	seen := 0
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return violation("packet header: %v", protowire.ParseError(n))
		}
		m, known, err := p.field(num, typ, b[n:])
		if err != nil {
			return err
		}
		seen |= known
		b = b[n+m:]
	}
	if seen != 0b11110 {
		return violation("packet header lacks required fields (has %05b)", seen)
	}
	return nil
}

// field reads one field's value and says how long it is and, as a bit, which required one it was.
func (p *packet) field(num protowire.Number, typ protowire.Type, b []byte) (n, known int, err error) {
	var v uint64
	switch {
	case (num == 1 || num == 2) && typ == protowire.Fixed64Type:
		v, n = protowire.ConsumeFixed64(b)
	case num == 3 && typ == protowire.VarintType:
		v, n = protowire.ConsumeVarint(b)
	case num == 4 && typ == protowire.Fixed32Type:
		var w uint32
		w, n = protowire.ConsumeFixed32(b)
		v = uint64(w)
	case num >= 1 && num <= 4:
		return 0, 0, violation("packet header: field %d has wire type %d", num, typ)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
		num = 0
	}
	if n < 0 {
		return 0, 0, violation("packet header: field %d: %v", num, protowire.ParseError(n))
	}
	switch num {
	case 1:
		p.off = int64(v)
	case 2:
		p.seqno = int64(v)
	case 3:
		p.last = v != 0
	case 4:
		p.data = int(int32(v))
	case 0:
		return n, 0, nil
	}
	return n, 1 << num, nil
}

// appendHeader is parseHeader's inverse, with the lengths in front: what a DataNode sends, byte for byte.
func (p packet) appendHeader(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.plen))
	b = binary.BigEndian.AppendUint16(b, headerLen)
	b = protowire.AppendTag(b, 1, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, uint64(p.off))
	b = protowire.AppendTag(b, 2, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, uint64(p.seqno))
	b = protowire.AppendTag(b, 3, protowire.VarintType)
	b = protowire.AppendVarint(b, protowire.EncodeBool(p.last))
	b = protowire.AppendTag(b, 4, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, uint32(p.data))
}
