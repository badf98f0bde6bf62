package binfmt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// SumsName is the name, in a dataset's folder, of the file with the checksums of all parts. It is there only if somebody
// added sums to a dataset whose index has none; the dataset's identity is the same with it and without.
const SumsName = "dataset.sums"

const (
	sumsMagic   = "SASUM\n\x1a\n"
	sumsVersion = 1
	sumsHead    = 64
	sumSize     = 4
	// maxBinSums bounds what is held of one bin's sums in memory, in bytes: 16 million parts.
	maxBinSums = 64 << 20
)

// Sums is the layout of a dataset's file of sums: a header, then for each bin the CRC32C of every part, sample by sample and
// field by field, and the CRC32C of these numbers.
type Sums struct {
	m      *Manifest
	fields []string // that are in bins
	ends   []uint64 // samples up to the end of each bin
}

// NewSums returns the layout of a dataset's sums.
func NewSums(m *Manifest) *Sums {
	s := &Sums{m: m, ends: m.ends()}
	for _, f := range m.Fields {
		if f.Kind.InBin() {
			s.fields = append(s.fields, f.Name)
		}
	}
	return s
}

// Size is the length of the file.
func (s *Sums) Size() int64 {
	if len(s.m.Bins) == 0 {
		return sumsHead
	}
	off, n := s.Range(len(s.m.Bins) - 1)
	return off + n
}

// Range is where the sums of a bin are in the file.
func (s *Sums) Range(bin int) (off, n int64) {
	before := s.ends[bin] - uint64(s.m.Bins[bin].Samples)
	width := sumSize * int64(len(s.fields))
	return sumsHead + int64(before)*width + sumSize*int64(bin), s.m.Bins[bin].Samples*width + sumSize
}

// Header returns the first bytes of the file.
func (s *Sums) Header() []byte {
	h := make([]byte, sumsHead)
	copy(h, sumsMagic)
	binary.LittleEndian.PutUint32(h[8:], sumsVersion)
	binary.LittleEndian.PutUint32(h[12:], uint32(len(s.fields)))
	binary.LittleEndian.PutUint64(h[16:], uint64(s.m.Samples()))
	identity := s.m.Identity()
	copy(h[32:], identity[:])
	return h
}

// Put notes the sum of a part in the bytes of its bin's range. Several goroutines may put different parts.
func (s *Sums) Put(piece []byte, row int64, field string, crc uint32) {
	if i := slices.Index(s.fields, field); i >= 0 {
		binary.LittleEndian.PutUint32(piece[sumSize*(row*int64(len(s.fields))+int64(i)):], crc)
	}
}

// Seal finishes the bytes of a bin's range, when all its parts are put.
func (s *Sums) Seal(piece []byte) {
	end := len(piece) - sumSize
	binary.LittleEndian.PutUint32(piece[end:], CRC32C(0, piece[:end]))
}

// SumsFile is an open file of sums.
type SumsFile interface {
	// ReadAt fills b from an offset, or fails.
	ReadAt(ctx context.Context, b []byte, off int64) error
	Size() int64
	Close() error
}

// SumsReader gives sums out of a file. It is safe for concurrent use.
type SumsReader struct {
	*Sums
	name string
	f    SumsFile
}

// OpenSums checks the head of a file of sums. One of another dataset, or of another version of this one, is ErrMismatch, and
// means nothing; any other fault of the file is ErrIndex. After an error the file is the caller's to close.
func OpenSums(ctx context.Context, m *Manifest, name string, f SumsFile) (*SumsReader, error) {
	r := &SumsReader{Sums: NewSums(m), name: name, f: f}
	if err := r.checkHead(ctx); err != nil {
		return nil, fmt.Errorf("binfmt.OpenSums %s: %w", name, err)
	}
	return r, nil
}

const sumsAdvice = "remove the file, or make it again with `stepahead verify --checksum`"

