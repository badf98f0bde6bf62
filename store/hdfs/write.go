package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

var (
	_ store.Store       = (*Store)(nil)
	_ store.Replicator  = (*Store)(nil)
	_ store.Replacer    = (*Store)(nil)
	_ store.BlockSizer  = (*Store)(nil)
	_ store.FolderMaker = (*Store)(nil)
)

// errReadOnly: the Store was made without what writing needs.
var errReadOnly = fmt.Errorf("%w: this store was opened for reading only", errors.ErrUnsupported)

// change is what every operation that changes something does first.
func (s *Store) change(ctx context.Context, names ...string) error {
	if err := s.begin(ctx, names...); err != nil {
		return err
	}
	if s.writes == nil {
		return errReadOnly
	}
	return nil
}

// Create implements store.Store. The file has the replication and block size of the configuration, else the NameNode's, and
// is replicated also in a folder with an erasure coding policy. Until Close it lies beside its name under one that List
// leaves out. A DataNode or NameNode that fails meanwhile is gone around; a block that loses DataNodes goes on with the
// others, and HDFS makes the missing replicas when it is closed. Close is as durable as HDFS is: the bytes are with as many
// DataNodes as it demands at least, and on their disks where dfs.datanode.synconclose is set. Parent folders that it
// made stay when the Writer is aborted. What a killed writer leaves is removed, after a minute, by another Store that
// writes in the folder, and by Remove of the folder.
func (s *Store) Create(ctx context.Context, name string) (store.Writer, error) {
	if err := s.change(ctx, name); err != nil {
		return nil, s.failed("Create", name, err)
	}
	d, err := s.writes.create(ctx, s.path(name))
	if err != nil {
		return nil, s.failed("Create", name, err)
	}
	return &writer{s: s, name: name, draft: d}, nil
}

// writer is a draft as a store.Writer.
type writer struct {
	s     *Store
	name  string
	draft *draft // nil after Close or Abort
	err   error  // of an earlier Write
}

func (w *writer) Write(p []byte) (int, error) {
	if w.draft == nil {
		return 0, w.s.failed("Write", w.name, fs.ErrClosed)
	}
	err := w.draft.ctx.Err()
	if err == nil {
		err = w.err
	}
	if err != nil {
		return 0, w.s.failed("Write", w.name, err)
	}
	n, err := w.draft.Write(p)
	if err != nil {
		w.err = err
		return n, w.s.failed("Write", w.name, err)
	}
	return n, nil
}

func (w *writer) Close() error {
	if w.draft == nil {
		return w.s.failed("Close", w.name, fs.ErrClosed)
	}
	d := w.draft
	err := d.ctx.Err()
	if err == nil {
		err = w.err
	}
	if err == nil {
		err = d.publish()
		w.s.layouts.forget(d.final)
	}
	if err != nil {
		err = w.s.failed("Close", w.name, errors.Join(err, d.abort()))
	}
	w.draft = nil
	return err
}

func (w *writer) Abort() error {
	if w.draft == nil {
		return nil
	}
	err := w.draft.abort()
	w.draft = nil
	if err != nil {
		return w.s.failed("Abort", w.name, err)
	}
	return nil
}

// Replace implements store.Replacer.
func (s *Store) Replace(ctx context.Context, name string, data []byte) error {
	err := s.change(ctx, name)
	if err == nil {
		err = s.writes.replace(ctx, s.path(name), data)
		s.layouts.forget(s.path(name))
	}
	if err != nil {
		return s.failed("Replace", name, err)
	}
	return nil
}

func (w *writing) replace(ctx context.Context, path string, data []byte) error {
	shape, err := w.shape(ctx)
	if err != nil {
		return err
	}
	d, err := w.draft(ctx, path, shape)
	if err != nil {
		return err
	}
	d.over = true
	if _, err = d.Write(data); err == nil {
		err = d.publish()
	}
	return errors.Join(err, d.abort())
}

