package dir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/store"
)

// sidecar is what a file or folder has of its own beside its content. It is kept under the digest of the name, so that no name
// is too long or collides with a folder, and says which inode it is about, so that it ends with the file whoever removes that.
type sidecar struct {
	File  string `json:"file"`
	Bytes []byte `json:"bytes,omitempty"` // of a name that is no UTF-8, which File cannot hold
	Inode uint64 `json:"inode,omitempty"` // 0: of whatever has the name

	Replication int               `json:"replication,omitempty"`
	BlockSize   int64             `json:"block_size,omitempty"`
	Policy      string            `json:"storage_policy,omitempty"`
	Attributes  map[string][]byte `json:"attributes,omitempty"`
	// Blocks are the nodes of each block, as "node" or "node/TYPE", where they are not those that the topology says.
	Blocks [][]string `json:"blocks,omitempty"`
}

// errSidecar: somebody else wrote the file, or damaged it.
var errSidecar = errors.New("not what this store keeps of a file: remove it to have the defaults again")

func sidecarName(name string) string {
	return path.Join(sidecarDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(name))))
}

func newSidecar(name string, inode uint64) sidecar {
	c := sidecar{File: name, Inode: inode}
	if !utf8.ValidString(name) {
		c.Bytes = []byte(name)
	}
	return c
}

// name is the file's, in the store.
func (c *sidecar) name() string {
	if c.Bytes != nil {
		return string(c.Bytes)
	}
	return c.File
}

// empty tells whether there is nothing to keep.
func (c *sidecar) empty() bool {
	return c.Replication == 0 && c.BlockSize == 0 && c.Policy == "" && len(c.Attributes) == 0 && c.Blocks == nil
}

func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// sidecar reads what a file or folder has; nothing, if it has nothing.
func (s *Store) sidecar(name string, info fs.FileInfo) (sidecar, error) {
	none := newSidecar(name, inodeOf(info))
	c, err := s.readSidecar(sidecarName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if c.Inode != 0 && c.Inode != none.Inode {
		return none, nil // of a file that is gone
	}
	c.Inode = none.Inode
	return c, nil
}

func (s *Store) readSidecar(at string) (sidecar, error) {
	data, err := s.root.ReadFile(at)
	if err != nil {
		return sidecar{}, err
	}
	var c sidecar
	if err := json.Unmarshal(data, &c); err != nil || c.File == "" || c.Replication < 0 || c.BlockSize < 0 {
		return sidecar{}, fmt.Errorf("%s: %w", at, errSidecar)
	}
	return c, nil
}

// change changes what a file or folder has. Nobody else changes a sidecar meanwhile.
func (s *Store) change(ctx context.Context, name string, info fs.FileInfo, do func(c *sidecar) error) error {
	if err := makeFolders(s.root, sidecarDir); err != nil {
		return err
	}
	unlock, err := s.lockSidecars(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.sidecar(name, info)
	if err != nil {
		return err
	}
	before, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := do(&c); err != nil {
		return err
	}
	after, err := json.Marshal(c)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return s.keep(c)
}

// keep writes a sidecar, or removes one that says nothing.
func (s *Store) keep(c sidecar) error {
	if c.empty() {
		return s.dropSidecar(c.name())
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replaceFile(s.root, sidecarName(c.name()), append(data, '\n'))
}

// lockSidecars waits until nobody else, in this process or another, changes sidecars.
func (s *Store) lockSidecars(ctx context.Context) (unlock func(), err error) {
	f, err := s.root.Open(sidecarDir)
	if err != nil {
		return nil, err
	}
	for !lock(f) {
		if err := store.Sleep(ctx, time.Millisecond); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}

// renamed has do rename a file or folder, and moves what it and all that is in it have of their own. That is there under the new names before, so that
// whoever is killed meanwhile leaves it under one name at least: under the other it is about no inode that is there, and ignored.
func (s *Store) renamed(ctx context.Context, from, to string, do func() error) error {
	if _, err := s.root.Stat(sidecarDir); errors.Is(err, fs.ErrNotExist) {
		return do()
	}
	unlock, err := s.lockSidecars(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	names, err := s.sidecarsOf(from)
	if err != nil {
		return err
	}
	replaced, err := s.root.ReadFile(sidecarName(to))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err = s.copySidecars(names, from, to); err == nil {
		err = do()
	}
	if err == nil {
		if !slices.Contains(names, from) {
			names = append(names, to) // of the file that was replaced
		}
		return s.dropSidecars(names)
	}
	back := make([]string, len(names))
	for i, name := range names {
		back[i] = to + name[len(from):]
	}
	err = errors.Join(err, s.dropSidecars(back))
	if replaced != nil {
		err = errors.Join(err, replaceFile(s.root, sidecarName(to), replaced))
	}
	return err
}

// sidecarsOf are the names that have a sidecar: of a file or folder, and of all that is in it.
func (s *Store) sidecarsOf(name string) (names []string, err error) {
	if _, err := s.root.Lstat(sidecarName(name)); err == nil {
		names = append(names, name)
	}
	if info, err := s.root.Lstat(rel(name)); err != nil || !info.IsDir() {
		return names, err
	}
	entries, err := fs.ReadDir(s.root.FS(), sidecarDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		c, err := s.readSidecar(path.Join(sidecarDir, e.Name()))
		if err == nil && strings.HasPrefix(c.name(), name+"/") { // what cannot be read is nobody's
			names = append(names, c.name())
		}
	}
	return names, nil
}

func (s *Store) copySidecars(names []string, from, to string) error {
	for _, name := range names {
		data, err := s.root.ReadFile(sidecarName(name))
		if err != nil {
			return err
		}
		moved := newSidecar(to+name[len(from):], 0)
		if c, err := s.readSidecar(sidecarName(name)); err == nil { // else it stays what it is
			c.File, c.Bytes = moved.File, moved.Bytes
			if data, err = json.Marshal(c); err != nil {
				return err
			}
		}
		if err := replaceFile(s.root, sidecarName(moved.name()), data); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) dropSidecars(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, s.dropSidecar(name))
	}
	return errors.Join(errs...)
}

func (s *Store) dropSidecar(name string) error {
	if err := s.root.Remove(sidecarName(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// own is what an operation on one name does: it changes what a file or folder has.
func (s *Store) own(ctx context.Context, op, name string, do func(info os.FileInfo) error) error {
	err := begin(ctx, name)
	var info fs.FileInfo
	if err == nil {
		info, err = s.root.Stat(rel(name))
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: neither a file nor a folder but %s", fs.ErrInvalid, info.Mode())
	}
	if err == nil {
		err = do(info)
	}
	if err != nil {
		return failed(s.root, op, name, err)
	}
	return nil
}
