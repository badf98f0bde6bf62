package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Limits of what one page takes in memory, and of the metadata at a file's end, in bytes.
const (
	maxPage   = 1 << 30
	maxFooter = 256 << 20
	// pageBuffer is what is read at once of a column.
	pageBuffer = 1 << 20
)

// whole is a file of a store, as a foreign.File.
type whole struct {
	ctx context.Context
	f   store.File
}

func (w whole) Size() int64 { return w.f.Size() }

// ReadAt implements foreign.File.
func (w whole) ReadAt(p []byte, off int64) (int, error) {
	if err := w.f.ReadRanges(w.ctx, []store.Range{{Off: off, Buf: p}}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// noticing is a file that remembers an error of the store, which is none of the Parquet file's.
type noticing struct {
	*io.SectionReader
	f   foreign.File
	err error
}

// ReadAt implements io.ReaderAt, with io.EOF at the end, which foreign.File does not give.
func (n *noticing) ReadAt(p []byte, off int64) (int, error) {
	size := n.f.Size()
	if off < 0 || off > size {
		return 0, fmt.Errorf("offset %d is outside the %d bytes of the file", off, size)
	}
	short := p[:min(int64(len(p)), size-off)]
	if len(short) > 0 {
		if _, err := n.f.ReadAt(short, off); err != nil {
			n.err = err
			return 0, err
		}
	}
	if len(short) < len(p) {
		return len(short), io.EOF
	}
	return len(p), nil
}

// opened is a Parquet file.
type opened struct {
	*file.Reader
	source *noticing
}

// open reads the metadata at a file's end.
func open(f foreign.File) (r *opened, err error) {
	source := &noticing{f: f}
	source.SectionReader = io.NewSectionReader(source, 0, f.Size())
	if err := footer(source); err != nil {
		return nil, err
	}
	props := parquet.NewReaderProperties(memory.NewGoAllocator())
	props.BufferedStreamEnabled, props.BufferSize, props.PageStreamingEnabled = true, pageBuffer, true
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = maxPage, maxPage
	err = guarded(source, func() error {
		in, err := file.NewParquetReader(source, file.WithReadProps(props))
		if err == nil && in.MetaData().IsSetEncryptionAlgorithm() {
			err = errors.New("it is encrypted: decrypt it first")
		}
		r = &opened{in, source}
		return err
	})
	return r, err
}

// footer looks at the last bytes, before memory is taken for what they promise.
func footer(source *noticing) error {
	const tail = 8
	size := source.f.Size()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), foreign.ErrContainer)
	}
	if size < tail+int64(len(magic)) {
		return bad("%d bytes: not a Parquet file", size)
	}
	var b [tail]byte
	if _, err := source.f.ReadAt(b[:], size-tail); err != nil {
		return err
	}
	n := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24
	switch end := string(b[4:]); {
	case end == magicEncrypted:
		return bad("it is encrypted: decrypt it first")
	case end != magic:
		return bad("it ends with %q, not with %s: not a Parquet file, cut, or still being written", end, magic)
	case n > maxFooter || n > size-tail-int64(len(magic)):
		return bad("metadata of %d bytes in a file of %d: damaged, or more than the limit of %d", n, size, maxFooter)
	}
	return nil
}

// guarded makes what the library says, or panics with over damaged content, an error of the container, and one of the store stay what it is.
func guarded(source *noticing, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged: %v", r)
		}
		switch {
		case source.err != nil:
			err = source.err
		case err != nil && !errors.Is(err, errSink):
			err = fmt.Errorf("%w: %w", err, foreign.ErrContainer)
		}
	}()
	return f()
}

// errSink marks an error of the sink, which is none of the file's.
var errSink = errors.New("the sample was not taken")

// group reads one row group, row by row: of each column there is one page in memory, or a piece of it.
type group struct {
	number  int
	columns []column
	row     foreign.Row
}

func (g *group) rows(ctx context.Context, r *opened, each func(foreign.Row) error) error {
	var sink error
	err := guarded(r.source, func() (err error) {
		in := r.RowGroup(g.number)
		readers := make([]cell, len(g.columns))
		for i, c := range g.columns {
			chunk, err := in.Column(c.leaf)
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", g.number, c.name, err)
			}
			defer func() { err = errors.Join(err, chunk.Close()) }()
			readers[i] = cellOf(chunk)
		}
		for i := range in.NumRows() {
			if i%256 == 0 && ctx.Err() != nil {
				sink = ctx.Err()
				return errSink
			}
			if err := g.read(i, readers); err != nil {
				return err
			}
			if sink = each(g.row); sink != nil {
				return errSink
			}
		}
		return g.ends(in.NumRows(), readers)
	})
	if sink != nil {
		return sink
	}
	return err
}

// read reads the next row.
func (g *group) read(row int64, readers []cell) error {
	g.row.Clear()
	for i, c := range g.columns {
		v, ok, err := readers[i].next()
		if err != nil {
			return fmt.Errorf("row group %d, row %d, column %q: %w", g.number, row, c.name, err)
		}
		if ok {
			c.put(v, &g.row)
		}
	}
	return nil
}

// ends makes sure that no column has more values than there are rows.
func (g *group) ends(rows int64, readers []cell) error {
	for i, c := range g.columns {
		if readers[i].more() {
			return fmt.Errorf("row group %d: column %q has more than the %d values that the group has rows", g.number, c.name, rows)
		}
	}
	return nil
}
