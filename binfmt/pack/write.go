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
	"github.com/stepahead-io/stepahead/store"
)

// streamAbove is the length above which a part is copied piece by piece instead of being read ahead
// as a whole: reading ahead is for the many small files.
const streamAbove = 4 << 20

// zeros is what padding is written from; it is never written to.
var zeros [64 << 10]byte

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
// place already.
func (w *binWriter) write(ctx context.Context, b *binPlan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := w.have(ctx, b)
	if err != nil {
		return err
	}
	if have {
		w.step(b.Bytes)
		return nil
	}
	err = w.draft.WriteFile(ctx, b.DataName(), func(out io.Writer) error { return w.writeParts(ctx, b, out) })
	if err == nil {
		err = w.draft.WriteFile(ctx, b.IndexName(), func(out io.Writer) error { return b.writeIndex(out, w.fields) })
	}
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

// have says whether both files of a bin exist, whole, each in the working folder or already at its
// place. Both are named by their content and appear only when they are whole; header and size
// are looked at all the same.
func (w *binWriter) have(ctx context.Context, b *binPlan) (bool, error) {
	for _, name := range []string{b.IndexName(), b.DataName()} {
		at, err := w.draft.Find(ctx, name)
		if err != nil {
			return false, fmt.Errorf("pack: %w", err)
		}
		if at == "" {
			return false, nil
		}
		if name != b.DataName() {
			continue
		}
		head, size, err := readHead(ctx, w.draft.Store, at)
		if err != nil {
			return false, fmt.Errorf("pack: %w", err)
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

// loaded is a part on its way from its file to the bin.
type loaded struct {
	done chan struct{}
	buf  *[]byte // nil: too large, or err
	err  error
}

// writeParts writes header and parts in order, while the next parts are read.
func (w *binWriter) writeParts(ctx context.Context, b *binPlan, out io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *loaded, w.ahead)
	g.Go(func() error {
		defer close(queue)
		for i, it := range b.items {
			w.expect(ctx, b.items, i)
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
	g.Go(func() error { return w.drain(ctx, b, queue, out) })
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

func (w *binWriter) drain(ctx context.Context, b *binPlan, queue <-chan *loaded, out io.Writer) error {
	head := binfmt.Header(b.uuid)
	if _, err := out.Write(head[:]); err != nil {
		return err
	}
	at := int64(len(head))
	w.step(at)
	for _, it := range b.items {
		l, ok := <-queue
		if !ok {
			return ctx.Err()
		}
		<-l.done
		if l.err != nil {
			return l.err
		}
		if err := pad(out, it.part.Off-at); err != nil {
			return err
		}
		if err := w.emit(ctx, it, l.buf, out); err != nil {
			return err
		}
		w.step(it.part.Off + it.part.Len - at)
		at = it.part.Off + it.part.Len
	}
	return ctx.Err()
}

func pad(out io.Writer, n int64) error {
	for n > 0 {
		m, err := out.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
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
	if err := ctx.Err(); err != nil || it.part.Len > streamAbove {
		return nil, err
	}
	f, err := w.openAgain(ctx, it)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := w.pool.get(it.part.Len)
	if _, err := io.ReadFull(f, *buf); err != nil {
		return nil, sourceError(it.Entry, err)
	}
	if err := it.part.Check(*buf); err != nil {
		return nil, sourceError(it.Entry, fmt.Errorf("%w: %w", err, ErrChanged))
	}
	return buf, nil
}

// openAgain opens a file for the second time, and finds out early if it is another one.
func (w *binWriter) openAgain(ctx context.Context, it item) (sourceFile, error) {
	f := w.files.open(ctx, []Entry{it.Entry})[0]
	if f.err != nil {
		return f, sourceError(it.Entry, gone(f.err))
	}
	if f.size != it.part.Len {
		err := fmt.Errorf("%d bytes, %d before: %w", f.size, it.part.Len, ErrChanged)
		return f, sourceError(it.Entry, errors.Join(err, f.Close()))
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
	sum := &summer{r: io.LimitReader(f, it.part.Len)}
	buf := make([]byte, 1<<20)
	for {
		n, err := sum.Read(buf)
		if n > 0 {
			if _, werr := out.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return sourceError(it.Entry, err)
		}
	}
	if sum.n != it.part.Len || sum.crc != it.part.CRC {
		return sourceError(it.Entry, fmt.Errorf("%d bytes with CRC32C %08x, before %d with %08x: %w", sum.n, sum.crc, it.part.Len, it.part.CRC, ErrChanged))
	}
	return nil
}

// writeIndex writes the bin's index.
func (b *binPlan) writeIndex(out io.Writer, fields []binfmt.Field) error {
	index, err := binfmt.NewIndexWriter(out, fields, b.uuid)
	if err != nil {
		return err
	}
	for _, it := range b.items {
		row := binfmt.Row{Key: it.Key, Parts: []binfmt.Part{it.part}, Scalars: it.Scalars}
		if err := index.Append(row); err != nil {
			return errors.Join(err, index.Close())
		}
	}
	return index.Close()
}
