package sources

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

const (
	pieceSize = 4 << 20
	// ahead is how many pieces are read while one is written.
	ahead = 3
	// compares is how many pieces of the copy are read back at once: it lies on several nodes.
	compares = 4
)

// castagnoli is the polynomial of CRC32C.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// copying is the copy of one file beside another: read while it is written, then read back and compared.
type copying struct {
	st        store.Store
	from, to  string
	size      int64
	identity  store.Identity
	placement store.Placement
	tools     controller.Tools
	pace      *pace

	sums   []uint32           // of each piece, as it was read
	cancel context.CancelFunc // ends the life of the Writer
}

// piece is some bytes on their way.
type piece struct{ buf []byte }

// run makes the file and returns the CRC32C of its content.
func (c *copying) run(ctx context.Context) (uint32, error) {
	ctx = store.WithLane(ctx, store.Bulk)
	sum, err := c.write(ctx)
	if err != nil {
		return 0, err
	}
	return sum, c.compare(ctx)
}

// create begins the file. The Writer lives as long as life.
func (c *copying) create(ctx, life context.Context) (store.Writer, error) {
	placed, ok := c.st.(store.PlacedCreator)
	if !ok {
		return nil, fmt.Errorf("%s: this store does not let a writer choose nodes: %w", c.st.Address(c.to), errors.ErrUnsupported)
	}
	var w store.Writer
	err := c.change(ctx, func() (err error) {
		w, err = placed.CreatePlaced(life, c.to, c.placement)
		return err
	})
	return w, err
}

// change makes a change with the Writer, whose life ends with the time that the change may take.
func (c *copying) change(ctx context.Context, do func() error) error {
	return temporary.Change(ctx, c.tools.Fence, func(bounded context.Context) error {
		defer context.AfterFunc(bounded, c.cancel)()
		return do()
	})
}

// write reads the original and writes the copy, both at once.
func (c *copying) write(ctx context.Context) (sum uint32, err error) {
	original, err := c.st.Open(ctx, c.from)
	if err != nil {
		return 0, err
	}
	defer original.Close()
	if original.Identity() != c.identity {
		return 0, &store.IdentityError{Name: c.st.Address(c.from), Pinned: c.identity, Now: original.Identity()}
	}
	group, ctx := errgroup.WithContext(ctx)
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	c.cancel = cancel
	w, err := c.create(ctx, life)
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	full, free := make(chan piece, ahead), make(chan piece, ahead)
	for range ahead {
		free <- piece{}
	}
	group.Go(func() error { return c.read(ctx, original, free, full) })
	group.Go(func() (err error) {
		sum, err = c.drain(ctx, w, full, free)
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return sum, nil
}

// read fills pieces in their order.
func (c *copying) read(ctx context.Context, f store.File, free <-chan piece, full chan<- piece) error {
	for off := int64(0); off < c.size; off += pieceSize {
		n := min(pieceSize, c.size-off)
		if err := c.pace.take(ctx, n); err != nil {
			return err
		}
		select {
		case p := <-free:
			if p.buf == nil {
				p.buf = make([]byte, pieceSize)
			}
			p.buf = p.buf[:n]
			if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: p.buf}}); err != nil {
				return err
			}
			full <- p // it has room for all there are
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	close(full)
	return nil
}

// drain writes pieces, and closes the file behind the last one.
func (c *copying) drain(ctx context.Context, w store.Writer, full <-chan piece, free chan<- piece) (sum uint32, err error) {
	var done int64
	for {
		select {
		case p, more := <-full:
			if !more {
				return sum, c.change(ctx, w.Close)
			}
			sum = crc32.Update(sum, castagnoli(), p.buf)
			c.sums = append(c.sums, crc32.Checksum(p.buf, castagnoli()))
			if _, err := w.Write(p.buf); err != nil {
				return 0, err
			}
			done += int64(len(p.buf))
			if c.tools.Progress != nil {
				c.tools.Progress(done)
			}
			free <- p
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// compare reads the copy back.
func (c *copying) compare(ctx context.Context) error {
	f, err := c.st.Open(ctx, c.to)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Size() != c.size {
		return fmt.Errorf("%w: %s has %d bytes, %d were written", store.ErrCorrupt, c.st.Address(c.to), f.Size(), c.size)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(compares)
	for i, want := range c.sums {
		group.Go(func() error { return c.comparePiece(ctx, f, int64(i)*pieceSize, want) })
	}
	return group.Wait()
}

func (c *copying) comparePiece(ctx context.Context, f store.File, off int64, want uint32) error {
	buf := make([]byte, min(pieceSize, c.size-off))
	if err := c.pace.take(ctx, int64(len(buf))); err != nil {
		return err
	}
	if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}}); err != nil {
		return err
	}
	if got := crc32.Checksum(buf, castagnoli()); got != want {
		return fmt.Errorf("%w: %s: %d bytes at %d have the CRC32C %08x, those of the original %08x", store.ErrCorrupt, c.st.Address(c.to), len(buf), off, got, want)
	}
	return nil
}
