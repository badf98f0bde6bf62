package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/stepahead-io/stepahead/binfmt"
)

// item is one sample whose bytes have been seen once.
type item struct {
	Entry
	part binfmt.Part // Off is set by the layout
}

// binPlan is one bin, known to the last bit before its first byte is written: stores append only,
// and the header names the uuid.
type binPlan struct {
	binfmt.Bin
	uuid  [16]byte
	items []item
}

// layout cuts the items, which are sorted by key, into bins: a bin is full when the next part would
// end behind binSize. A part of at most block bytes never lies in two blocks.
func layout(items []item, block, binSize int64) []*binPlan {
	var bins []*binPlan
	first, end := 0, int64(binfmt.HeaderSize)
	for i := range items {
		n := items[i].part.Len
		off := place(end, n, block)
		if i > first && off+n > binSize {
			bins = append(bins, &binPlan{items: items[first:i], Bin: binfmt.Bin{Samples: int64(i - first), Bytes: end}})
			first, off = i, place(binfmt.HeaderSize, n, block)
		}
		items[i].part.Off = off
		end = off + n
	}
	return append(bins, &binPlan{items: items[first:], Bin: binfmt.Bin{Samples: int64(len(items) - first), Bytes: end}})
}

// place returns the first offset from end on where n bytes may lie.
func place(end, n, block int64) int64 {
	off := roundUp(end, binfmt.Alignment)
	if n <= block && off/block != (off+n-1)/block {
		return roundUp(off, block)
	}
	return off
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// seal computes uuid, digest of the index and name. The name holds the digest's start, so that
// bins of different content never have the same name: a dataset can be replaced while it is read.
func (b *binPlan) seal(place int, fields []binfmt.Field) error {
	h := binfmt.NewUUIDHash()
	for _, it := range b.items {
		h.Add(it.Key, fields[0].Name, it.part.Len, it.part.CRC)
	}
	b.uuid = h.UUID()
	b.UUID = hex.EncodeToString(b.uuid[:])
	sum := sha256.New()
	if err := b.writeIndex(sum, fields); err != nil {
		return err
	}
	b.IndexSHA256 = hex.EncodeToString(sum.Sum(nil))
	b.Name = fmt.Sprintf("%05d-%s", place, b.IndexSHA256[:12])
	return nil
}

// manifestOf lists the bins, which are sealed.
func manifestOf(l *Listing, bins []*binPlan) *binfmt.Manifest {
	m := &binfmt.Manifest{Format: binfmt.Format, Fields: l.Fields, Classes: l.Classes}
	for _, b := range bins {
		m.Bins = append(m.Bins, b.Bin)
	}
	return m
}
