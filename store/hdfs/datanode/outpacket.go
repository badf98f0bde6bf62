package datanode

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// PacketSize is how many bytes of data the packets of a pipeline hold; the last one of a block may hold fewer.
const PacketSize = 64 << 10

const (
	sumChunk = 512 // bytes that share a checksum, as in Hadoop by default
	// before is the room in front of a packet's data, for its lengths, its header and its checksums.
	before = lengths + headerLen + 4*PacketSize/sumChunk
)

// written is how what we write is protected.
var written = &hproto.Checksum{Type: hproto.Checksum_CRC32C.Enum(), BytesPerChecksum: uint32Of(sumChunk)}

func uint32Of(n uint32) *uint32 { return &n }

// Packet is some bytes of a block on their way to DataNodes. It keeps them, so that it can be sent again.
type Packet struct {
	off  int64  // in the block
	buf  []byte // data begins at before; what is in front of it ends there
	sums int    // where the checksums begin in buf; 0: they are not made yet
}

// NewPacket returns a packet without data that begins at an offset of a block, and for which some bytes are at hand.
func NewPacket(off int64, bytes int) *Packet {
	const least = 1 << 10
	return &Packet{off: off, buf: make([]byte, before, before+min(max(bytes, least), PacketSize))}
}

// Reset makes p a packet as NewPacket does, in the same memory.
func (p *Packet) Reset(off int64) { *p = Packet{off: off, buf: p.buf[:before]} }

// Off is the offset in the block of the packet's first byte, End that behind its last.
func (p *Packet) Off() int64 { return p.off }

// End is described at Off.
func (p *Packet) End() int64 { return p.off + int64(len(p.data())) }

// Full tells whether nothing more fits.
func (p *Packet) Full() bool { return len(p.data()) == PacketSize }

// Fill appends what fits of b, and says how much that was. A packet that was sent is not filled any more.
func (p *Packet) Fill(b []byte) int {
	n := min(len(b), PacketSize-len(p.data()))
	p.buf = append(p.buf, b[:n]...)
	return n
}

func (p *Packet) data() []byte { return p.buf[before:] }

// frame returns the packet as it travels. It is valid until the next call.
func (p *Packet) frame(seqno int64) []byte {
	data := p.data()
	if p.sums == 0 {
		p.sum()
	}
	start := p.sums - lengths - headerLen
	packet{plen: 4 + before - p.sums + len(data), off: p.off, seqno: seqno, data: len(data)}.appendHeader(p.buf[start:start])
	return p.buf[start:]
}

// sum makes the checksums, which lie just in front of the data.
func (p *Packet) sum() {
	data := p.data()
	p.sums = before - 4*((len(data)+sumChunk-1)/sumChunk)
	for at := p.sums; len(data) > 0; at += 4 {
		n := min(sumChunk, len(data))
		binary.BigEndian.PutUint32(p.buf[at:], crc32.Update(0, castagnoli, data[:n]))
		data = data[n:]
	}
}
