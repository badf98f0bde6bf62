package dir

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// guarded changes nothing in metaDir through a symbolic link: agents and controllers remove and write there by names that others may have told them of, under
// their own rights, and whoever can make a link there must not lead them to somebody else's files.
type guarded struct{ tree }

// straight refuses a name in metaDir if a folder on the way is a symbolic link.
func (g guarded) straight(name string) error {
	if !strings.HasPrefix(name, metaDir+"/") {
		return nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := g.tree.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s is a symbolic link: nothing is changed behind one: make it a folder", store.ErrName, dir)
		}
	}
	return nil
}

func (g guarded) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE) != 0 {
		if err := g.straight(name); err != nil {
			return nil, err
		}
	}
	return g.tree.OpenFile(name, flag, mode)
}

func (g guarded) Mkdir(name string, mode fs.FileMode) error {
	if err := g.straight(name); err != nil {
		return err
	}
	return g.tree.Mkdir(name, mode)
}

func (g guarded) Link(from, to string) error {
	if err := g.straight(to); err != nil {
		return err
	}
	return g.tree.Link(from, to)
}

func (g guarded) Rename(from, to string) error {
	for _, name := range []string{from, to} {
		if err := g.straight(name); err != nil {
			return err
		}
	}
	return g.tree.Rename(from, to)
}

func (g guarded) Remove(name string) error {
	if err := g.straight(name); err != nil {
		return err
	}
	return g.tree.Remove(name)
}

func (g guarded) Chmod(name string, mode fs.FileMode) error {
	if err := g.straight(name); err != nil {
		return err
	}
	return g.tree.Chmod(name, mode)
}

func (g guarded) Chown(name string, uid, gid int) error {
	if err := g.straight(name); err != nil {
		return err
	}
	return g.tree.Chown(name, uid, gid)
}
