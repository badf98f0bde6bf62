package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
)

// operation names a call in metrics, faults and errors. The set is closed.
type operation int

const (
	opOpen operation = iota
	opStat
	opList
	opCreate
	opWrite
	opClose // of a Writer
	opRename
	opRemove
	opLocate
	opRead
	opReplicate
	opAttribute
	opSetAttribute
	opPolicy
	opSetPolicy
	opAccess
	opProtect
	opNodes
	opChecksum
	operations // how many there are
)

var operationNames = [operations]string{
	"open", "stat", "list", "create", "write", "close", "rename", "remove", "locate", "read", "replicate",
	"attribute", "set-attribute", "policy", "set-policy", "access", "protect", "nodes", "checksum",
}

func (o operation) String() string { return operationNames[o] }

// call is one call that passes through a decorator.
type call struct {
	op     operation
	name   string
	node   string   // the replica asked for, empty if any will do
	ranges []Range  // of a read
	data   []byte   // of a write
	part   [][]byte // of a write of a part
}

// bytes is the payload that the call moves.
func (c *call) bytes() int64 {
	n := int64(len(c.data)) + lengthOf(c.part)
	for _, r := range c.ranges {
		n += int64(len(r.Buf))
	}
	return n
}

// hook surrounds a call: do performs it, and may be called several times or not at all.
type hook func(ctx context.Context, c *call, do func() error) error

// hooked is what every decorator is: all calls of a store, its files and its writers go through one hook.
// It offers every optional interface and answers for those that the inner store lacks; not Replacer and ManyReader, so that what
// ReplaceFile and ReadMany do instead is calls that the hook sees.
type hooked struct {
	inner  Store
	around hook
	// hidesLocal: LocalPath would go around the hook's work, so there is none.
	hidesLocal bool
}

var (
	_ Localizer     = (*hooked)(nil)
	_ Prefetcher    = (*hooked)(nil)
	_ ReadCounter   = (*hooked)(nil)
	_ BlockSizer    = (*hooked)(nil)
	_ Replicator    = (*hooked)(nil)
	_ PartsCreator  = (*hooked)(nil)
	_ Claimer       = (*hooked)(nil)
	_ FolderMaker   = (*hooked)(nil)
	_ ReplicaReader = (*hookedFile)(nil)
	_ Bridger       = (*hookedFile)(nil)
	_ Checksummer   = (*hookedFile)(nil)
)

func (h *hooked) Address(name string) string { return h.inner.Address(name) }

func (h *hooked) Open(ctx context.Context, name string) (File, error) {
	var f File
	err := h.around(ctx, &call{op: opOpen, name: name}, func() (err error) {
		f, err = h.inner.Open(ctx, name)
		return err
	})
	if err != nil {
		if f != nil { // the hook failed the call after it had succeeded
			f.Close()
		}
		return nil, err
	}
	return &hookedFile{File: f, h: h, name: name}, nil
}

func (h *hooked) Stat(ctx context.Context, name string) (info Info, err error) {
	err = h.around(ctx, &call{op: opStat, name: name}, func() (err error) {
		info, err = h.inner.Stat(ctx, name)
		return err
	})
	return info, err
}

func (h *hooked) List(ctx context.Context, dir string) (infos []Info, err error) {
	err = h.around(ctx, &call{op: opList, name: dir}, func() (err error) {
		infos, err = h.inner.List(ctx, dir)
		return err
	})
	return infos, err
}

func (h *hooked) Create(ctx context.Context, name string) (Writer, error) {
	return h.create(ctx, name, func() (Writer, error) { return h.inner.Create(ctx, name) })
}

func (h *hooked) create(ctx context.Context, name string, do func() (Writer, error)) (Writer, error) {
	var w Writer
	err := h.around(ctx, &call{op: opCreate, name: name}, func() (err error) {
		w, err = do()
		return err
	})
	if err != nil {
		if w != nil {
			w.Abort()
		}
		return nil, err
	}
	return &hookedWriter{Writer: w, h: h, ctx: ctx, name: name}, nil
}

func (h *hooked) CreateParts(ctx context.Context, name string) (PartsWriter, error) {
	var w PartsWriter
	err := h.around(ctx, &call{op: opCreate, name: name}, func() (err error) {
		w, err = CreateParts(ctx, h.inner, name)
		return err
	})
	if err != nil {
		if w != nil {
			w.Abort()
		}
		return nil, err
	}
	return &hookedParts{PartsWriter: w, h: h, ctx: ctx, name: name}, nil
}

// Claim has no hook: what is held is no file.
func (h *hooked) Claim(ctx context.Context, name string) (Claim, error) {
	if c, ok := h.inner.(Claimer); ok {
		return c.Claim(ctx, name)
	}
	return nil, unsupported("Claim", h.inner.Address(name))
}

func (h *hooked) MakeFolder(ctx context.Context, name string) error {
	m, ok := h.inner.(FolderMaker)
	if !ok {
		return unsupported("MakeFolder", h.inner.Address(name))
	}
	return h.around(ctx, &call{op: opCreate, name: name}, func() error { return m.MakeFolder(ctx, name) })
}

