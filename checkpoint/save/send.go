package save

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

// hire starts goroutines for the parts that can be stored now. They end when there is nothing to do.
func (s *stage) hire() {
	ready := 0
	for _, p := range s.queue {
		if p.f.free() {
			ready++
		}
	}
	if s.err != nil && s.workers == 0 {
		ready = 1
	}
	for ; ready > 0 && s.workers < s.limits.Parts; ready-- {
		s.workers++
		go s.work()
	}
}

// free tells whether a part of the file can be stored now.
func (f *File) free() bool { return f.parts != nil || !f.busy }

// work stores one part after the other.
func (s *stage) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		at := slices.IndexFunc(s.queue, func(p *part) bool { return p.f.free() })
		if at < 0 {
			break
		}
		p := s.queue[at]
		s.queue = slices.Delete(s.queue, at, at+1)
		alone := p.f.parts == nil
		p.f.busy = alone
		if err := s.store(p); err != nil {
			s.fail(err)
		}
		if alone {
			p.f.busy = false
		}
		s.free(p.chunks)
		s.hire()
	}
	if s.err != nil && s.workers == 1 {
		s.giveUp()
	}
	s.workers--
	s.changed.Broadcast()
}

// store stores a part, and then the file if it was the last that was missing. The lock is not held meanwhile.
func (s *stage) store(p *part) error {
	f := p.f
	whole := f.ended && f.sealed == p.bytes
	s.mu.Unlock()
	err := f.put(p, whole)
	s.mu.Lock()
	if err != nil {
		return err
	}
	f.pending--
	if !f.ended || f.pending > 0 || s.err != nil {
		return nil
	}
	s.mu.Unlock()
	err = f.publish()
	s.mu.Lock()
	if err != nil {
		return err
	}
	saved, err := f.look()
	f.saved, f.err, f.stored = saved, err, true // also if it could not be looked at: it is there, and may have to be removed
	f.cancel(nil)
	return err
}

// put stores the bytes of a part. whole: it is all that the file has.
func (f *File) put(p *part, whole bool) error {
	if p.bytes == 0 && !whole {
		return nil
	}
	if err := f.open(whole); err != nil {
		return f.failed("Create", err)
	}
	if f.parts != nil {
		return f.wrap("Write", f.parts.WritePart(f.ctx, p.off, p.chunks))
	}
	for _, c := range p.chunks {
		if _, err := f.whole.Write(c); err != nil {
			return f.failed("Write", err)
		}
	}
	return nil
}

// open starts the file in the store, if that was not done. Whoever has an unopened file has it alone.
func (f *File) open(whole bool) error {
	if f.parts != nil || f.whole != nil {
		return nil
	}
	err := f.start(whole)
	if f.replace && errors.Is(err, fs.ErrExist) { // what a killed process left
		if err := f.s.st.Remove(f.ctx, f.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = f.start(whole)
	}
	return err
}

func (f *File) start(whole bool) error {
	err := errors.ErrUnsupported
	if !whole {
		var parts store.PartsWriter
		if parts, err = store.CreateParts(f.ctx, f.s.st, f.path()); err == nil {
			f.s.mu.Lock()
			f.parts = parts // from now on others may store parts too
			f.s.hire()
			f.s.mu.Unlock()
			return nil
		}
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	w, err := f.s.st.Create(f.ctx, f.path())
	if err == nil {
		f.whole = w
	}
	return err
}

// path is where the file is written.
func (f *File) path() string {
	if f.replace {
		return beside(f.name)
	}
	return f.name
}

// beside is the name under which what replaces a file is whole before it is renamed: one that nobody's own file has.
func beside(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), fmt.Sprintf(".stepahead-new-%x", sum[:12]))
}

// publish closes the file, whose bytes are all stored.
func (f *File) publish() error {
	var err error
	if f.parts != nil {
		err = f.parts.Close()
	} else {
		err = f.whole.Close()
	}
	if err != nil {
		return f.failed("Close", err)
	}
	if f.replace {
		return f.wrap("Rename", f.s.st.Rename(f.ctx, f.path(), f.name))
	}
	return nil
}

// look finds out which version was stored. The lock is not held meanwhile.
func (f *File) look() (Saved, error) {
	f.s.mu.Unlock()
	defer f.s.mu.Lock()
	saved := Saved{Name: f.shown, Size: f.sealed}
	info, err := f.s.st.Stat(f.ctx, f.name)
	if err == nil && info.Size != saved.Size {
		err = fmt.Errorf("%w: %d bytes were stored, it has %d: another writer's?", store.ErrIdentity, saved.Size, info.Size)
	}
	if err != nil {
		return saved, f.failed("Stat", err)
	}
	saved.Identity = info.Identity
	return saved, nil
}

// giveUp gives up all files that are not stored, after a failure and when nothing is under way any more.
func (s *stage) giveUp() {
	for _, f := range s.files {
		parts, whole := f.parts, f.whole
		f.parts, f.whole = nil, nil
		if f.stored {
			continue
		}
		s.mu.Unlock()
		var err error
		if parts != nil {
			err = parts.Abort()
		} else if whole != nil {
			err = whole.Abort()
		}
		s.mu.Lock()
		if err != nil {
			s.left = errors.Join(s.left, f.failed("Abort", err))
		}
		f.cancel(nil)
	}
}

func (f *File) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return f.failed(op, err)
}
