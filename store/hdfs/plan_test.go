package hdfs

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
)

// file of blocks that need not be equal, as concat leaves them.
func drawBlocks(t *rapid.T) (blocks []*block, size int64) {
	for range rapid.IntRange(1, 6).Draw(t, "blocks") {
		n := rapid.Int64Range(1, 5000).Draw(t, "length")
		blocks = append(blocks, &block{off: size, len: n})
		size += n
	}
	return blocks, size
}

func drawRanges(t *rapid.T, size int64) []store.Range {
	var ranges []store.Range
	for range rapid.IntRange(0, 12).Draw(t, "ranges") {
		off := rapid.Int64Range(0, size).Draw(t, "off")
		n := rapid.Int64Range(0, min(size-off, 3000)).Draw(t, "n")
		ranges = append(ranges, store.Range{Off: off, Buf: make([]byte, n)})
	}
	return ranges
}

// Whatever is asked for, the planned requests fill it, read each byte into one place, stay inside their blocks and below the
// span, and cost at most twice what is asked, or no more than without joining.
func TestRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks, size := drawBlocks(t)
		data := random(int(size), 1)
		ranges := drawRanges(t, size)
		span := rapid.Int64Range(1, 4000).Draw(t, "span")
		parts, overlaps := disjoint(ranges)
		all := requests(parts, blocks, span)
		var total, alone, wanted int64
		last := int64(-1)
		for _, r := range all {
			if r.end() > r.block.len || r.end()-r.off() > span || r.asked != asked(r.parts) {
				t.Fatalf("request [%d, %d) of a block of %d bytes, span %d", r.off(), r.end(), r.block.len, span)
			}
			total += wire(r.off(), r.end())
			wanted += r.asked
			for _, p := range r.parts {
				at := r.block.off + p.Off
				if at < last {
					t.Fatalf("offset %d after %d", at, last)
				}
				last = at + int64(len(p.Buf))
				alone += wire(p.Off, p.Off+int64(len(p.Buf)))
				copy(p.Buf, data[at:])
			}
		}
		if total > max(2*wanted, alone) {
			t.Fatalf("%d bytes on the wire for %d, %d without joining", total, wanted, alone)
		}
		for _, o := range overlaps {
			o.fill(parts)
		}
		for _, r := range ranges {
			if !bytes.Equal(r.Buf, data[r.Off:r.Off+int64(len(r.Buf))]) {
				t.Fatalf("range [%d, +%d) has wrong bytes", r.Off, len(r.Buf))
			}
		}
	})
}

// What is close together becomes one request, what is far apart does not.
func TestRequestsJoin(t *testing.T) {
	blocks := []*block{{off: 0, len: 100 << 20}}
	for _, c := range []struct {
		n, gap int64
		want   int
	}{{64 << 10, 0, 1}, {64 << 10, 60 << 10, 1}, {64 << 10, 80 << 10, 3}, {4096, 3000, 1}, {4 << 20, 2 << 20, 10}, {4 << 20, 1 << 20, 2}} {
		var parts []part
		for i := range int64(10) {
			parts = append(parts, part{Off: i * (c.n + c.gap), Buf: make([]byte, c.n)})
		}
		if got := len(requests(parts, blocks, maxSpan)); got != c.want {
			t.Errorf("10 ranges of %d bytes, %d apart: %d requests, want %d", c.n, c.gap, got, c.want)
		}
	}
}

func TestInterleave(t *testing.T) {
	got := interleave([]int{10, 11, 12, 20, 21, 30}, func(i int) int { return i / 10 })
	if want := []int{10, 20, 30, 11, 21, 12}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// rest leaves exactly what was not read.
func TestRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []part
		at := rapid.Int64Range(0, 10).Draw(t, "at")
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			at += rapid.Int64Range(0, 3).Draw(t, "gap")
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			parts = append(parts, part{Off: at, Buf: make([]byte, n)})
			at += n
		}
		n := rapid.Int64Range(0, at-parts[0].Off).Draw(t, "read")
		left := rest(parts, n)
		for _, p := range left {
			for i := range p.Buf {
				p.Buf[i] = 1
			}
		}
		for _, p := range parts {
			for i, b := range p.Buf {
				if want := p.Off+int64(i) >= parts[0].Off+n; want != (b == 1) {
					t.Fatalf("byte %d: left %v after %d bytes from %d on", p.Off+int64(i), b == 1, n, parts[0].Off)
				}
			}
		}
	})
}
