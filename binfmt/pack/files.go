package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stepahead-io/stepahead/store"
)

// sourceFiles is where the files of a source are: in folders of this machine, or in a store.
type sourceFiles interface {
	// address is what a file is called in messages.
	address(name string) string
	// together is how many files are best opened at once.
	together() int
	// expect says that the entries' files will be opened soon.
	expect(ctx context.Context, entries []Entry)
	// stat tells the version of a file.
	stat(ctx context.Context, e Entry) (version, error)
	// open opens files: the n-th result is that of the n-th entry. Those without an error are to be closed.
	open(ctx context.Context, entries []Entry) []sourceFile
}

// version is what tells that a file is probably the same as before.
type version struct {
	size  int64
	mtime int64 // nanoseconds
}

// sourceFile is an open file, or why it cannot be opened.
type sourceFile struct {
	io.ReadCloser
	size int64
	err  error
}

// filesIn returns the files of a store, or of this machine if there is none.
func filesIn(st store.Store) sourceFiles {
	if st == nil {
		return localFiles{}
	}
	return storeFiles{st}
}

// localFiles are files of this machine, named by their paths.
type localFiles struct{}

func (localFiles) address(path string) string { return path }

func (localFiles) together() int { return 1 }

func (localFiles) expect(context.Context, []Entry) {}

func (localFiles) stat(_ context.Context, e Entry) (version, error) {
	info, err := os.Stat(e.Path)
	if err != nil {
		return version{}, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for ever
		return version{}, fmt.Errorf("%s, want a file: %w", info.Mode().Type(), ErrSource)
	}
	return version{info.Size(), info.ModTime().UnixNano()}, nil
}

func (localFiles) open(_ context.Context, entries []Entry) []sourceFile {
	files := make([]sourceFile, len(entries))
	for i, e := range entries {
		files[i] = openLocal(e.Path)
	}
	return files
}

func openLocal(path string) sourceFile {
	f, err := os.Open(path)
	if err != nil {
		return sourceFile{err: err}
	}
	info, err := f.Stat()
	if err != nil {
		return sourceFile{err: errors.Join(err, f.Close())}
	}
	return sourceFile{ReadCloser: f, size: info.Size()}
}

// storeFiles are files of a store, named as it names them.
type storeFiles struct{ st store.Store }

const (
	// storeTogether files are opened, and small ones read, in one go: enough to keep many storage nodes busy
	// at once.
	storeTogether = 64
	// storeBuffer bounds the bytes of small files that are read in one go.
	storeBuffer = 8 << 20
	// storePiece is what is asked for at once of a file that is read piece by piece.
	storePiece = 4 << 20
)

func (s storeFiles) address(name string) string { return s.st.Address(name) }

func (s storeFiles) together() int { return storeTogether }

func (s storeFiles) expect(ctx context.Context, entries []Entry) {
	p, ok := s.st.(store.Prefetcher)
	if !ok {
		return
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Path
	}
	_ = p.Prefetch(ctx, names) // opening a file says what is wrong with it
}

func (s storeFiles) stat(ctx context.Context, e Entry) (version, error) {
	if e.listed != nil {
		return *e.listed, nil
	}
	info, err := s.st.Stat(ctx, e.Path)
	if err == nil && info.Dir {
		err = fmt.Errorf("a folder, want a file: %w", ErrSource)
	}
	return versionOf(info), err
}

func versionOf(info store.Info) version { return version{info.Size, info.ModTime.UnixNano()} }

// open reads small files as a whole, all in one call of the store.
func (s storeFiles) open(ctx context.Context, entries []Entry) []sourceFile {
	files := make([]sourceFile, len(entries))
	var small []store.FileRanges
	var places []int
	room := int64(storeBuffer)
	for i, e := range entries {
		f, err := s.st.Open(ctx, e.Path)
		if err != nil {
			files[i].err = changedIn(err)
			continue
		}
		files[i] = sourceFile{ReadCloser: &storeReader{ctx: ctx, f: f}, size: f.Size()}
		if f.Size() <= min(streamAbove, room) {
			room -= f.Size()
			small = append(small, store.FileRanges{File: f, Ranges: []store.Range{{Buf: make([]byte, f.Size())}}})
			places = append(places, i)
		}
	}
	err := store.ReadMany(ctx, s.st, small)
	for n, m := range small {
		m.Err = errors.Join(m.Err, err, m.File.Close())
		files[places[n]] = sourceFile{ReadCloser: io.NopCloser(bytes.NewReader(m.Ranges[0].Buf)), size: m.File.Size(), err: changedIn(m.Err)}
	}
	return files
}

// changedIn says of a file that is another version now that the source changed.
func changedIn(err error) error {
	if store.ClassOf(err) == store.IdentityChanged {
		return fmt.Errorf("%w: %w", err, ErrChanged)
	}
	return err
}

// storeReader reads one version of a file of a store from its start to its end, in large pieces.
type storeReader struct {
	ctx  context.Context
	f    store.File
	off  int64 // of the next piece
	buf  []byte
	left []byte // of buf, not yet given out
}

func (r *storeReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.off == r.f.Size() {
			return 0, io.EOF
		}
		if r.buf == nil {
			r.buf = make([]byte, min(storePiece, r.f.Size()))
		}
		piece := r.buf[:min(int64(len(r.buf)), r.f.Size()-r.off)]
		if err := r.f.ReadRanges(r.ctx, []store.Range{{Off: r.off, Buf: piece}}); err != nil {
			return 0, changedIn(err)
		}
		r.off, r.left = r.off+int64(len(piece)), piece
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

func (r *storeReader) Close() error { return r.f.Close() }
