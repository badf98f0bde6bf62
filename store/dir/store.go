// Package dir knows a local folder as a store: real files, whose blocks lie on named nodes and racks
// as a simulated cluster would place them, with each node's latency, bandwidth and failures.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

// Options configure a Store. The zero value is usable.
type Options struct {
	// Node is the node on which the reader runs: its own replica comes first, then those of its rack,
	// and reading from itself costs no latency (its disk still has the node's bandwidth). Empty: the
	// reader is on no node. A node that the topology lacks is an error of Open.
	Node string
	// Whole makes the root of the file system the store's root where nothing marks another one: names have all folders in them, and symbolic
	// links are followed wherever they lead, as for any program of this user.
	Whole bool
	// Clock is the simulated nodes' time. Default: the machine's.
	Clock Clock
}

// Store is a folder as a store.Store. Writes are durable and are not slowed down; reads are split by
// block and take the time that their nodes take. It follows symbolic links inside its root only.
type Store struct {
	root      tree
	topology  Topology
	simulated bool // has a store.json
	layout    layout
	links     []*store.Pacer // one a node
	reader    int            // index of Options.Node, or -1
	clock     Clock
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Localizer   = (*Store)(nil)
	_ store.BlockSizer  = (*Store)(nil)
	_ store.Replicator  = (*Store)(nil)
	_ store.FolderMaker = (*Store)(nil)
)

// ErrNode: Options.Node is no node of the store.
var ErrNode = errors.New("the node is not in the topology")

// Open opens the store that a path or a dir:///absolute/path lies in, and returns the path's name
// inside it. The store's root is the nearest folder, from the path itself upwards, that has a
// .stepahead/store.json, or the .stepahead/agents in which an agent of that root has registered. Without
// one the root is the folder that Widen chose for the path or a folder above it; else the path itself if it is a
// folder, the parent of a file, or the nearest existing parent of what does not exist yet (but see Options.Whole); its topology is then
// one node "local" on rack "/default" without latency or limits.
func Open(url string, o Options) (*Store, string, error) {
	abs, err := localPath(url)
	if err != nil {
		return nil, "", fmt.Errorf("dir.Open: %w", err)
	}
	rootPath := findRoot(abs, o.Whole)
	root, err := openTree(rootPath, o.Whole)
	if err != nil {
		return nil, "", fmt.Errorf("dir.Open %s: %w", url, err)
	}
	s, err := newStore(root, o)
	if err != nil {
		root.Close()
		return nil, "", fmt.Errorf("dir.Open %s: %w", url, err)
	}
	rel, err := filepath.Rel(rootPath, abs)
	if err != nil {
		root.Close()
		return nil, "", fmt.Errorf("dir.Open %s: %w", url, err)
	}
	return s, path.Join("/", filepath.ToSlash(rel)), nil
}

func newStore(root tree, o Options) (*Store, error) {
	s := &Store{root: root, simulated: true, reader: -1, clock: o.Clock}
	if s.clock == nil {
		s.clock = wallClock{}
	}
	var err error
	s.topology, err = readTopology(root)
	if errors.Is(err, fs.ErrNotExist) {
		s.topology, s.simulated, err = plain(), false, nil
	}
	if err != nil {
		return nil, err
	}
	s.layout = newLayout(s.topology)
	for _, n := range s.topology.Nodes {
		s.links = append(s.links, store.NewPacer(n.BandwidthBytesPerS))
	}
	if o.Node == "" {
		return s, nil
	}
	if s.reader = s.layout.find(o.Node); s.reader < 0 {
		return nil, fmt.Errorf("%w: %q: it has %s", ErrNode, o.Node, nodeNames(s.topology))
	}
	return s, nil
}

