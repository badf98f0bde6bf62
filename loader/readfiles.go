package loader

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

// filesTogether bounds the small files of a folder that are open at once: enough to keep many storage nodes busy.
const filesTogether = 64

// readFiles is read for a bin that is a folder: each piece has a file of its own. There are no checksums, so a
// piece is wrong if the store says so, or if its file is another one than was indexed.
func (d *dataset) readFiles(ctx context.Context, bin int, pieces []*piece) (failures int, err error) {
	if p, ok := d.store.(store.Prefetcher); ok {
		names := make([]string, len(pieces))
		for i, piece := range pieces {
			names[i] = path.Join(d.binName(bin), piece.File)
		}
		_ = p.Prefetch(ctx, names) // opening a file says what is wrong with it
	}
	for some := range slices.Chunk(pieces, filesTogether) {
		n := 0
		err := again(ctx, func() (err error) {
			n, err = d.readSome(ctx, bin, some)
			return err
		})
		failures += n
		if err != nil {
			return failures, err
		}
	}
	return failures, nil
}

func (d *dataset) readSome(ctx context.Context, bin int, pieces []*piece) (failures int, err error) {
	files := make([]store.FileRanges, 0, len(pieces))
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.File.Close())
		}
	}()
	for _, p := range pieces {
		p.err = nil
		name := path.Join(d.binName(bin), p.File)
		f, err := d.store.Open(ctx, name)
		if err != nil {
			return 0, fmt.Errorf("open %s: %w", d.store.Address(name), err)
		}
		files = append(files, store.FileRanges{File: f, Ranges: []store.Range{{Off: p.Off, Buf: p.buf}}})
		if f.Identity() != store.Identity(p.Version) {
			return 0, &store.IdentityError{Name: d.store.Address(name), Pinned: store.Identity(p.Version), Now: f.Identity()}
		}
	}
	if err := store.ReadMany(ctx, d.store, files); err != nil {
		return 0, err
	}
	for i, p := range pieces {
		switch err := files[i].Err; {
		case err == nil:
		case store.ClassOf(err) == store.Corrupt:
			failures++
			p.err = &corruptError{tried: 1, cause: err}
		default:
			return failures, fmt.Errorf("read %s: %w", d.address(bin, p.File), err)
		}
	}
	return failures, nil
}
