package pack

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// checkFolder verifies a bin that is a folder of small files: each is the one that was indexed, and can be read.
func (c *binCheck) checkFolder(ctx context.Context) error {
	x, err := c.openIndex(ctx)
	if err != nil || x == nil {
		return err
	}
	defer x.Close()
	if x, err = c.withSums(ctx, x); err != nil {
		return err
	}
	return c.rows(x, func(parts []rowPart) error {
		g, group := errgroup.WithContext(ctx)
		g.SetLimit(c.readers)
		for some := range slices.Chunk(parts, storeTogether) {
			g.Go(func() error { return c.checkFiles(group, x, some) })
		}
		return g.Wait()
	})
}

func (c *binCheck) checkFiles(ctx context.Context, x binfmt.BinIndex, parts []rowPart) error {
	for _, p := range parts {
		if err := c.checkFile(ctx, x, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *binCheck) checkFile(ctx context.Context, x binfmt.BinIndex, p rowPart) error {
	f, err := c.v.st.Open(ctx, c.dataName(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.part(x, p, FoundMissing, "", "")
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	if got := string(f.Identity()); got != p.Version {
		c.part(x, p, FoundChanged, p.Version, got)
	}
	if p.Off+p.Len > f.Size() {
		c.short(x, p, f.Size())
		return nil
	}
	buf := make([]byte, min(p.Len, readSize))
	crc := uint32(0)
	for at := int64(0); at < p.Len; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), p.Len-at)]
		if err := f.ReadRanges(ctx, []store.Range{{Off: p.Off + at, Buf: buf}}); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.unreadable(x, p, err)
			return nil
		}
		crc = binfmt.CRC32C(crc, buf)
	}
	done := Checked{}
	c.sum(x, p, crc, &done)
	c.v.count(done, p.Len)
	return nil
}

// dataName is the file that a part lies in.
func (c *binCheck) dataName(p rowPart) string {
	return path.Join(c.v.dir, c.bin.DataName(), p.File)
}
