package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

var (
	_ store.Tracker        = (*Store)(nil)
	_ store.Attributer     = (*tracked)(nil)
	_ store.StoragePolicer = (*tracked)(nil)
	_ store.Replicator     = (*tracked)(nil)
)

// inodes is the folder in which HDFS shows every file by the number of its inode, which stays when it is renamed, and is never given again.
const inodes = "/.reserved/.inodes/"

func inodePath(id uint64) string { return inodes + strconv.FormatUint(id, 10) }

// folderOf is the path of the folder that a file is in.
func folderOf(path string) string {
	if strings.HasPrefix(path, inodes) {
		return path + "/.."
	}
	return path[:max(strings.LastIndexByte(path, '/'), 1)]
}

// Track implements store.Tracker: a handle is the number of a file's inode. Where that does not lead to the file, as behind routers, it is errors.ErrUnsupported.
func (s *Store) Track(ctx context.Context, name string) (handle string, err error) {
	err = s.at(ctx, "Track", name, func(path string) error {
		status, err := s.status(ctx, path)
		switch {
		case err != nil:
			return err
		case status.GetFileType() == hproto.FileStatus_DIR:
			return syscall.EISDIR
		}
		id := status.GetFileId()
		found, err := s.names.GetFileInfo(ctx, inodePath(id))
		switch {
		case err == nil && id != 0 && found.GetFileId() == id:
			handle = strconv.FormatUint(id, 10)
			return nil
		case ctx.Err() != nil || store.ClassOf(err) == store.Retryable:
			return err
		}
		return fmt.Errorf("%w: the NameNode does not find it by its inode, %d: %v", errors.ErrUnsupported, id, err)
	})
	return handle, err
}

// Tracked implements store.Tracker.
func (s *Store) Tracked(name, handle string) (store.Store, error) {
	id, err := strconv.ParseUint(handle, 10, 64)
	if err != nil || id == 0 || strconv.FormatUint(id, 10) != handle {
		return nil, s.failed("Tracked", name, fmt.Errorf("%w: %.128q is no number of an inode", fs.ErrInvalid, handle))
	}
	if err := checkName(name); err != nil {
		return nil, s.failed("Tracked", name, err)
	}
	return &tracked{Store: s, name: name, inode: inodePath(id)}, nil
}

// tracked is a Store to which one name is the file with an inode.
type tracked struct {
	*Store
	name, inode string
}

func (t *tracked) path(name string) string {
	if name == t.name {
		return t.inode
	}
	return t.Store.path(name)
}

func (t *tracked) Stat(ctx context.Context, name string) (store.Info, error) {
	return t.stat(ctx, name, t.path(name))
}

func (t *tracked) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	return t.attributeOf(ctx, name, t.path(name), attribute)
}

func (t *tracked) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return t.setAttribute(ctx, name, t.path(name), attribute, value)
}

func (t *tracked) StoragePolicy(ctx context.Context, name string) (store.StoragePolicy, error) {
	return t.policyOf(ctx, name, t.path(name))
}

func (t *tracked) SetStoragePolicy(ctx context.Context, name, policy string) error {
	return t.setPolicy(ctx, name, t.path(name), policy)
}

func (t *tracked) SetReplication(ctx context.Context, name string, n int) error {
	return t.replicate(ctx, name, t.path(name), n)
}