// MakeFolder implements store.FolderMaker.
func (s *Store) MakeFolder(ctx context.Context, name string) error {
	err := s.change(ctx, name)
	if err == nil {
		err = s.writes.names.Mkdirs(ctx, s.path(name), s.writes.permissions(0o777), true)
	}
	if err != nil {
		return s.failed("MakeFolder", name, err)
	}
	return nil
}

// Rename implements store.Store.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	what := s.Address(from) + " to " + s.Address(to)
	err := s.change(ctx, from, to)
	if err == nil && (from == "/" || to == "/") {
		err = fmt.Errorf("%w: the root stays", fs.ErrInvalid)
	}
	if err == nil {
		err = s.writes.rename(ctx, s.path(from), s.path(to))
		s.layouts.forget(s.path(from), s.path(to))
	}
	if err != nil {
		return failedAt("Rename", what, err)
	}
	return nil
}

// Remove implements store.Store. Files opened before cannot be read any more once the DataNodes have removed the blocks. A
// folder in which a file is being written is not empty.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.change(ctx, name)
	if err == nil && name == "/" {
		err = fmt.Errorf("%w: the root stays", fs.ErrInvalid)
	}
	if err == nil {
		err = s.writes.remove(ctx, s.path(name))
		s.layouts.forget(s.path(name))
	}
	if err != nil {
		return s.failed("Remove", name, err)
	}
	return nil
}

// SetReplication implements store.Replicator. Quota is charged at once; replicas come and go later. Erasure-coded files are
// errors.ErrUnsupported. HDFS lets nobody ask for fewer replicas than dfs.namenode.replication.min or more than
// dfs.replication.max, 512: fs.ErrInvalid. Asking for more and then for fewer again moves a file's blocks to the DataNodes
// with the most free space.
func (s *Store) SetReplication(ctx context.Context, name string, n int) error {
	return s.replicate(ctx, name, s.path(name), n)
}

// replicate is SetReplication of what has a path, and is called name.
func (s *Store) replicate(ctx context.Context, name, path string, n int) error {
	return s.to(ctx, "SetReplication", name, func() error { return s.writes.setReplication(ctx, path, n) })
}

// BlockSize implements store.BlockSizer: dfs.blocksize of the configuration, else the NameNode's. It is 128 MiB where
// neither is to be had.
func (s *Store) BlockSize() int64 {
	const usual = 128 << 20
	if s.writes == nil {
		return usual
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	shape, err := s.writes.shape(ctx)
	if err != nil || shape.blockSize < 1 {
		return usual
	}
	return shape.blockSize
}

// Summary is what a folder, or a file, holds and may hold.
type Summary struct {
	// Bytes is the length of all files; Stored what their replicas take.
	Bytes, Stored  int64
	Files, Folders int64
	// Names is how many files and folders may be in it, Space how many bytes with replicas; -1: as many as fit.
	Names, Space int64
}

// ContentSummary adds up what lies under a name. The NameNode walks the whole tree for it.
func (s *Store) ContentSummary(ctx context.Context, name string) (Summary, error) {
	if err := s.change(ctx, name); err != nil {
		return Summary{}, s.failed("ContentSummary", name, err)
	}
	c, err := s.writes.names.GetContentSummary(ctx, s.path(name))
	if err != nil {
		return Summary{}, s.failed("ContentSummary", name, err)
	}
	return Summary{
		Bytes: int64(c.GetLength()), Stored: int64(c.GetSpaceConsumed()), Files: int64(c.GetFileCount()), Folders: int64(c.GetDirectoryCount()),
		Names: int64(c.GetQuota()), Space: int64(c.GetSpaceQuota()),
	}, nil
}

// errFolderToFile: HDFS renames no folder over a file.
var errFolderToFile = fmt.Errorf("%w: the new name is a file, the old one a folder", syscall.ENOTDIR)
