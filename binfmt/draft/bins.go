package draft

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// MaxFiles bounds the files that are listed of a source, in folders or by name, and held in memory until they are indexed or packed: about 2 GB.
const MaxFiles = 1 << 24

// TooManyFiles says that the file at is one more than most.
func TooManyFiles(at string, most int) error {
	return fmt.Errorf("at %q: more than %d files in all: `stepahead pack` parts of the source one by one, which a loader takes together, or index tar files of it", at, most)
}

const (
	defaultBlock   = 128 << 20
	defaultBinSize = 16 << 30
)

// Sizes say how bins are cut. Zero values are the defaults.
type Sizes struct {
	Block int64 // a part of at most so many bytes lies in one block; default: that of the store, else 128 MiB
	Bin   int64 // at which a bin is full; default 16 GiB
}

// Of fills in what is not given for bins in a store, and says what is wrong.
func (s Sizes) Of(dst store.Store) (Sizes, error) {
	if b, ok := dst.(store.BlockSizer); ok && s.Block == 0 {
		s.Block = b.BlockSize()
	}
	if s.Block == 0 {
		s.Block = defaultBlock
	}
	if s.Bin == 0 {
		s.Bin = defaultBinSize
	}
	return s, s.Validate()
}

// Validate returns what is wrong with sizes, all at once.
func (s Sizes) Validate() error {
	var errs []error
	if s.Block != 0 && (s.Block < 1024 || s.Block%binfmt.Alignment != 0) {
		errs = append(errs, fmt.Errorf("a block has %d bytes, want a multiple of %d from 1024 on", s.Block, binfmt.Alignment))
	}
	if s.Bin < 0 {
		errs = append(errs, fmt.Errorf("a bin has %d bytes, want 0 (the default) or more", s.Bin))
	}
	return errors.Join(errs...)
}

// Bin is one bin that will be written, known to the last bit before its first byte is: stores append only, and the header
// names the uuid.
type Bin struct {
	binfmt.Bin
	ID    [16]byte     // the uuid's bytes, set by Seal
	First int          // place of its first row among all
	Rows  []binfmt.Row // with the offsets of their parts
}

// Layout cuts rows, which are sorted by key, into bins, and sets the offsets of their parts: a bin is full when the parts of the
// next row would end behind the size. A part of at most one block never lies in two blocks.
func Layout(rows []binfmt.Row, s Sizes) []*Bin {
	var bins []*Bin
	first, end := 0, int64(binfmt.HeaderSize)
	for i := range rows {
		next := s.lay(rows[i].Parts, end)
		if i > first && next > s.Bin {
			bins = append(bins, newBin(rows, first, i, end))
			first, next = i, s.lay(rows[i].Parts, binfmt.HeaderSize)
		}
		end = next
	}
	return append(bins, newBin(rows, first, len(rows), end))
}

func newBin(rows []binfmt.Row, first, last int, end int64) *Bin {
	return &Bin{First: first, Rows: rows[first:last], Bin: binfmt.Bin{Samples: int64(last - first), Bytes: end}}
}

// lay sets the offsets of a row's parts behind end and returns where they end.
func (s Sizes) lay(parts []binfmt.Part, end int64) int64 {
	for i := range parts {
		parts[i].Off = place(end, parts[i].Len, s.Block)
		end = parts[i].Off + parts[i].Len
	}
	return end
}

// place returns the first offset from end on where n bytes may lie.
func place(end, n, block int64) int64 {
	off := roundUp(end, binfmt.Alignment)
	if n > 0 && n <= block && off/block != (off+n-1)/block {
		return roundUp(off, block)
	}
	return off
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// Seal computes uuid, digest of the index and name. The name holds the digest's start, so that
// bins of different content never have the same name: a dataset can be replaced while it is read.
func (b *Bin) Seal(place int, fields []binfmt.Field) error {
	h := binfmt.NewUUIDHash()
	for _, r := range b.Rows {
		n := 0
		for _, f := range fields {
			if f.Kind.InBin() {
				h.Add(r.Key, f.Name, r.Parts[n].Len, r.Parts[n].CRC)
				n++
			}
		}
	}
	b.ID = h.UUID()
	b.UUID = hex.EncodeToString(b.ID[:])
	sum := sha256.New()
	if err := b.WriteIndex(sum, fields); err != nil {
		return err
	}
	b.IndexSHA256 = hex.EncodeToString(sum.Sum(nil))
	b.Name = fmt.Sprintf("%05d-%s", place, b.IndexSHA256[:12])
	return nil
}

// WriteIndex writes the bin's index.
func (b *Bin) WriteIndex(out io.Writer, fields []binfmt.Field) error {
	index, err := binfmt.NewIndexWriter(out, fields, b.ID)
	if err != nil {
		return err
	}
	for _, r := range b.Rows {
		if err := index.Append(r); err != nil {
			return errors.Join(err, index.Close())
		}
	}
	return index.Close()
}

// Manifest lists bins, which are sealed.
func Manifest(fields []binfmt.Field, classes []string, bins []*Bin) *binfmt.Manifest {
	m := &binfmt.Manifest{Format: binfmt.Format, Fields: fields, Classes: classes}
	for _, b := range bins {
		m.Bins = append(m.Bins, b.Bin)
	}
	return m
}

// WriteBin makes a bin's two files in Data, unless they are there or at their final place already. fill writes its parts. It returns
// false if there was nothing to do.
func (d Draft) WriteBin(ctx context.Context, b *Bin, fields []binfmt.Field, fill func(*BinWriter) error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	have, err := d.have(ctx, b)
	if have || err != nil {
		return false, err
	}
	err = d.WriteFile(ctx, b.DataName(), func(out io.Writer) error {
		head := binfmt.Header(b.ID)
		if _, err := out.Write(head[:]); err != nil {
			return err
		}
		return fill(&BinWriter{out: out, at: int64(len(head))})
	})
	if err == nil {
		err = d.WriteFile(ctx, b.IndexName(), func(out io.Writer) error { return b.WriteIndex(out, fields) })
	}
	return err == nil, err
}

// have says whether both files of a bin exist, whole, each in the working folder or already at its
// place. Both are named by their content and appear only when they are whole; header and size
// are looked at all the same.
func (d Draft) have(ctx context.Context, b *Bin) (bool, error) {
	for _, name := range []string{b.IndexName(), b.DataName()} {
		at, err := d.Find(ctx, name)
		if at == "" || err != nil {
			return false, err
		}
		if name != b.DataName() {
			continue
		}
		head, size, err := readHead(ctx, d.Store, at)
		if err != nil {
			return false, err
		}
		if binfmt.CheckBin(at, size, "", head, b.Bin) != nil {
			return false, nil
		}
	}
	return true, nil
}

func readHead(ctx context.Context, st store.Store, name string) (head []byte, size int64, err error) {
	f, err := st.Open(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	head = make([]byte, min(f.Size(), binfmt.HeaderSize))
	return head, f.Size(), f.ReadRanges(ctx, []store.Range{{Off: 0, Buf: head}})
}

// BinWriter writes the parts of one bin, in order.
type BinWriter struct {
	out io.Writer
	at  int64
}

// At fills up to the offset of the next part, which is then written with Write, and returns how far this went.
func (w *BinWriter) At(off int64) (int64, error) {
	var zeros [4 << 10]byte
	from := w.at
	for w.at < off {
		if _, err := w.Write(zeros[:min(off-w.at, int64(len(zeros)))]); err != nil {
			return 0, err
		}
	}
	return w.at - from, nil
}

// Write implements io.Writer.
func (w *BinWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.at += int64(n)
	return n, err
}
