package dir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

// writer writes beside the final name and links it there at the end, which fails if the name exists.
// It holds a lock on its temporary file while it lives, so that what a killed process left behind can be
// told from a file that is being written.
type writer struct {
	ctx  context.Context
	root tree
	name string // as the store calls it
	temp string // inside root
	f    *os.File
	// place, if not nil, says where the file lies before it has its name; forget takes that back.
	place  func(f *os.File) error
	forget func() error
}

// Create implements store.Store. Parent folders that it made stay when the Writer is aborted.
func (s *Store) Create(ctx context.Context, name string) (store.Writer, error) {
	w, err := s.create(ctx, name)
	if err != nil {
		return nil, failed(s.root, "Create", name, err)
	}
	return w, nil
}

func (s *Store) create(ctx context.Context, name string) (*writer, error) {
	if err := begin(ctx, name); err != nil {
		return nil, err
	}
	switch _, err := s.root.Lstat(rel(name)); {
	case err == nil:
		return nil, fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := makeFolders(s.root, rel(path.Dir(name))); err != nil {
		return nil, err
	}
	temp := tempName(rel(name))
	f, err := createTemp(s.root, temp)
	if err != nil {
		return nil, err
	}
	w := &writer{ctx: ctx, root: s.root, name: name, temp: temp, f: f, forget: func() error { return s.dropSidecar(name) }}
	if s.layout.typed() {
		w.place = func(f *os.File) error { return s.place(ctx, name, f, store.Placement{}) }
	}
	return w, nil
}

// tempName is one for each final name: whoever writes the name again removes what a killed writer left.
func tempName(name string) string {
	sum := sha256.Sum256([]byte(path.Base(name)))
	return path.Join(path.Dir(name), fmt.Sprintf("%s%x", tempPrefix, sum[:12]))
}

// createTemp makes a temporary file and locks it. What a killed writer left under the name is removed.
func createTemp(root tree, temp string) (*os.File, error) {
	for range 100 { // each turn means that another process was between two of these steps
		f, err := root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			if err := removeDead(root, temp); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if lock(f) && sameFile(root, temp, f) {
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("%w: other writers come and go", store.ErrUnavailable)
}

// removeDead removes a temporary file that no writer holds; one that is held is fs.ErrExist. It is
// unlinked, never truncated: its content may already be linked under the final name.
func removeDead(root tree, temp string) error {
	f, err := root.OpenFile(temp, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !lock(f) {
		return fmt.Errorf("%w: it is being written by another writer", fs.ErrExist)
	}
	if sameFile(root, temp, f) {
		return root.Remove(temp)
	}
	return nil
}

// lock takes a file for its writer, for as long as it is open; false if another has it.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func sameFile(root tree, name string, f *os.File) bool {
	a, errA := root.Lstat(name)
	b, errB := f.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.f == nil {
		return 0, failed(w.root, "Write", w.name, fs.ErrClosed)
	}
	if err := w.ctx.Err(); err != nil {
		return 0, failed(w.root, "Write", w.name, err)
	}
	n, err := w.f.Write(p)
	if err != nil {
		err = failed(w.root, "Write", w.name, err)
	}
	return n, err
}

func (w *writer) Close() error {
	if w.f == nil {
		return failed(w.root, "Close", w.name, fs.ErrClosed)
	}
	if err := w.publish(); err != nil {
		return failed(w.root, "Close", w.name, errors.Join(err, w.Abort()))
	}
	err := w.f.Close()
	w.f = nil
	if err != nil {
		return failed(w.root, "Close", w.name, err)
	}
	return nil
}

func (w *writer) publish() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	if w.place != nil {
		if err := w.place(w.f); err != nil {
			return err
		}
	}
	if err := w.root.Link(w.temp, rel(w.name)); err != nil {
		if w.place != nil {
			err = errors.Join(err, w.forget())
		}
		return err
	}
	err := w.root.Remove(w.temp)
	if err == nil {
		err = syncFolder(w.root, path.Dir(w.temp))
	}
	if err != nil && sameFile(w.root, rel(w.name), w.f) {
		w.root.Remove(rel(w.name)) // not durable, so not visible
	}
	return err
}

func (w *writer) Abort() error {
	if w.f == nil {
		return nil
	}
	err := w.root.Remove(w.temp) // before the lock is given up
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, w.f.Close())
	w.f = nil
	if err != nil {
		return failed(w.root, "Abort", w.name, err)
	}
	return nil
}

// replaceFile writes a small file of the store's own: beside, fsync, rename. The last writer wins.
func replaceFile(root tree, name string, data []byte) error {
	temp := tempName(name)
	f, err := createTemp(root, temp)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s: another process is replacing it", store.ErrUnavailable, name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		root.Remove(temp) // at worst it stays for the next writer to replace
		return err
	}
	return syncFolder(root, path.Dir(name))
}

// MakeFolder implements store.FolderMaker.
func (s *Store) MakeFolder(ctx context.Context, name string) error {
	err := begin(ctx, name)
	if err == nil {
		err = makeFolders(s.root, rel(name))
	}
	if err != nil {
		return failed(s.root, "MakeFolder", name, err)
	}
	return nil
}

// makeFolders makes a folder and its parents; each is durable in its own parent.
func makeFolders(root tree, name string) error {
	if info, err := root.Stat(name); err == nil {
		if !info.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	made := "."
	for _, part := range strings.Split(name, "/") {
		parent := made
		made = path.Join(made, part)
		err := root.Mkdir(made, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := syncFolder(root, parent); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(root tree, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: folders cannot be synced here
		return err
	}
	return nil
}
