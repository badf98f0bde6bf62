package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

// Stat implements store.Store.
func (s *Store) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := begin(ctx, name); err != nil {
		return store.Info{}, failed(s.root, "Stat", name, err)
	}
	info, err := s.root.Stat(rel(name))
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: neither a file nor a folder but %s", fs.ErrInvalid, info.Mode())
	}
	if err != nil {
		return store.Info{}, failed(s.root, "Stat", name, err)
	}
	return s.describe(name, info), nil
}

func (s *Store) describe(name string, info fs.FileInfo) store.Info {
	d := store.Info{Name: name, Dir: info.IsDir(), ModTime: info.ModTime(), Owner: owner(info)}
	if !d.Dir {
		d.Size, d.Identity = info.Size(), identity(info)
		if c, err := s.sidecar(name, info); err == nil { // else Locate says why not
			d.Replicas = s.placing(name, c).factor
		}
	}
	return d
}

func owner(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(uint64(st.Uid), 10)
}

// List implements store.Store. It leaves out the root's .stepahead folder. A symbolic link is listed as
// what it leads to; one that leads nowhere or out of the root, and a special file, appear without an
// identity, and opening them says why.
func (s *Store) List(ctx context.Context, dir string) ([]store.Info, error) {
	if err := begin(ctx, dir); err != nil {
		return nil, failed(s.root, "List", dir, err)
	}
	info, err := s.root.Stat(rel(dir))
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR // opening a pipe would wait for its writer
	}
	var folder *os.Root
	if err == nil {
		folder, err = s.root.OpenRoot(rel(dir))
	}
	if err != nil {
		return nil, failed(s.root, "List", dir, err)
	}
	defer folder.Close()
	entries, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return nil, failed(s.root, "List", dir, err)
	}
	infos := make([]store.Info, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, failed(s.root, "List", dir, err)
		}
		if strings.HasPrefix(e.Name(), tempPrefix) || dir == "/" && e.Name() == metaDir {
			continue
		}
		if info, ok := s.entry(folder, path.Join(dir, e.Name())); ok {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// entry describes one file of a folder; false if it vanished since the folder was read.
func (s *Store) entry(folder *os.Root, name string) (store.Info, bool) {
	info, err := folder.Lstat(path.Base(name))
	if err != nil {
		return store.Info{}, false
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err := s.root.Stat(rel(name)); err == nil {
			info = target
		}
	}
	if info.IsDir() || info.Mode().IsRegular() {
		return s.describe(name, info), true
	}
	return store.Info{Name: name, ModTime: info.ModTime()}, true
}

// Rename implements store.Store.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	what := s.Address(from) + " to " + s.Address(to)
	if err := begin(ctx, from, to); err != nil {
		return failedAt("Rename", what, err)
	}
	if from == "/" || to == "/" {
		return failedAt("Rename", what, fmt.Errorf("%w: the root stays", fs.ErrInvalid))
	}
	if _, err := s.root.Lstat(rel(from)); err != nil {
		return failedAt("Rename", what, err)
	}
	if from == to {
		return nil
	}
	if strings.HasPrefix(to, from+"/") {
		return failedAt("Rename", what, fmt.Errorf("%w: a folder cannot be moved into itself", fs.ErrInvalid))
	}
	if info, err := s.root.Lstat(rel(to)); err == nil && info.IsDir() {
		return failedAt("Rename", what, fmt.Errorf("%w: the new name is a folder", fs.ErrExist))
	}
	if err := s.renamed(ctx, from, to, func() error { return s.root.Rename(rel(from), rel(to)) }); err != nil {
		return failedAt("Rename", what, err)
	}
	for _, parent := range slices.Compact([]string{path.Dir(from), path.Dir(to)}) {
		if err := syncFolder(s.root, rel(parent)); err != nil {
			return failedAt("Rename", what, err)
		}
	}
	return nil
}

// Remove implements store.Store. What killed writers left in a folder does not keep it from being removed.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := begin(ctx, name); err != nil {
		return failed(s.root, "Remove", name, err)
	}
	if name == "/" {
		return failed(s.root, "Remove", name, fmt.Errorf("%w: the root stays", fs.ErrInvalid))
	}
	if err := s.remove(rel(name)); err != nil {
		return failed(s.root, "Remove", name, err)
	}
	if err := s.dropSidecar(name); err != nil {
		return failed(s.root, "Remove", name, err)
	}
	if err := syncFolder(s.root, rel(path.Dir(name))); err != nil {
		return failed(s.root, "Remove", name, err)
	}
	return nil
}

// remove removes a file, or a folder that holds nothing but what killed writers left.
func (s *Store) remove(name string) error {
	err := s.root.Remove(name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	entries, listed := fs.ReadDir(s.root.FS(), name)
	if listed != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), tempPrefix) }) {
		return err
	}
	for _, e := range entries {
		if held := removeDead(s.root, path.Join(name, e.Name())); held != nil {
			return fmt.Errorf("%w: %w", syscall.ENOTEMPTY, held)
		}
	}
	return s.root.Remove(name)
}

// Locate implements store.Store. Blocks are given whole, clipped to the file's end. Nodes that are down
// are in it: a name node does not know of a failure at once either.
func (s *Store) Locate(ctx context.Context, name string, off, n int64) ([]store.Replica, error) {
	var rows []store.Replica
	err := s.own(ctx, "Locate", name, func(info fs.FileInfo) error {
		if info.IsDir() {
			return syscall.EISDIR
		}
		if err := store.CheckRange(off, n, info.Size()); err != nil {
			return err
		}
		c, err := s.sidecar(name, info)
		if err != nil {
			return err
		}
		rows, err = s.locate(ctx, s.placing(name, c), off, n, info.Size())
		return err
	})
	return rows, err
}

func (s *Store) locate(ctx context.Context, p placing, off, n, fileSize int64) (rows []store.Replica, err error) {
	size := p.blockSize
	for block := off / size; n > 0 && block <= (off+n-1)/size; block++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := block * size
		for _, r := range s.layout.nearest(p.of(block), s.reader) {
			node := s.topology.Nodes[r.node]
			rows = append(rows, store.Replica{Node: node.Name, Rack: node.Rack, Storage: r.storage, Off: start, Len: min(size, fileSize-start)})
		}
	}
	return rows, nil
}
