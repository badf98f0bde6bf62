package save

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stepahead-io/stepahead/store"
)

// File is a new file that is written in order. Its methods are for one goroutine at a time; different files may be written at the same
// time.
type File struct {
	s       *stage
	name    string // in the store
	shown   string // in Saved
	replace bool
	ctx     context.Context // ends when the file is stored or the save has failed
	cancel  context.CancelCauseFunc

	// What follows is the stage's, under its lock.
	chunks  [][]byte // staged and in no part yet
	filled  int64    // bytes in them
	sealed  int64    // bytes in parts
	pending int      // parts that are not stored
	copying bool     // a Write is filling the last chunk
	ended   bool
	stored  bool // under its name
	saved   Saved
	err     error // of looking at what was stored

	// These belong to whoever stores a part, see send.go.
	busy  bool // one is, that others have to wait for
	parts store.PartsWriter
	whole store.Writer // where the store takes no parts
}

// Create starts a file of its own, that belongs to no save. It becomes visible, whole, at Close. A name that exists, or that another
// writer is writing, matches fs.ErrExist, here or at Close. ctx bounds the life of the file.
func Create(ctx context.Context, st store.Store, name string, l Limits) (*File, error) {
	return create(ctx, st, name, l, false)
}

// Replace is Create of a file that takes, at Close and in one step, the place of the one that has the name, if there is one. It is written
// beside, under a name of stepahead's own; what a killed process left there is removed.
func Replace(ctx context.Context, st store.Store, name string, l Limits) (*File, error) {
	return create(ctx, st, name, l, true)
}

func create(ctx context.Context, st store.Store, name string, l Limits, replace bool) (*File, error) {
	if err := errors.Join(l.Validate(), store.CheckName(name)); err != nil {
		return nil, err
	}
	return newStage(ctx, st, l).create(name, name, replace)
}

func (s *stage) create(name, shown string, replace bool) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	f := &File{s: s, name: name, shown: shown, replace: replace}
	for _, other := range s.files {
		if other.name == name {
			return nil, f.failed("Create", fs.ErrExist)
		}
	}
	f.ctx, f.cancel = context.WithCancelCause(s.ctx)
	s.files = append(s.files, f)
	return f, nil
}

// Write copies p, so it is the caller's again when Write returns. It waits only where staging memory is full. An error may be that of
// bytes which were written before, or of another file of the save.
func (f *File) Write(p []byte) (n int, err error) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		if f.ended {
			return n, f.failed("Write", fs.ErrClosed)
		}
		if s.err != nil {
			return n, s.err
		}
		if f.filled == int64(len(f.chunks))*chunk {
			c, err := s.take()
			if err != nil {
				return n, err
			}
			f.chunks = append(f.chunks, c) // which another may have queued meanwhile, and left none
		}
		n += f.fill(p[n:])
		if f.filled >= s.limits.PartSize {
			s.seal(f)
		}
	}
	return n, nil
}

// fill copies into the last chunk without the lock.
func (f *File) fill(p []byte) int {
	at := len(f.chunks) - 1
	last := f.chunks[at]
	n := int(min(int64(len(p)), int64(cap(last)-len(last)), f.s.limits.PartSize-f.filled))
	f.copying = true
	f.s.mu.Unlock()
	last = append(last, p[:n]...)
	f.s.mu.Lock()
	f.copying = false
	f.chunks[at] = last
	f.filled += int64(n)
	f.s.changed.Broadcast()
	return n
}

// End says that no more bytes follow. It does not wait: Close, or the save's Wait, tells whether the file was stored.
func (f *File) End() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.ended {
		return f.failed("End", fs.ErrClosed)
	}
	f.ended = true
	if f.s.err == nil {
		f.s.seal(f)
	}
	return f.s.err
}

// Close is End, and returns when the file is durable and visible under its name. It may follow End.
func (f *File) Close() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if !f.ended {
		f.ended = true
		if f.s.err == nil {
			f.s.seal(f)
		}
	}
	for !f.stored {
		if f.s.err != nil && f.s.workers == 0 {
			return f.s.err
		}
		f.s.changed.Wait() // what is under way ends with the context by itself
	}
	return f.err
}

// Abort gives the file up, and with it the save that it belongs to. A file that is stored is not touched. It returns when nothing is under way any more.
func (f *File) Abort() error {
	f.s.mu.Lock()
	if f.stored {
		f.s.mu.Unlock()
		return nil
	}
	f.ended = true
	f.s.fail(f.failed("Abort", ErrAborted))
	f.s.mu.Unlock()
	return f.s.quiet()
}

// quiet waits, after a failure, until nothing is under way any more. Its error is that of giving up what was.
func (s *stage) quiet() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.workers > 0 {
		s.changed.Wait()
	}
	return s.left
}

func (f *File) failed(op string, err error) error {
	return fmt.Errorf("save.%s %s: %w", op, f.s.st.Address(f.name), err)
}
