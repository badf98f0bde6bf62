package nodecache

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

// File returns f with reads that are shared: each run of ranges that touch each other is one Read. Processes share what they
// read in the same runs, as those do that read the same ranges of a checkpoint by the same plan. address is that of f's store, name what
// messages call the file.
// Closing the File closes f, and the Cache stays open.
func (c *Cache) File(address, name string, f store.File) store.File {
	return &file{File: f, cache: c, key: Key{Store: address, Name: name, Identity: f.Identity()}}
}

type file struct {
	store.File
	cache *Cache
	key   Key
}

// ReadRanges implements store.File.
func (f *file) ReadRanges(ctx context.Context, ranges []store.Range) error {
	if err := store.CheckRanges(ranges, f.Size()); err != nil {
		return fmt.Errorf("nodecache: %s: %w", f.key.Name, err)
	}
	for _, run := range runs(ranges) {
		key, bufs := f.key, make([][]byte, len(run))
		key.Off = run[0].Off
		for i, r := range run {
			bufs[i] = r.Buf
			key.Len += int64(len(r.Buf))
		}
		read := func(ctx context.Context) error { return f.File.ReadRanges(ctx, run) }
		if err := f.cache.Read(ctx, key, bufs, read); err != nil {
			return err
		}
	}
	return nil
}

// runs sorts ranges and cuts them where one does not begin at the end of the one before. Empty ones are left out.
func runs(ranges []store.Range) [][]store.Range {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r store.Range) bool { return len(r.Buf) == 0 })
	slices.SortStableFunc(sorted, func(a, b store.Range) int { return cmp.Compare(a.Off, b.Off) })
	var out [][]store.Range
	for i, r := range sorted {
		if i > 0 && sorted[i-1].Off+int64(len(sorted[i-1].Buf)) == r.Off {
			out[len(out)-1] = append(out[len(out)-1], r)
		} else {
			out = append(out, []store.Range{r})
		}
	}
	return out
}
