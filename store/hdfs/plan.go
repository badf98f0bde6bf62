package hdfs

import (
	"cmp"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// maxGap joins two ranges of a block when the hole between them costs less than a request of its own: reading
	// over 1 MiB takes about as long as a seek.
	maxGap = 1 << 20
	// maxSpan bounds what one request reads, so that a slow node is noticed after a bounded time. Answering a
	// request costs a DataNode about as long as sending 1 MiB, 3 % of it.
	maxSpan = 32 << 20
)

// request is what is read of one block by one request to a DataNode.
type request struct {
	block *block
	parts []part // offsets in the block; sorted, disjoint
	asked int64  // the sum of the parts' lengths
}

func (r request) off() int64 { return r.parts[0].Off }
func (r request) end() int64 { return partsEnd(r.parts) }

func partsEnd(parts []part) int64 {
	last := parts[len(parts)-1]
	return last.Off + int64(len(last.Buf))
}

// overlap is memory that gets its bytes from parts that are read for another range.
type overlap struct {
	off int64
	buf []byte
}

// disjoint turns ranges into parts, sorted by their offset in the file, of which each byte is read once. Bytes that
// several ranges ask for are read into the first one, and are to be copied into the others.
func disjoint(ranges []store.Range) (parts []part, overlaps []overlap) {
	parts = make([]part, 0, len(ranges))
	for _, r := range ranges {
		if len(r.Buf) > 0 {
			parts = append(parts, part{Off: r.Off, Buf: r.Buf})
		}
	}
	byOffset := func(a, b part) int { return cmp.Compare(a.Off, b.Off) }
	if !slices.IsSortedFunc(parts, byOffset) {
		slices.SortStableFunc(parts, byOffset)
	}
	var read int64 // up to where the parts before reach
	kept := parts[:0]
	for _, p := range parts {
		if p.Off < read {
			n := min(read-p.Off, int64(len(p.Buf)))
			overlaps = append(overlaps, overlap{off: p.Off, buf: p.Buf[:n]})
			p = part{Off: p.Off + n, Buf: p.Buf[n:]}
		}
		if len(p.Buf) > 0 {
			kept = append(kept, p)
			read = p.Off + int64(len(p.Buf))
		}
	}
	return kept, overlaps
}

// fill copies the bytes of an overlap from parts that have been read: sorted, disjoint, and together holding all of it.
func (o overlap) fill(parts []part) {
	i, found := slices.BinarySearchFunc(parts, o.off, func(p part, off int64) int { return cmp.Compare(p.Off, off) })
	if !found {
		i--
	}
	for ; len(o.buf) > 0; i++ {
		n := copy(o.buf, parts[i].Buf[o.off-parts[i].Off:])
		o = overlap{off: o.off + int64(n), buf: o.buf[n:]}
	}
}

// requests cuts parts of a file at the borders of its blocks, which are sorted and hold all of them, and joins those that
// lie close together, up to span bytes. At most twice the asked bytes go over the wire, unless what is asked is smaller than the pieces that
// HDFS reads: then no more than without joining.
func requests(parts []part, blocks []*block, span int64) []request {
	var out []request
	var cur request
	for _, p := range parts {
		for len(p.Buf) > 0 {
			for p.Off >= blocks[0].end() {
				blocks = blocks[1:]
			}
			b := blocks[0]
			n := min(int64(len(p.Buf)), b.end()-p.Off, span)
			piece := part{Off: p.Off - b.off, Buf: p.Buf[:n]}
			if !joins(cur, b, piece, span) {
				if len(cur.parts) > 0 {
					out = append(out, cur)
				}
				cur = request{block: b}
			}
			cur.parts, cur.asked = append(cur.parts, piece), cur.asked+n
			p = part{Off: p.Off + n, Buf: p.Buf[n:]}
		}
	}
	if len(cur.parts) > 0 {
		out = append(out, cur)
	}
	return out
}

// joins tells whether a piece of a block becomes part of the request before it.
func joins(r request, b *block, p part, span int64) bool {
	if r.block != b || len(r.parts) == 0 {
		return false
	}
	end := p.Off + int64(len(p.Buf))
	if p.Off-r.end() > maxGap || end-r.off() > span {
		return false
	}
	joined := wire(r.off(), end)
	return joined <= 2*(r.asked+int64(len(p.Buf))) || joined <= wire(r.off(), r.end())+wire(p.Off, end)
}

// wire is how many bytes a DataNode sends for [off, end) of a block: whole chunks of 512 bytes with 4 bytes of checksum, in
// packets of 64 KiB with about 32 bytes of header; the answer's head and the empty last packet count as two more.
func wire(off, end int64) int64 {
	const chunk, sum, packet, header = 512, 4, 64 << 10, 32
	first, last := off/chunk, (end+chunk-1)/chunk
	n := last - first
	return n*(chunk+sum) + ((n*chunk+packet-1)/packet+2)*header
}

// interleave orders jobs so that those which follow each other go to different nodes, as far as that is possible; first
// names the node that a job goes to. Jobs for the same node keep their order, which is that of the disk.
func interleave[J any, N comparable](all []J, first func(J) N) []J {
	if len(all) < 3 {
		return all
	}
	lanes := map[N][]J{}
	var order []N
	for _, j := range all {
		n := first(j)
		if _, ok := lanes[n]; !ok {
			order = append(order, n)
		}
		lanes[n] = append(lanes[n], j)
	}
	out := make([]J, 0, len(all))
	for turn := 0; len(out) < len(all); turn++ {
		for _, n := range order {
			if turn < len(lanes[n]) {
				out = append(out, lanes[n][turn])
			}
		}
	}
	return out
}

// rest returns what is left of parts when the first n bytes from the first part's offset on, gaps included, are there.
func rest(parts []part, n int64) []part {
	from := parts[0].Off + n
	for i, p := range parts {
		end := p.Off + int64(len(p.Buf))
		if end <= from {
			continue
		}
		left := slices.Clone(parts[i:])
		if p.Off < from {
			left[0] = part{Off: from, Buf: p.Buf[from-p.Off:]}
		}
		return left
	}
	return nil
}
