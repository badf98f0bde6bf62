package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// readParallel bounds the blocks that one call reads at a time; it is the number of requests in flight that
// keeps a cluster of ordinary nodes busy.
const readParallel = 8

// file is a store.File on an open descriptor, which pins the content even when the name goes away.
type file struct {
	s        *Store
	name     string
	f        *os.File
	size     int64
	id       store.Identity
	where    placing
	replicas bool // some node has a replica of its own in replicaDir
	closed   atomic.Bool
}

// Open implements store.Store.
func (s *Store) Open(ctx context.Context, name string) (store.File, error) {
	if err := begin(ctx, name); err != nil {
		return nil, failed(s.root, "Open", name, err)
	}
	f, info, err := openRegular(s.root, rel(name))
	if err != nil {
		return nil, failed(s.root, "Open", name, err)
	}
	own, err := s.sidecar(name, info)
	if err != nil {
		f.Close()
		return nil, failed(s.root, "Open", name, err)
	}
	_, err = os.Stat(filepath.Join(s.root.Name(), replicaDir))
	return &file{s: s, name: name, f: f, size: info.Size(), id: identity(info), where: s.placing(name, own), replicas: err == nil}, nil
}

// openRegular refuses all that is not a file. O_NONBLOCK: opening a pipe must not wait for its writer.
func openRegular(root tree, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%w: not a file but %s", fs.ErrInvalid, info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (f *file) Size() int64              { return f.size }
func (f *file) Identity() store.Identity { return f.id }

func (f *file) Close() error {
	if f.closed.Swap(true) {
		return failed(f.s.root, "Close", f.name, fs.ErrClosed)
	}
	return f.f.Close()
}

func (f *file) ReadRanges(ctx context.Context, r []store.Range) error {
	return f.read(ctx, "ReadRanges", r, f.fromAny)
}

func (f *file) ReadReplica(ctx context.Context, node string, r []store.Range) error {
	i := f.s.layout.find(node)
	if i < 0 {
		return failed(f.s.root, "ReadReplica", f.name, fmt.Errorf("%w: no node is called %q", fs.ErrNotExist, node))
	}
	return f.read(ctx, "ReadReplica", r, func(ctx context.Context, q request) error {
		if !slices.ContainsFunc(f.where.of(q.block), func(r replica) bool { return r.node == i }) {
			return fmt.Errorf("%w: node %s has no replica of block %d", fs.ErrNotExist, node, q.block)
		}
		return f.fromNode(ctx, i, q)
	})
}

// request is what one call reads of one block.
type request struct {
	block int64
	parts []store.Range
}

func (f *file) read(ctx context.Context, op string, r []store.Range, from func(context.Context, request) error) error {
	if f.closed.Load() {
		return failed(f.s.root, op, f.name, fs.ErrClosed)
	}
	if err := store.CheckRanges(r, f.size); err != nil {
		return failed(f.s.root, op, f.name, err)
	}
	if err := ctx.Err(); err != nil {
		return failed(f.s.root, op, f.name, err)
	}
	if err := each(ctx, split(r, f.where.blockSize), from); err != nil {
		return failed(f.s.root, op, f.name, err)
	}
	if err := f.sameVersion(); err != nil {
		return failed(f.s.root, op, f.name, err)
	}
	return nil
}

// split cuts ranges at block borders and gathers them by block, in the order of the file.
func split(r []store.Range, blockSize int64) []request {
	sorted := slices.Clone(r)
	slices.SortStableFunc(sorted, func(a, b store.Range) int { return cmp.Compare(a.Off, b.Off) })
	parts := make([]store.Range, 0, len(sorted))
	for _, p := range sorted {
		for len(p.Buf) > 0 {
			n := min(int64(len(p.Buf)), blockSize-p.Off%blockSize)
			parts = append(parts, store.Range{Off: p.Off, Buf: p.Buf[:n]})
			p = store.Range{Off: p.Off + n, Buf: p.Buf[n:]}
		}
	}
	// A range that spans blocks may have put its later pieces before the start of the next range.
	slices.SortStableFunc(parts, func(a, b store.Range) int { return cmp.Compare(a.Off, b.Off) })
	var requests []request
	for _, p := range parts {
		block := p.Off / blockSize
		if k := len(requests) - 1; k >= 0 && requests[k].block == block {
			requests[k].parts = append(requests[k].parts, p)
			continue
		}
		requests = append(requests, request{block, []store.Range{p}})
	}
	return requests
}

// each runs the requests, a few at a time, and returns when all have ended: the caller's memory is not
// touched after it.
func each(ctx context.Context, requests []request, do func(context.Context, request) error) error {
	if len(requests) == 1 {
		return do(ctx, requests[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readParallel)
	for _, q := range requests {
		g.Go(func() error { return do(ctx, q) })
	}
	return g.Wait()
}

// fromAny reads a request from the nearest replica that can serve it.
func (f *file) fromAny(ctx context.Context, q request) error {
	var errs []error
	for _, r := range f.s.layout.nearest(f.where.of(q.block), f.s.reader) {
		err := f.fromNode(ctx, r.node, q)
		if err == nil || ctx.Err() != nil || store.ClassOf(err) == store.IdentityChanged {
			return err
		}
		errs = append(errs, err)
	}
	all := fmt.Errorf("block %d at offset %d: all %d replicas failed: %w", q.block, q.parts[0].Off, len(errs), errors.Join(errs...))
	for _, err := range errs {
		if store.ClassOf(err) == store.Retryable {
			// One replica may come back, so the file is not lost: hide the classes of the others.
			return fmt.Errorf("%w: %v", store.ErrUnavailable, all)
		}
	}
	return all
}

// fromNode reads a request from one node, in the time that the node takes.
func (f *file) fromNode(ctx context.Context, node int, q request) error {
	n := f.s.topology.Nodes[node]
	if _, err := os.Lstat(filepath.Join(f.s.root.Name(), downDir, n.Name)); err == nil {
		return fmt.Errorf("node %s is down: %w", n.Name, store.ErrUnavailable)
	}
	if node != f.s.reader && n.LatencyUS > 0 {
		if err := f.s.clock.Sleep(ctx, time.Duration(n.LatencyUS)*time.Microsecond); err != nil {
			return err
		}
	}
	src, done, err := f.source(n.Name)
	if err != nil {
		return err
	}
	defer done()
	for _, p := range q.parts {
		if err := f.s.transfer(ctx, node, src, p); err != nil {
			return f.explain(n.Name, p, err)
		}
	}
	return nil
}

// transfer reads one range, at the pace of the node's link.
func (s *Store) transfer(ctx context.Context, node int, src io.ReaderAt, p store.Range) error {
	for len(p.Buf) > 0 {
		piece := p.Buf[:min(int64(len(p.Buf)), s.links[node].Piece())]
		if err := ctx.Err(); err != nil {
			return err
		}
		if wait := s.links[node].Reserve(s.clock.Now(), int64(len(piece))); wait > 0 {
			if err := s.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
		if n, err := src.ReadAt(piece, p.Off); n < len(piece) {
			return err
		}
		p = store.Range{Off: p.Off + int64(len(piece)), Buf: p.Buf[len(piece):]}
	}
	return nil
}

// source is the replica of a node: its own file under .stepahead/replicas/<node>, or else the file itself.
func (f *file) source(node string) (src io.ReaderAt, done func(), err error) {
	if f.replicas {
		own, _, err := openRegular(f.s.root, filepath.Join(replicaDir, node, rel(f.name)))
		if err == nil {
			return own, func() { own.Close() }, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("node %s: its replica: %w", node, err)
		}
	}
	return f.f, func() {}, nil
}

// explain says what a failed read means: a file that ends too early was changed since it was opened, or
// this replica has lost its end.
func (f *file) explain(node string, p store.Range, err error) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("node %s: offset %d: %w", node, p.Off, err)
	}
	if changed := f.sameVersion(); changed != nil {
		return changed
	}
	return fmt.Errorf("node %s: offset %d: its replica ends before %d: %w", node, p.Off, p.Off+int64(len(p.Buf)), store.ErrCorrupt)
}

// sameVersion fails if the open file was written to since Open.
func (f *file) sameVersion() error {
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if now := identity(info); now != f.id {
		return &store.IdentityError{Name: f.s.Address(f.name), Pinned: f.id, Now: now}
	}
	return nil
}
