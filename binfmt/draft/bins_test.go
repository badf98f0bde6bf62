package draft

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/binfmt"
)

// TestLayout: whatever the lengths, parts do not overlap, are aligned, do not straddle blocks, bins are filled in order, with whole
// samples, and not beyond their size if they have more than one.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Sizes{Block: binfmt.Alignment * rapid.Int64Range(1, 100).Draw(t, "block"), Bin: rapid.Int64Range(1, 30_000).Draw(t, "bin size")}
		fields := rapid.IntRange(1, 3).Draw(t, "fields")
		rows := make([]binfmt.Row, rapid.IntRange(1, 50).Draw(t, "rows"))
		for i := range rows {
			for range fields {
				n := rapid.Int64Range(0, 9_000).Draw(t, "length")
				rows[i].Parts = append(rows[i].Parts, binfmt.Part{Extent: binfmt.Extent{Len: n}})
			}
		}
		total := 0
		for _, b := range Layout(slices.Clone(rows), s) {
			if b.First != total {
				t.Fatalf("a bin from row %d on, want %d", b.First, total)
			}
			if end := checkRows(t, b.Rows, s.Block); b.Bytes != end || b.Samples != int64(len(b.Rows)) || len(b.Rows) == 0 || len(b.Rows) > 1 && end > s.Bin {
				t.Fatalf("a bin of %d bytes, %d samples, ending at %d; bin size %d", b.Bytes, b.Samples, end, s.Bin)
			}
			total += len(b.Rows)
		}
		if total != len(rows) {
			t.Fatalf("%d of %d samples", total, len(rows))
		}
	})
}

// checkRows returns where the last part ends.
func checkRows(t *rapid.T, rows []binfmt.Row, block int64) int64 {
	end := int64(binfmt.HeaderSize)
	for _, r := range rows {
		for _, p := range r.Parts {
			if p.Off < end || p.Off%binfmt.Alignment != 0 || p.Len > 0 && p.Len <= block && p.Off/block != (p.Off+p.Len-1)/block {
				t.Fatalf("offset %d, length %d after %d in blocks of %d", p.Off, p.Len, end, block)
			}
			if p.Off-end >= max(block, binfmt.Alignment) {
				t.Fatalf("a hole of %d in blocks of %d", p.Off-end, block)
			}
			end = p.Off + p.Len
		}
	}
	return end
}
