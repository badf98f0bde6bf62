package pack

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// stretch is how many rows are looked at before their parts are read: it bounds the memory that a bin takes, whatever it holds.
const stretch = 1 << 16

// Reads are large and in the order of the file. readSize bounds the memory of one; a hole of up to
// readGap is read over rather than asked around.
const (
	readSize = 8 << 20
	readGap  = 1 << 20
)

// rowPart is one part of one row.
type rowPart struct {
	row   int64
	field string
	binfmt.Extent
}

// rows reads the whole index: keys ascend, labels count classes, and the parts give the uuid. It gives the parts of some rows at a
// time to read; what it gives is good until the next time.
func (c *binCheck) rows(x binfmt.BinIndex, read func(parts []rowPart) error) error {
	w := walk{binCheck: c, x: x, summed: true, whole: true}
	if c.bin.Foreign == nil {
		w.uuid = binfmt.NewUUIDHash()
	}
	for row := range x.Rows() {
		w.row(row)
		if (row+1)%stretch == 0 || row+1 == x.Rows() {
			if err := read(w.parts); err != nil {
				return err
			}
			w.parts = w.parts[:0]
		}
	}
	c.ends.last = w.last
	w.checkUUID()
	c.v.count(Checked{Samples: x.Rows()}, 0)
	return nil
}

// walk goes through the rows of an index.
type walk struct {
	*binCheck
	x             binfmt.BinIndex
	uuid          *binfmt.UUIDHash // nil for a foreign bin, whose uuid says nothing of its parts
	summed, whole bool             // so far
	last          string           // key
	parts         []rowPart
}

func (w *walk) row(row int64) {
	key, err := w.x.Key(row)
	if err != nil {
		w.badRow(row, "", "", err)
		w.whole = false
		return
	}
	w.order(row, key, w.last)
	w.last = key
	for _, f := range w.v.m.Fields {
		if !f.Kind.InBin() {
			w.scalar(w.x, row, key, f)
			continue
		}
		p, err := w.x.Part(row, f.Name)
		if err != nil {
			w.badRow(row, key, f.Name, err)
			w.whole = false
			continue
		}
		w.summed = w.summed && p.HasCRC
		if w.uuid != nil {
			w.uuid.Add(key, f.Name, p.Len, p.CRC)
		}
		w.parts = append(w.parts, rowPart{row, f.Name, p.Extent})
	}
}

func (w *walk) checkUUID() {
	if w.uuid == nil || !w.summed || !w.whole {
		return
	}
	if got := w.uuid.UUID(); hex.EncodeToString(got[:]) != w.bin.UUID {
		w.file(FoundUUID, path.Join(w.v.dir, w.bin.IndexName()), w.bin.UUID, hex.EncodeToString(got[:]))
	}
}

func (c *binCheck) badRow(row int64, key, field string, err error) {
	c.add(Finding{Kind: FoundIndex, File: path.Join(c.v.dir, c.bin.IndexName()), Sample: c.first + row, Key: key, Field: field, Offset: -1, Got: err.Error()})
}

func (c *binCheck) order(row int64, key, last string) {
	if row == 0 {
		c.ends.first = key
		return
	}
	if key <= last && c.bin.Foreign == nil {
		c.add(Finding{Kind: FoundOrder, File: path.Join(c.v.dir, c.bin.IndexName()), Sample: c.first + row, Key: key, Offset: -1,
			Want: fmt.Sprintf("a key after %q", last)})
	}
}

func (c *binCheck) scalar(x binfmt.BinIndex, row int64, key string, f binfmt.Field) {
	v, err := x.Scalar(row, f.Name)
	if err != nil {
		c.badRow(row, key, f.Name, err)
		return
	}
	if n := int64(len(c.v.m.Classes)); f.Name == binfmt.LabelField && n > 0 && (v.Int < 0 || v.Int >= n) {
		c.add(Finding{Kind: FoundLabel, File: path.Join(c.v.dir, c.bin.IndexName()), Sample: c.first + row, Key: key, Field: f.Name, Offset: -1,
			Want: fmt.Sprintf("0 to %d", n-1), Got: v.String()})
	}
}

