package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
)

// streamAbove is the length above which a part is copied piece by piece instead of being read ahead
// as a whole: reading ahead is for the many small files.
const streamAbove = 4 << 20

// bufferPool keeps the memory of parts that were read ahead.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get(n int64) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && int64(cap(*b)) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n)
	return &b
}

// binWriter is the second pass: it writes bins.
type binWriter struct {
	files  sourceFiles
	draft  draft.Draft
	fields []binfmt.Field
	ahead  int // parts read ahead in each bin
	step   func(bytes int64)
	pool   bufferPool
}

// write makes a bin's two files in the working folder, unless they are there or at their final
// place already. items are those of the bin.
func (w *binWriter) write(ctx context.Context, b *draft.Bin, items []item) error {
	made, err := w.draft.WriteBin(ctx, b, w.fields, func(out *draft.BinWriter) error {
		w.step(binfmt.HeaderSize)
		return w.writeParts(ctx, items, out)
	})
	if err == nil && !made {
		w.step(b.Bytes)
	}
	return err
}

// loaded is a part on its way from its file to the bin.
type loaded struct {
	done chan struct{}
	buf  *[]byte // nil: too large, or err
	err  error
}

// writeParts writes parts in order, while the next parts are read.
func (w *binWriter) writeParts(ctx context.Context, items []item, out *draft.BinWriter) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *loaded, w.ahead)
	g.Go(func() error {
		defer close(queue)
		for i, it := range items {
			w.expect(ctx, items, i)
			l := &loaded{done: make(chan struct{})}
			select {
			case queue <- l:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer close(l.done)
				l.buf, l.err = w.load(ctx, it)
				return nil
			})
		}
		return nil
	})
	g.Go(func() error { return w.drain(ctx, items, queue, out) })
	return g.Wait()
}

// expect tells where the files are which ones come next, some at a time.
func (w *binWriter) expect(ctx context.Context, items []item, next int) {
	n := w.files.together()
	if n == 1 || next%n != 0 {
		return
	}
	var entries []Entry
	for _, it := range items[next:min(next+n, len(items))] {
		entries = append(entries, it.Entry)
	}
	w.files.expect(ctx, entries)
}

func (w *binWriter) drain(ctx context.Context, items []item, queue <-chan *loaded, out *draft.BinWriter) error {
	for _, it := range items {
		l, ok := <-queue
		if !ok {
			return ctx.Err()
		}
		<-l.done
		if l.err != nil {
			return l.err
		}
		filled, err := out.At(it.parts[0].Off)
		if err != nil {
			return err
		}
		if err := w.emit(ctx, it, l.buf, out); err != nil {
			return err
		}
		w.step(filled + it.parts[0].Len)
	}
	return ctx.Err()
}

// emit writes one part and gives its memory back.
func (w *binWriter) emit(ctx context.Context, it item, buf *[]byte, out io.Writer) error {
	if buf == nil {
		return w.stream(ctx, it, out)
	}
	_, err := out.Write(*buf)
	w.pool.pool.Put(buf)
	return err
}

// load reads a small part and compares it with what the first pass saw.
func (w *binWriter) load(ctx context.Context, it item) (*[]byte, error) {
	if err := ctx.Err(); err != nil || it.parts[0].Len > streamAbove {
		return nil, err
	}
	f, err := w.openAgain(ctx, it)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := w.pool.get(it.parts[0].Len)
	if _, err := io.ReadFull(f, *buf); err != nil {
		return nil, sourceError(w.files, it.Entry, err)
	}
	if err := it.parts[0].Check(*buf); err != nil {
		return nil, sourceError(w.files, it.Entry, fmt.Errorf("%w: %w", err, ErrChanged))
	}
	return buf, nil
}

// openAgain opens a file for the second time, and finds out early if it is another one.
func (w *binWriter) openAgain(ctx context.Context, it item) (sourceFile, error) {
	f := w.files.open(ctx, []Entry{it.Entry})[0]
	if f.err != nil {
		return f, sourceError(w.files, it.Entry, gone(f.err))
	}
	if f.size != it.parts[0].Len {
		err := fmt.Errorf("%d bytes, %d before: %w", f.size, it.parts[0].Len, ErrChanged)
		return f, sourceError(w.files, it.Entry, errors.Join(err, f.Close()))
	}
	return f, nil
}

// stream copies a large part. That it changed is known only at the end; the bin is then given up.
func (w *binWriter) stream(ctx context.Context, it item, out io.Writer) error {
	f, err := w.openAgain(ctx, it)
	if err != nil {
		return err
	}
	defer f.Close()
	part, buf, sum, n := &it.parts[0], make([]byte, 1<<20), uint32(0), int64(0)
	for in := io.LimitReader(f, part.Len); ; {
		m, err := in.Read(buf)
		sum, n = binfmt.CRC32C(sum, buf[:m]), n+int64(m)
		if _, werr := out.Write(buf[:m]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return sourceError(w.files, it.Entry, err)
		}
	}
	if n != part.Len || sum != part.CRC {
		return sourceError(w.files, it.Entry, fmt.Errorf("%d bytes with CRC32C %08x, before %d with %08x: %w", n, sum, part.Len, part.CRC, ErrChanged))
	}
	return nil
}
