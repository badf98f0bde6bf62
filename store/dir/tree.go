package dir

import (
	"io/fs"
	"os"
	"path/filepath"
)

// tree is where the names of a store lie: an *os.Root, which no link leaves, or everything.
type tree interface {
	Name() string
	Close() error
	FS() fs.FS
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Open(name string) (*os.File, error)
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
	OpenRoot(name string) (*os.Root, error)
	ReadFile(name string) ([]byte, error)
	Mkdir(name string, mode fs.FileMode) error
	Link(from, to string) error
	Rename(from, to string) error
	Remove(name string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
}

// openTree opens the tree of a root. In a whole file system links are followed wherever they lead, which an *os.Root does not do: it refuses
// those whose text is an absolute path, though nothing is outside of its root.
func openTree(root string, whole bool) (tree, error) {
	if whole && root == "/" {
		return guarded{everything{}}, nil
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return guarded{r}, nil
}

// everything is the whole file system.
type everything struct{}

func at(name string) string { return filepath.Join("/", name) }

func (everything) Name() string                           { return "/" }
func (everything) Close() error                           { return nil }
func (everything) FS() fs.FS                              { return os.DirFS("/") }
func (everything) Stat(name string) (fs.FileInfo, error)  { return os.Stat(at(name)) }
func (everything) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(at(name)) }
func (everything) Open(name string) (*os.File, error)     { return os.Open(at(name)) }
func (everything) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(at(name), flag, mode)
}
func (everything) OpenRoot(name string) (*os.Root, error)    { return os.OpenRoot(at(name)) }
func (everything) ReadFile(name string) ([]byte, error)      { return os.ReadFile(at(name)) }
func (everything) Mkdir(name string, mode fs.FileMode) error { return os.Mkdir(at(name), mode) }
func (everything) Link(from, to string) error                { return os.Link(at(from), at(to)) }
func (everything) Rename(from, to string) error              { return os.Rename(at(from), at(to)) }
func (everything) Remove(name string) error                  { return os.Remove(at(name)) }
func (everything) Chmod(name string, mode fs.FileMode) error { return os.Chmod(at(name), mode) }
func (everything) Chown(name string, uid, gid int) error     { return os.Chown(at(name), uid, gid) }
