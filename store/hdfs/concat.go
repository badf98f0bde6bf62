package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// mostJoined is how many files one call joins: the NameNode serves nobody else meanwhile.
const mostJoined = 256

// errNotJoined: the NameNode does not join the parts. They are as they were, or a first part of them is joined.
var errNotJoined = errors.New("the NameNode does not join the parts of the file")

// join makes the first of the sorted parts the whole file.
func (p *partsWriter) join() error {
	w, ctx, target := p.s.writes, p.guard.ctx, p.parts[0]
	size := target.span.Len
	for some := range slices.Chunk(p.parts[1:], mostJoined) {
		var names []string
		for _, part := range some {
			names = append(names, part.path)
			size += part.span.Len
		}
		if err := w.names.Concat(ctx, target.path, names...); err != nil && !p.joined(target.draft, size, err) {
			return w.notJoined(target.failed(err))
		}
		for _, part := range some {
			part.done = true // it is part of the target
		}
	}
	return nil
}

// joined tells whether a call took place that failed; see draft.published.
func (p *partsWriter) joined(target *draft, size int64, err error) bool {
	if !errors.Is(err, namenode.ErrOutcomeUnknown) && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	ctx, cancel := target.cleanContext()
	defer cancel()
	status, err := p.s.writes.names.GetFileInfo(ctx, target.path)
	return err == nil && status.GetFileId() == target.id && int64(status.GetLength()) == size
}

// notJoined tells a refusal to join from other failures. That a NameNode does not know the call is remembered.
func (w *writing) notJoined(err error) error {
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported), remote.Class == "java.lang.UnsupportedOperationException":
		w.noConcat.Store(true)
	case store.ClassOf(err) != store.ClassUnknown && !errors.Is(err, fs.ErrInvalid):
		return err // it says something about the store, not about the call
	}
	return fmt.Errorf("%w: %w", errNotJoined, err)
}

// copied is how many bytes are copied at a time.
const copied = 8 << 20

// copy writes the sorted parts into one file.
func (p *partsWriter) copy() error {
	w, ctx := p.s.writes, p.guard.ctx
	shape, err := w.shape(ctx)
	if err != nil {
		return err
	}
	d, err := w.draft(ctx, p.guard.final, shape)
	if err != nil {
		return err
	}
	buf := make([]byte, copied)
	for _, part := range p.parts {
		if part.done {
			continue // the first one has it
		}
		if err := p.s.copyTo(ctx, d, part.path, buf); err != nil {
			return errors.Join(err, d.abort())
		}
	}
	return errors.Join(d.publish(), d.abort())
}

// copyTo writes what a path holds into a draft.
func (s *Store) copyTo(ctx context.Context, d *draft, from string, buf []byte) error {
	defer s.layouts.forget(from)
	l, _, err := s.open(ctx, from)
	if err != nil {
		return err
	}
	f := &file{s: s, name: from, l: l}
	for off := int64(0); off < f.Size(); {
		n := min(int64(len(buf)), f.Size()-off)
		if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf[:n]}}); err != nil {
			return err
		}
		if _, err := d.Write(buf[:n]); err != nil {
			return err
		}
		off += n
	}
	return nil
}
