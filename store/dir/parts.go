package dir

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.PartsCreator = (*Store)(nil)

// CreateParts implements store.PartsCreator. Parts are written where they belong, in the file that a writer would write.
func (s *Store) CreateParts(ctx context.Context, name string) (store.PartsWriter, error) {
	w, err := s.create(ctx, name)
	if err != nil {
		return nil, failed(s.root, "CreateParts", name, err)
	}
	return &partsWriter{w: w}, nil
}

// partsWriter is a writer that is not written in order.
type partsWriter struct {
	w     *writer
	mu    sync.Mutex
	spans []store.Span
	err   error // of a part
}

func (p *partsWriter) WritePart(ctx context.Context, off int64, data [][]byte) error {
	if p.w.f == nil {
		return failed(p.w.root, "WritePart", p.w.name, fs.ErrClosed)
	}
	span, err := p.write(ctx, off, data)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = append(p.spans, span)
	if err != nil {
		p.err = err
		return failed(p.w.root, "WritePart", p.w.name, err)
	}
	return nil
}

func (p *partsWriter) write(ctx context.Context, off int64, data [][]byte) (store.Span, error) {
	span := store.Span{Off: off}
	for _, b := range data {
		if err := ctx.Err(); err != nil {
			return span, err
		}
		if err := p.w.ctx.Err(); err != nil {
			return span, err
		}
		n, err := p.w.f.WriteAt(b, off+span.Len)
		span.Len += int64(n)
		if err != nil {
			return span, err
		}
	}
	return span, nil
}

func (p *partsWriter) Close() error {
	p.mu.Lock()
	err := p.err
	if err == nil {
		_, err = store.JoinSpans(p.spans)
	}
	p.mu.Unlock()
	if err != nil {
		return failed(p.w.root, "Close", p.w.name, errors.Join(err, p.w.Abort()))
	}
	return p.w.Close()
}

func (p *partsWriter) Abort() error { return p.w.Abort() }
