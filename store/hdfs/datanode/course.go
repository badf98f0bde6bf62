package datanode

import (
	"hash/crc32"
	"math"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// checksums says how the bytes of a replica are protected.
type checksums struct {
	table *crc32.Table // nil: not at all
	chunk int          // bytes that share a checksum
}

// maxChunk bounds bytesPerChecksum: a packet holds at least one chunk.
const maxChunk = maxPacket

func newChecksums(c *hproto.Checksum) (checksums, error) {
	if n := c.GetBytesPerChecksum(); n < 1 || n > maxChunk {
		return checksums{}, violation("%d bytes a checksum: allowed are 1 to %d", n, maxChunk)
	}
	s := checksums{chunk: int(c.GetBytesPerChecksum())}
	switch c.GetType() {
	case hproto.Checksum_NULL:
	case hproto.Checksum_CRC32:
		s.table = crc32.IEEETable
	case hproto.Checksum_CRC32C:
		s.table = castagnoli
	default:
		return s, violation("checksum type %d: known are NULL, CRC32 and CRC32C", c.GetType())
	}
	return s, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size is the length in bytes of the checksums of so much data.
func (s checksums) size(data int) int {
	if s.table == nil {
		return 0
	}
	return 4 * ((data + s.chunk - 1) / s.chunk)
}

// course is the way of a read through a block: where the next packet must begin and where the last may end.
type course struct {
	checksums
	off   int64 // the next byte of the block
	seqno int64
	end   int64 // the end of what was asked for
	limit int64 // end, rounded up to a whole chunk
}

// newCourse checks where the DataNode begins: at the start of the chunk that holds the first byte asked for.
func newCourse(info *hproto.ReadOpChecksumInfo, start, end int64) (course, error) {
	sums, err := newChecksums(info.GetChecksum())
	if err != nil {
		return course{}, err
	}
	chunk := int64(sums.chunk)
	at := int64(info.GetChunkOffset())
	if at < 0 || at > start || start-at >= chunk {
		return course{}, violation("data begins at %d for a range at %d with %d bytes a checksum", at, start, chunk)
	}
	limit := int64(math.MaxInt64)
	if end < math.MaxInt64-chunk {
		limit = at + (end-at+chunk-1)/chunk*chunk
	}
	return course{checksums: sums, off: at, end: end, limit: limit}, nil
}

// check says whether p is what may come now.
func (c *course) check(p packet) error {
	if p.seqno != c.seqno {
		return violation("packet %d where %d was due", p.seqno, c.seqno)
	}
	if p.last {
		if p.data != 0 || p.sums() != 0 {
			return violation("the last packet carries %d bytes of data and %d of checksums", p.data, p.sums())
		}
		if c.off < c.end {
			return violation("the data ends at %d of %d", c.off, c.end)
		}
		return nil
	}
	switch left := c.limit - c.off; {
	case p.off != c.off:
		return violation("packet %d begins at %d where %d was due", p.seqno, p.off, c.off)
	case p.data <= 0 || int64(p.data) > left:
		return violation("packet %d has %d bytes of data where 1 to %d were due", p.seqno, p.data, left)
	case p.sums() != c.size(p.data):
		return violation("packet %d has %d bytes of checksums for %d of data", p.seqno, p.sums(), p.data)
	case p.data%c.chunk != 0 && c.off+int64(p.data) < c.end:
		return violation("packet %d ends inside a chunk, at %d of %d", p.seqno, c.off+int64(p.data), c.end)
	}
	return nil
}

// pass moves behind p, which was checked.
func (c *course) pass(p packet) {
	c.seqno++
	if !p.last {
		c.off += int64(p.data)
	}
}

// ended tells whether only the last, empty packet may follow.
func (c *course) ended() bool { return c.off >= c.end }

// expect is the next packet if it holds up to so much data, and the packet after which the course would stand where
// this one leads.
func (c *course) expect(most int, replica int64) packet {
	p := packet{hlen: headerLen, off: c.off, seqno: c.seqno}
	if c.ended() {
		p.plen, p.last = 4, true
		return p
	}
	stop := c.limit
	if replica > c.off {
		stop = min(stop, replica)
	}
	p.data = int(min(int64(most), stop-c.off))
	p.plen = 4 + c.size(p.data) + p.data
	return p
}
