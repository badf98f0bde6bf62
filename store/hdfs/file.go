package hdfs

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// file is one version of a file, open for reading. It holds nothing that must be given back.
type file struct {
	s      *Store
	name   string
	l      *layout
	closed atomic.Bool
}

var (
	_ store.File          = (*file)(nil)
	_ store.ReplicaReader = (*file)(nil)
	_ store.Bridger       = (*file)(nil)
	_ store.StoredFile    = (*file)(nil)
	_ store.Checksummer   = (*file)(nil)
)

// Open implements store.Store. It costs one question to the NameNode, and another one the first time for where the blocks lie;
// none after Prefetch. A file that is still being written has the length that it has now: what its writer has flushed, as
// far as that can be learned.
func (s *Store) Open(ctx context.Context, name string) (store.File, error) {
	if err := s.begin(ctx, name); err != nil {
		return nil, s.failed("Open", name, err)
	}
	l, _, err := s.open(ctx, s.path(name))
	if err != nil {
		return nil, s.failed("Open", name, err)
	}
	return &file{s: s, name: name, l: l}, nil
}

// open finds the layout of what a path leads to now. fresh says that all it knows was learned just now, or is to be believed
// as if it were.
func (s *Store) open(ctx context.Context, path string) (l *layout, fresh bool, err error) {
	known, until := s.layouts.get(path)
	if known != nil && time.Now().Before(until) {
		return known, true, nil
	}
	status, err := s.fileStatus(ctx, path)
	if err != nil {
		return nil, false, err
	}
	if known != nil && known.version == versionOf(status) && !known.open && time.Since(known.learned) < locationsFor {
		return known, false, nil
	}
	l = newLayout(path, status)
	if err := s.firstLook(ctx, l); err != nil {
		return nil, false, err
	}
	s.layouts.put(l, time.Time{})
	return l, true, nil
}

// firstLook learns the first blocks of a file and whether it is still being written.
func (s *Store) firstLook(ctx context.Context, l *layout) error {
	if err := l.ask(ctx); err != nil {
		return err
	}
	defer l.asked()
	located, err := s.locations(ctx, l, 0, l.batch())
	if err != nil {
		return err
	}
	if located.GetUnderConstruction() {
		return s.takeOpen(ctx, l, located)
	}
	return s.takeIn(l, located)
}

func (f *file) Size() int64              { return f.l.size }
func (f *file) Identity() store.Identity { return f.l.version.identity() }

// Bridges implements store.Bridger.
func (f *file) Bridges() int64 { return maxGap }

// Stored implements store.StoredFile.
func (f *file) Stored() store.Stored {
	return store.Stored{ErasureCoded: f.l.striped != nil, Writing: f.l.open}
}

func (f *file) Close() error {
	if f.closed.Swap(true) {
		return f.s.failed("Close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *file) check(ctx context.Context, r []store.Range) error {
	if f.closed.Load() {
		return fs.ErrClosed
	}
	if err := store.CheckRanges(r, f.l.size); err != nil {
		return err
	}
	return ctx.Err()
}

func (f *file) ReadRanges(ctx context.Context, r []store.Range) error {
	return f.read(ctx, "ReadRanges", &reading{file: f, ranges: r})
}

// ReadReplica implements store.ReplicaReader. Erasure-coded files have no replicas: errors.ErrUnsupported.
func (f *file) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	if f.l.striped != nil {
		return f.s.failed("ReadReplica", f.name, errors.ErrUnsupported)
	}
	return f.read(ctx, "ReadReplica", &reading{file: f, ranges: r, only: node})
}

func (f *file) read(ctx context.Context, op string, r *reading) error {
	f.s.readAll(ctx, []*reading{r})
	if r.err != nil {
		return f.s.failed(op, f.name, r.err)
	}
	return nil
}