// localPath turns a path or dir URL into an absolute path. Nothing is decoded: what follows dir:// is
// the path as it is.
func localPath(url string) (string, error) {
	if p, ok := strings.CutPrefix(url, "dir://"); ok {
		if !strings.HasPrefix(p, "/") {
			return "", fmt.Errorf("%w: %q: a dir URL names no host: write dir:///absolute/path", store.ErrName, url)
		}
		url = p
	} else if scheme, _, ok := strings.Cut(url, "://"); ok && !strings.Contains(scheme, "/") {
		return "", fmt.Errorf("%w: %q: the scheme %s is not a folder's: give a path or dir:///path", store.ErrName, url, scheme)
	}
	if url == "" || strings.ContainsRune(url, 0) {
		return "", fmt.Errorf("%w: %q: empty, or holds a NUL byte", store.ErrName, url)
	}
	return filepath.Abs(url)
}

func exists(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

func findRoot(abs string, whole bool) string {
	if root, ok := marked(abs); ok {
		return root
	}
	if root, ok := widened(abs); ok {
		return root
	}
	if whole {
		return "/"
	}
	p := abs
	for p != filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			break
		}
		p = filepath.Dir(p)
	}
	return p
}

// marked returns the nearest folder, from the path upwards, that is the root of a store by what is in it.
func marked(abs string) (root string, ok bool) {
	for p := abs; ; p = filepath.Dir(p) {
		if exists(p, topologyFile) || exists(p, agentsDir) {
			return p, true
		}
		if p == filepath.Dir(p) {
			return "", false
		}
	}
}

func nodeNames(t Topology) string {
	names := make([]string, 0, len(t.Nodes))
	for _, n := range t.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if len(names) > 16 {
		names = append(names[:16], "...")
	}
	return strings.Join(names, ", ")
}

// Close frees the store's own handle on its root. Files that are open stay usable.
func (s *Store) Close() error { return s.root.Close() }

// Root returns the operating system's path of the store's root folder.
func (s *Store) Root() string { return s.root.Name() }

// Topology returns the topology in force.
func (s *Store) Topology() Topology { return s.topology.withDefaults() }

// BlockSize implements store.BlockSizer.
func (s *Store) BlockSize() int64 { return s.topology.BlockSize }

// LocalPath implements store.Localizer. Only a folder without a store.json answers: reading around
// simulated nodes would make them look fast and alive.
func (s *Store) LocalPath(name string) (string, bool) {
	if s.simulated || checkName(name) != nil {
		return "", false
	}
	if _, err := s.root.Stat(rel(name)); err != nil { // refuses links that leave the root
		return "", false
	}
	return filepath.Join(s.root.Name(), rel(name)), true
}

// tempPrefix marks files that are being written. They are never listed and cannot be named.
const tempPrefix = ".stepahead-tmp-"

func checkName(name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	if strings.HasPrefix(path.Base(name), tempPrefix) {
		return fmt.Errorf("%w: %q: names that start with %s are reserved", store.ErrName, name, tempPrefix)
	}
	return nil
}

// begin is what every operation does first.
func begin(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rel is a checked name as os.Root wants it.
func rel(name string) string {
	if name == "/" {
		return "."
	}
	return name[1:]
}

// Address implements store.Store.
func (s *Store) Address(name string) string { return address(s.root, name) }

func address(root tree, name string) string {
	return filepath.Join(root.Name(), filepath.FromSlash(name))
}

// failed is failedAt a name in a root.
func failed(root tree, op, name string, err error) error {
	return failedAt(op, address(root, name), err)
}

// failedAt names the operation and the path, each once, and gives links that leave the root their class.
func failedAt(op, path string, err error) error {
	var atPath *fs.PathError
	var atLink *os.LinkError
	switch {
	case errors.As(err, &atPath):
		err = atPath.Err
	case errors.As(err, &atLink):
		err = atLink.Err
	}
	if err.Error() == "path escapes from parent" { // package os does not export this error
		err = fmt.Errorf("%w: a symbolic link leaves the store's root", store.ErrName)
	}
	return fmt.Errorf("dir.%s %s: %w", op, path, err)
}

// identity is that of a regular file. The device is left out: hosts that share a folder number it
// differently. So is the change time: a rename alone would change it.
func identity(info fs.FileInfo) store.Identity {
	inode := info.Sys().(*syscall.Stat_t).Ino
	return store.Identity(fmt.Sprintf("dir:%x-%x-%x", inode, info.Size(), info.ModTime().UnixNano()))
}