func (h *hooked) Rename(ctx context.Context, from, to string) error {
	return h.around(ctx, &call{op: opRename, name: from}, func() error { return h.inner.Rename(ctx, from, to) })
}

func (h *hooked) Remove(ctx context.Context, name string) error {
	return h.around(ctx, &call{op: opRemove, name: name}, func() error { return h.inner.Remove(ctx, name) })
}

func (h *hooked) Locate(ctx context.Context, name string, off, n int64) (rows []Replica, err error) {
	err = h.around(ctx, &call{op: opLocate, name: name}, func() (err error) {
		rows, err = h.inner.Locate(ctx, name, off, n)
		return err
	})
	return rows, err
}

func (h *hooked) SetReplication(ctx context.Context, name string, n int) error {
	r, ok := h.inner.(Replicator)
	if !ok {
		return errors.ErrUnsupported
	}
	return h.around(ctx, &call{op: opReplicate, name: name}, func() error { return r.SetReplication(ctx, name, n) })
}

func (h *hooked) BlockSize() int64 {
	if b, ok := h.inner.(BlockSizer); ok {
		return b.BlockSize()
	}
	return 0
}

func (h *hooked) LocalPath(name string) (string, bool) {
	if l, ok := h.inner.(Localizer); ok && !h.hidesLocal {
		return l.LocalPath(name)
	}
	return "", false
}

// Prefetch has no hook: what is learned ahead is counted when it is used.
func (h *hooked) Prefetch(ctx context.Context, names []string) error {
	if p, ok := h.inner.(Prefetcher); ok {
		return p.Prefetch(ctx, names)
	}
	return nil
}

// Forget has no hook: it is no call of the store's service.
func (h *hooked) Forget(names []string) {
	if p, ok := h.inner.(Prefetcher); ok {
		p.Forget(names)
	}
}

// ReadStats are those of the inner store.
func (h *hooked) ReadStats() ReadStats {
	if c, ok := h.inner.(ReadCounter); ok {
		return c.ReadStats()
	}
	return ReadStats{}
}

type hookedFile struct {
	File
	h    *hooked
	name string
}

func (f *hookedFile) ReadRanges(ctx context.Context, r []Range) error {
	return f.h.around(ctx, &call{op: opRead, name: f.name, ranges: r}, func() error { return f.File.ReadRanges(ctx, r) })
}

func (f *hookedFile) ReadReplica(ctx context.Context, node string, r []Range) error {
	inner, ok := f.File.(ReplicaReader)
	if !ok {
		return errors.ErrUnsupported
	}
	c := &call{op: opRead, name: f.name, node: node, ranges: r}
	return f.h.around(ctx, c, func() error { return inner.ReadReplica(ctx, node, r) })
}

func (f *hookedFile) CRC32C(ctx context.Context) (sum uint32, err error) {
	inner, ok := f.File.(Checksummer)
	if !ok {
		return 0, unsupported("CRC32C", f.h.inner.Address(f.name))
	}
	err = f.h.around(ctx, &call{op: opChecksum, name: f.name}, func() (err error) {
		sum, err = inner.CRC32C(ctx)
		return err
	})
	return sum, err
}

// Bridges has no hook: it reads nothing.
func (f *hookedFile) Bridges() int64 { return BridgesOf(f.File) }

// Stored has no hook: it asks nobody.
func (f *hookedFile) Stored() Stored { return StoredOf(f.File) }

// hookedWriter runs the hook around Write and Close. Abort has none: giving up must always work.
type hookedWriter struct {
	Writer
	h    *hooked
	ctx  context.Context // of Create
	name string
}

func (w *hookedWriter) Write(p []byte) (n int, err error) {
	c := &call{op: opWrite, name: w.name, data: p}
	err = w.h.around(w.ctx, c, func() (err error) {
		n, err = w.Writer.Write(c.data) // the hook may have cut it
		return err
	})
	return n, err
}

func (w *hookedWriter) Close() error {
	err := w.h.around(w.ctx, &call{op: opClose, name: w.name}, w.Writer.Close)
	if err != nil {
		w.Abort() // no-op if the inner Close has failed by itself
	}
	return err
}

// hookedParts runs the hook around WritePart and Close.
type hookedParts struct {
	PartsWriter
	h      *hooked
	ctx    context.Context // of CreateParts
	name   string
	failed atomic.Bool // a part did, which the inner store need not know
}

func (w *hookedParts) WritePart(ctx context.Context, off int64, data [][]byte) error {
	c := &call{op: opWrite, name: w.name, part: data}
	err := w.h.around(ctx, c, func() error { return w.PartsWriter.WritePart(ctx, off, c.part) }) // the hook may have cut it
	if err != nil {
		w.failed.Store(true)
	}
	return err
}

func (w *hookedParts) Close() error {
	err := w.h.around(w.ctx, &call{op: opClose, name: w.name}, func() error {
		if w.failed.Load() {
			return fmt.Errorf("store.Close %s: %w: a part was not written", w.h.inner.Address(w.name), fs.ErrInvalid)
		}
		return w.PartsWriter.Close()
	})
	if err != nil {
		w.Abort()
	}
	return err
}