// parts reads every part. The store is asked for long pieces in the order of the file.
func (c *binCheck) parts(ctx context.Context, x binfmt.BinIndex, f store.File, parts []rowPart) error {
	slices.SortFunc(parts, func(a, b rowPart) int { return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.row, b.row)) })
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(c.readers)
	for len(parts) > 0 && group.Err() == nil {
		n := pieceLen(parts)
		piece := parts[:n]
		parts = parts[n:]
		g.Go(func() error { return c.piece(group, x, f, piece) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// pieceLen says how many of the parts are read together.
func pieceLen(parts []rowPart) int {
	start, end := parts[0].Off, parts[0].Off+parts[0].Len
	n := 1
	for ; n < len(parts); n++ {
		p := parts[n]
		if p.Off-end > readGap || p.Off+p.Len-start > readSize {
			break
		}
		end = max(end, p.Off+p.Len)
	}
	return n
}

func (c *binCheck) piece(ctx context.Context, x binfmt.BinIndex, f store.File, parts []rowPart) error {
	if len(parts) == 1 && parts[0].Len > readSize {
		return c.long(ctx, x, f, parts[0])
	}
	start, end := parts[0].Off, int64(0)
	for _, p := range parts {
		end = max(end, p.Off+p.Len)
	}
	end = min(end, max(start, f.Size()))
	buf := make([]byte, end-start)
	var err error
	if start < f.Size() {
		err = f.ReadRanges(ctx, []store.Range{{Off: start, Buf: buf}})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	done := Checked{}
	for _, p := range parts {
		switch from := p.Off - start; {
		case p.Off+p.Len > f.Size():
			c.short(x, p, f.Size())
		case err != nil:
			c.unreadable(x, p, err)
		default:
			c.sum(x, p, binfmt.CRC32C(0, buf[from:from+p.Len]), &done)
		}
	}
	c.v.count(done, end-start)
	return nil
}

// long reads one part that is larger than a read.
func (c *binCheck) long(ctx context.Context, x binfmt.BinIndex, f store.File, p rowPart) error {
	if p.Off+p.Len > f.Size() {
		c.short(x, p, f.Size())
		return nil
	}
	crc := uint32(0)
	buf := make([]byte, readSize)
	for at := int64(0); at < p.Len; at += readSize {
		buf = buf[:min(readSize, p.Len-at)]
		if err := f.ReadRanges(ctx, []store.Range{{Off: p.Off + at, Buf: buf}}); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.unreadable(x, p, err)
			return nil
		}
		crc = binfmt.CRC32C(crc, buf)
		c.v.count(Checked{}, int64(len(buf)))
	}
	done := Checked{}
	c.sum(x, p, crc, &done)
	c.v.count(done, 0)
	return nil
}

// part makes a finding that concerns one part.
func (c *binCheck) part(x binfmt.BinIndex, p rowPart, kind, want, got string) {
	key, _ := x.Key(p.row) // it was readable a moment ago
	c.add(Finding{Kind: kind, File: c.dataName(p), Sample: c.first + p.row, Key: key, Field: p.field,
		Offset: p.Off, Length: p.Len, Want: want, Got: got})
}

func (c *binCheck) short(x binfmt.BinIndex, p rowPart, size int64) {
	c.part(x, p, FoundShort, fmt.Sprintf("bytes up to %d", p.Off+p.Len), fmt.Sprintf("a file of %d bytes", size))
}

func (c *binCheck) unreadable(x binfmt.BinIndex, p rowPart, err error) {
	c.part(x, p, FoundRead, "", err.Error())
}

func (c *binCheck) sum(x binfmt.BinIndex, p rowPart, crc uint32, done *Checked) {
	done.Parts++
	done.Bytes += p.Len
	if c.newSums != nil {
		c.v.sums.Put(c.newSums, p.row, p.field, crc)
	}
	switch {
	case !p.HasCRC:
		done.NoSums++
	case crc != p.CRC:
		c.part(x, p, FoundCRC, fmt.Sprintf("CRC32C %08x", p.CRC), fmt.Sprintf("CRC32C %08x", crc))
	}
}