func (r *SumsReader) checkHead(ctx context.Context) error {
	if r.f.Size() < sumsHead {
		return fmt.Errorf("%d bytes, the header alone has %d: %s: %w", r.f.Size(), sumsHead, sumsAdvice, ErrIndex)
	}
	head := make([]byte, sumsHead)
	if err := r.f.ReadAt(ctx, head, 0); err != nil {
		return err
	}
	want := r.Header()
	switch version := binary.LittleEndian.Uint32(head[8:]); {
	case string(head[:8]) != sumsMagic:
		return fmt.Errorf("it begins with % x, which no file of sums does: %s: %w", head[:8], sumsAdvice, ErrIndex)
	case version != sumsVersion:
		return fmt.Errorf("version %d, this program reads %d: %w", version, sumsVersion, ErrVersion)
	case !slices.Equal(head[32:], want[32:]):
		return fmt.Errorf("the sums are those of the dataset %x, this one is %x: %w", head[32:40], want[32:40], ErrMismatch)
	case !slices.Equal(head, want):
		return fmt.Errorf("%d fields and %d samples: the dataset has others: %s: %w", binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint64(head[16:]), sumsAdvice, ErrIndex)
	case r.f.Size() != r.Size():
		return fmt.Errorf("%d bytes, want %d: %s: %w", r.f.Size(), r.Size(), sumsAdvice, ErrIndex)
	}
	return nil
}

// WithSums returns the index of a bin with the sums of its parts: those of the file for parts that have none in the index. Without
// an error, closing the result closes the index.
func (r *SumsReader) WithSums(ctx context.Context, x BinIndex, bin int) (BinIndex, error) {
	off, n := r.Range(bin)
	piece := make([]byte, n)
	if err := r.f.ReadAt(ctx, piece, off); err != nil {
		return nil, fmt.Errorf("binfmt.WithSums %s: %w", r.name, err)
	}
	end := n - sumSize
	if want, got := binary.LittleEndian.Uint32(piece[end:]), CRC32C(0, piece[:end]); want != got {
		return nil, fmt.Errorf("binfmt.WithSums %s: the sums of bin %d at offset %d have the CRC32C %08x, the file says %08x: %s: %w", r.name, bin, off, got, want, sumsAdvice, ErrIndex)
	}
	return &summed{BinIndex: x, sums: r.Sums, piece: piece[:end]}, nil
}

// Close closes the file.
func (r *SumsReader) Close() error { return r.f.Close() }

// summed is an index with sums beside it.
type summed struct {
	BinIndex
	sums  *Sums
	piece []byte
}

// Part implements BinIndex.
func (x *summed) Part(row int64, field string) (Part, error) {
	p, err := x.BinIndex.Part(row, field)
	if err != nil || p.HasCRC {
		return p, err
	}
	i := slices.Index(x.sums.fields, field)
	p.CRC, p.HasCRC = binary.LittleEndian.Uint32(x.piece[sumSize*(row*int64(len(x.sums.fields))+int64(i)):]), true
	return p, nil
}

// UseSums makes the parts of foreign bins have the sums that were added to the dataset, if there are any: open opens the file, which
// has that name; Close then closes it. Sums of another version of the dataset mean nothing. It comes before the first use of the dataset.
// Bins of tokens, which are read in windows that have no sums, and bins with more parts than should be held in memory do without.
func (d *Dataset) UseSums(ctx context.Context, name string, open func(ctx context.Context) (SumsFile, error)) error {
	if d.m.Format < FormatForeign {
		return nil
	}
	f, err := open(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("binfmt.UseSums: %w", err)
	}
	sums, err := OpenSums(ctx, d.m, name, f)
	switch {
	case errors.Is(err, ErrMismatch):
		return f.Close()
	case err != nil:
		return errors.Join(err, f.Close())
	}
	d.sums = sums
	return nil
}

// withSums gives the index of a bin its sums.
func (d *Dataset) withSums(ctx context.Context, x BinIndex, bin int) (BinIndex, error) {
	b := d.m.Bins[bin]
	if d.sums == nil || b.Foreign == nil || b.container() == Megatron {
		return x, nil
	}
	if _, n := d.sums.Range(bin); n > maxBinSums {
		return x, nil
	}
	with, err := d.sums.WithSums(ctx, x, bin)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return with, nil
}
