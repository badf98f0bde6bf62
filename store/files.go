package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"
)

// ReadFile returns the whole content of a file of at most limit bytes; a longer one is refused before any
// memory is taken.
func ReadFile(ctx context.Context, s Store, name string, limit int64) ([]byte, error) {
	f, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() > limit {
		return nil, fmt.Errorf("store.ReadFile %s: %d bytes, at most %d are read: %w", s.Address(name), f.Size(), limit, fs.ErrInvalid)
	}
	data := make([]byte, f.Size())
	if err := f.ReadRanges(ctx, []Range{{Buf: data}}); err != nil {
		return nil, err
	}
	return data, nil
}

// ReplaceFile writes a file beside, named name + ".new", and renames it: whoever looks sees the old
// content or the new one, whole. One that a killed process left beside is replaced, so a name has one
// writer at a time. A Replacer does it its own way.
func ReplaceFile(ctx context.Context, s Store, name string, data []byte) error {
	if r, ok := s.(Replacer); ok {
		return r.Replace(ctx, name, data)
	}
	beside := name + ".new"
	w, err := s.Create(ctx, beside)
	if errors.Is(err, fs.ErrExist) {
		if err := s.Remove(ctx, beside); err != nil {
			return err
		}
		w, err = s.Create(ctx, beside)
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Close(); err != nil {
		return err
	}
	return s.Rename(ctx, beside, name)
}

// Files gives a store's small files to packages that know nothing of stores (hints.Registry and
// hints.Publisher).
type Files struct{ Store Store }

// Address is the store's.
func (f Files) Address(name string) string { return f.Store.Address(name) }

// ListFiles calls each with the last part of the name and the time of change of every file, not folder,
// in dir. A missing folder matches fs.ErrNotExist.
func (f Files) ListFiles(ctx context.Context, dir string, each func(base string, modified time.Time)) error {
	infos, err := f.Store.List(ctx, dir)
	for _, i := range infos {
		if !i.Dir {
			each(path.Base(i.Name), i.ModTime)
		}
	}
	return err
}

// ReadFile is the function of this name; a file that is replaced while it is read is read once more. What
// ExpectFiles learned of it is used once.
func (f Files) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, err := ReadFile(ctx, f.Store, name, limit)
	if p, ok := f.Store.(Prefetcher); ok {
		p.Forget([]string{name})
	}
	if ClassOf(err) == IdentityChanged {
		data, err = ReadFile(ctx, f.Store, name, limit)
	}
	return data, err
}

// ExpectFiles learns where files lie, all at once where the store can do it.
func (f Files) ExpectFiles(ctx context.Context, names []string) {
	if p, ok := f.Store.(Prefetcher); ok {
		_ = p.Prefetch(ctx, names) // reading them says what is wrong
	}
}

// ReplaceFile is the function of this name.
func (f Files) ReplaceFile(ctx context.Context, name string, data []byte) error {
	return ReplaceFile(ctx, f.Store, name, data)
}

// RemoveFile removes a file. A missing one matches fs.ErrNotExist.
func (f Files) RemoveFile(ctx context.Context, name string) error { return f.Store.Remove(ctx, name) }
