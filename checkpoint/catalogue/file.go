package catalogue

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// file is a file whose bytes are read elsewhere as long as that works.
type file struct {
	store.File // the original, pinned at Open
	s          *Store
	row        Row
	url        string
	sum        *sum // nil: no sum is known
	elsewhere  source
	fallen     atomic.Bool
	closed     atomic.Bool
}

var (
	_ store.ReplicaReader = (*file)(nil)
	_ store.Bridger       = (*file)(nil)
	_ store.Checksummer   = (*file)(nil)
)

// source is where else the bytes of a file are.
type source interface {
	// read fills ranges that are inside the file. fallback is how the original is read. An originalError is the original's, all others are of what the row leads to.
	read(ctx context.Context, r []store.Range, fallback func(ctx context.Context, r []store.Range) error) error
	// place is the store of the row, and what the place is called outside of it.
	place() (store.Store, string)
	bridges() int64
	close() error
}

// ReadRanges implements store.File.
func (f *file) ReadRanges(ctx context.Context, r []store.Range) error {
	if f.fallen.Load() || f.closed.Load() || store.CheckRanges(r, f.Size()) != nil {
		return f.original(ctx, r) // which says what is wrong
	}
	err := f.elsewhere.read(ctx, r, f.original)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var of *originalError
	switch {
	case errors.As(err, &of) && of.read:
		return of.error
	case errors.As(err, &of):
		if !f.closed.Load() && !f.fallen.Swap(true) {
			f.s.fell(f.row, ReasonPlaces, f.url, of.error)
		}
		return f.original(ctx, r)
	case err != nil:
		if !f.closed.Load() {
			f.fall(ctx, err)
		}
		return f.original(ctx, r)
	}
	if f.sum == nil {
		return nil
	}
	if before, ok := f.sum.add(r); !ok {
		return f.repair(ctx, r, before)
	}
	return nil
}

// originalError is what the original, or its store, failed with. It says nothing about what the row leads to, which stays in use.
type originalError struct {
	error
	read bool // the original was read, and that is the error of the whole
}

// original reads the original although a row leads elsewhere.
func (f *file) original(ctx context.Context, r []store.Range) error {
	err := f.File.ReadRanges(ctx, r)
	if err == nil {
		f.s.count(&f.s.stats.OriginalBytes, r)
	}
	return err
}

// fall makes all reads that follow those of the original.
func (f *file) fall(ctx context.Context, err error) {
	if f.fallen.Swap(true) {
		return
	}
	reason := reasonOf(err)
	f.s.suspend(f.row)
	f.s.fell(f.row, reason, f.url, err)
	if reason != ReasonRead {
		st, what := f.elsewhere.place()
		f.s.damaged(ctx, st, f.row, what, err)
	}
}

// repairPiece is how much of the original is read at a time to compare what was handed out.
const repairPiece = 4 << 20

// repair reads again from the original what the last read of a file with a wrong sum has put into memory. What other reads got before is compared with the original: if it is what
// that has, nobody has got a wrong byte.
func (f *file) repair(ctx context.Context, r []store.Range, before []piece) error {
	f.fall(ctx, fmt.Errorf("all %d bytes were read, and their CRC32C is not that of the row: %w", f.Size(), store.ErrCorrupt))
	if err := f.original(ctx, r); err != nil {
		return err
	}
	buf := make([]byte, min(repairPiece, f.Size()))
	for _, p := range before {
		got := uint32(0)
		for at := p.off; at < p.end(); {
			b := buf[:min(int64(len(buf)), p.end()-at)]
			if err := f.original(ctx, []store.Range{{Off: at, Buf: b}}); err != nil {
				return err
			}
			got = crc32.Update(got, f.sum.table, b)
			at += int64(len(b))
		}
		if got != p.crc {
			_, what := f.elsewhere.place()
			return fmt.Errorf("%s: the bytes %d to %d that were read before came from %s and are wrong: %w: open the file again, the original is read now",
				f.url, p.off, p.end(), what, store.ErrCorrupt)
		}
	}
	return nil
}

// ReadReplica implements store.ReplicaReader: of the original, as the nodes are that Locate names.
func (f *file) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	if inner, ok := f.File.(store.ReplicaReader); ok {
		return inner.ReadReplica(ctx, node, r)
	}
	return errors.ErrUnsupported
}

// CRC32C implements store.Checksummer: of the original.
func (f *file) CRC32C(ctx context.Context) (uint32, error) {
	if inner, ok := f.File.(store.Checksummer); ok {
		return inner.CRC32C(ctx)
	}
	return 0, fmt.Errorf("CRC32C %s: %w", f.url, errors.ErrUnsupported)
}

// Bridges implements store.Bridger.
func (f *file) Bridges() int64 { return f.elsewhere.bridges() }

// Close implements store.File.
func (f *file) Close() error {
	err := f.File.Close()
	if !f.closed.Swap(true) {
		_ = f.elsewhere.close() // nothing was written
	}
	return err
}

const (
	// patience is how long a read elsewhere may take, and slowest the rate, in bytes a second, that it must keep beyond that.
	patience = 10 * time.Second
	slowest  = 1 << 20
)

// patiently bounds a read elsewhere.
func patiently(ctx context.Context, r []store.Range) (context.Context, context.CancelFunc) {
	n := int64(0)
	for _, x := range r {
		n += int64(len(x.Buf))
	}
	return context.WithTimeout(ctx, patience+time.Duration(n)*time.Second/slowest)
}

// openCopy opens the copy of a file beside its original; nil where there is none to be used.
func (s *Store) openCopy(ctx context.Context, name string, original store.File) store.File {
	row, entry, ok := s.copyOf(ctx, name)
	if !ok {
		return nil
	}
	url := s.Address(name)
	if s.isSuspended(row) {
		s.fell(row, ReasonSuspended, url, nil)
		return nil
	}
	if entry.Original != original.Identity() || entry.Size != original.Size() {
		s.fell(row, ReasonChanged, url, &store.IdentityError{Name: url, Pinned: entry.Original, Now: original.Identity()})
		return nil
	}
	here := path.Join(row.Copy.Place, entry.Name)
	limited, stop := patiently(ctx, nil)
	defer stop()
	c, err := s.o.Site.Open(limited, here)
	if ctx.Err() != nil {
		return nil // the original says so at its first read
	}
	if err == nil && (c.Identity() != entry.Here || c.Size() != entry.Size) {
		c.Close()
		err = &store.IdentityError{Name: s.o.Site.Address(here), Pinned: entry.Here, Now: c.Identity()}
	}
	if err != nil {
		reason := reasonOf(err)
		s.suspend(row)
		s.fell(row, reason, url, err)
		if reason != ReasonRead {
			s.damaged(ctx, s.o.Site, row, s.o.Site.Address(here), err)
		}
		return nil
	}
	from := &copied{s: s, File: c, url: s.o.Site.Address(here)}
	return &file{File: original, s: s, row: row, url: url, sum: newSum(entry.Size, entry.CRC32C), elsewhere: from}
}

// copied is a file of a copy.
type copied struct {
	store.File
	s   *Store
	url string
}

func (c *copied) read(ctx context.Context, r []store.Range, _ func(context.Context, []store.Range) error) error {
	ctx, stop := patiently(ctx, r)
	defer stop()
	err := c.ReadRanges(ctx, r)
	if err == nil {
		c.s.count(&c.s.stats.CopyBytes, r)
	}
	return err
}

func (c *copied) place() (store.Store, string) { return c.s.o.Site, c.url }
func (c *copied) bridges() int64               { return store.BridgesOf(c.File) }
func (c *copied) close() error                 { return c.Close() }
