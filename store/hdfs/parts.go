package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

var _ store.PartsCreator = (*Store)(nil)

// CreateParts implements store.PartsCreator. Each part is a file beside the name, under one that List leaves out; Close has the
// NameNode join them, which moves no bytes, and rename the result. Parts that are no whole number of blocks leave blocks that are shorter than the others. Where the NameNode
// refuses to join (a snapshot holds a part, a proxy that does not know the call), Close copies the parts into one file instead; of a NameNode that does not
// know the call that is remembered, and the next CreateParts is errors.ErrUnsupported.
func (s *Store) CreateParts(ctx context.Context, name string) (store.PartsWriter, error) {
	err := s.change(ctx, name)
	if err == nil && s.writes.noConcat.Load() {
		err = fmt.Errorf("%w: the NameNode joins no files", errors.ErrUnsupported)
	}
	var guard *draft
	if err == nil {
		guard, err = s.writes.create(ctx, s.path(name))
	}
	if err != nil {
		return nil, s.failed("CreateParts", name, err)
	}
	return &partsWriter{s: s, name: name, guard: guard}, nil
}

// partsWriter is a file of which each part is a draft. Another draft, the guard, is open and without content for as long as there are
// parts: its lease tells that their writer lives, see removeDead.
type partsWriter struct {
	s     *Store
	name  string
	guard *draft
	over  bool // after Close or Abort

	named atomic.Int64 // parts that got a name
	mu    sync.Mutex
	parts []filePart
	err   error // of a part
}

// filePart is a part that is stored.
type filePart struct {
	*draft
	span store.Span
}

// partMark stands between the name of a guard and the number of a part.
const partMark = "."

// guardOf is the name of the guard of a part's draft.
func guardOf(name string) (guard string, ok bool) {
	folder, base := path.Split(name)
	own, _, ok := strings.Cut(strings.TrimPrefix(base, tempPrefix), partMark)
	return folder + tempPrefix + own, ok
}

// WritePart implements store.PartsWriter.
func (p *partsWriter) WritePart(ctx context.Context, off int64, data [][]byte) error {
	if p.over {
		return p.s.failed("WritePart", p.name, fs.ErrClosed)
	}
	d, n, err := p.write(ctx, data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if d != nil {
		p.parts = append(p.parts, filePart{d, store.Span{Off: off, Len: n}})
	}
	if err != nil {
		p.err = err
		return p.s.failed("WritePart", p.name, err)
	}
	return nil
}

// write stores a part; nil if it is empty.
func (p *partsWriter) write(ctx context.Context, data [][]byte) (*draft, int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.guard.ctx, func() { cancel(context.Cause(p.guard.ctx)) })()
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	var d *draft
	n := int64(0)
	for _, b := range data {
		if len(b) == 0 {
			continue
		}
		if d == nil {
			var err error
			if d, err = p.part(ctx); err != nil {
				return nil, 0, err
			}
		}
		if _, err := d.Write(b); err != nil {
			return nil, 0, errors.Join(err, d.abort())
		}
		n += int64(len(b))
	}
	if d == nil {
		return nil, 0, nil
	}
	if err := d.Close(); err != nil {
		return nil, 0, errors.Join(err, d.abort())
	}
	d.ctx = p.guard.ctx
	return d, n, nil
}

// part starts the draft of a part.
func (p *partsWriter) part(ctx context.Context) (*draft, error) {
	w := p.s.writes
	s, err := w.shape(ctx)
	if err != nil {
		return nil, err
	}
	own := p.guard.path + partMark + strconv.FormatInt(p.named.Add(1), 10)
	d := &draft{output: &output{w: w, ctx: ctx, path: own, holder: p.guard.holder, size: s.blockSize, replicas: s.replicas}, final: p.guard.final}
	status, err := d.begin(s)
	if errors.Is(err, namenode.ErrOutcomeUnknown) {
		return nil, errors.Join(err, d.clear())
	}
	if err != nil {
		return nil, err
	}
	d.id = status.GetFileId()
	d.keep()
	return d, nil
}

// Close implements store.PartsWriter.
func (p *partsWriter) Close() error {
	if p.over {
		return p.s.failed("Close", p.name, fs.ErrClosed)
	}
	err := p.guard.ctx.Err()
	if err == nil {
		err = p.err
	}
	if err == nil {
		err = p.publish()
		p.s.layouts.forget(p.guard.final)
	}
	p.over = true
	left := p.clear()
	if err != nil {
		return p.s.failed("Close", p.name, errors.Join(err, left))
	}
	return nil // what is left has no name that anybody sees, and is removed by the next writer
}

// publish makes one file of the parts and gives it its name.
func (p *partsWriter) publish() error {
	slices.SortFunc(p.parts, func(a, b filePart) int { return cmp.Compare(a.span.Off, b.span.Off) })
	spans := make([]store.Span, len(p.parts))
	for i, part := range p.parts {
		spans[i] = part.span
	}
	if _, err := store.JoinSpans(spans); err != nil {
		return err
	}
	if len(p.parts) == 0 {
		return p.guard.publish()
	}
	err := p.join()
	if errors.Is(err, errNotJoined) {
		return p.copy()
	}
	if err != nil {
		return err
	}
	return p.parts[0].rename()
}

// Abort implements store.PartsWriter.
func (p *partsWriter) Abort() error {
	if p.over {
		return nil
	}
	p.over = true
	if err := p.clear(); err != nil {
		return p.s.failed("Abort", p.name, err)
	}
	return nil
}

// clear removes all drafts that were not given the name, the guard last.
func (p *partsWriter) clear() error {
	var errs []error
	for _, part := range p.parts {
		errs = append(errs, part.abort())
	}
	return errors.Join(append(errs, p.guard.abort())...)
}
