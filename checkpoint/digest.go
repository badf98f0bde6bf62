package checkpoint

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// piece is what one read of a digest asks for: large enough that a round trip costs little.
	piece = 8 << 20
	// digestReads files are read at once.
	digestReads = 4
)

// ReadOptions say how to read all of a checkpoint. The zero value is usable.
type ReadOptions struct {
	// Rate bounds the reading, in bytes per second; 0 does not.
	Rate int64
	// Progress, if not nil, is called with the bytes read so far, of Bytes; one call at a time.
	Progress func(done int64)
}

// Digest reads all files, a few at a time and with a few pieces of memory, and says what they hold. Files that changed since the
// checkpoint was opened are store.ErrIdentity.
func (c *Checkpoint) Digest(ctx context.Context, o ReadOptions) (*Digest, error) {
	return c.readAll(ctx, o, func(int) consumer { return nil })
}

// consumer is given a file's bytes in order, after the sum is made of them.
type consumer func(b []byte)

func (c *Checkpoint) readAll(ctx context.Context, o ReadOptions, consume func(file int) consumer) (*Digest, error) {
	s := &stream{c: c, o: o, pacer: store.NewPacer(o.Rate), sums: make([]uint32, len(c.Files))}
	g, ctx := errgroup.WithContext(ctx)
	next := atomic.Int64{}
	for range min(digestReads, len(c.Files)) {
		g.Go(func() error {
			buf := make([]byte, piece)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(c.Files) {
					return nil
				}
				if err := s.file(ctx, i, buf, consume(i)); err != nil {
					return fmt.Errorf("checkpoint: %w", err)
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return c.DigestOf(s.sums), nil
}

// stream is the reading of all files.
type stream struct {
	c     *Checkpoint
	o     ReadOptions
	pacer *store.Pacer
	sums  []uint32

	mu   sync.Mutex
	done int64
}

func (s *stream) file(ctx context.Context, i int, buf []byte, consume consumer) (err error) {
	f, err := s.c.OpenFile(ctx, i)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	for off := int64(0); off < f.Size(); {
		b := buf[:min(int64(len(buf)), f.Size()-off, s.pacer.Piece())]
		if err := store.Sleep(ctx, s.pacer.Reserve(time.Now(), int64(len(b)))); err != nil {
			return err
		}
		if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: b}}); err != nil {
			return fmt.Errorf("%s: %w", s.c.at(s.c.Files[i]), err)
		}
		s.sums[i] = crc32.Update(s.sums[i], castagnoli, b)
		if consume != nil {
			consume(b)
		}
		off += int64(len(b))
		s.count(int64(len(b)))
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *stream) count(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += n
	if s.o.Progress != nil {
		s.o.Progress(s.done)
	}
}
