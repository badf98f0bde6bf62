package hdfs

import (
	"context"
	"io/fs"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

var (
	_ store.Attributer     = (*Store)(nil)
	_ store.StoragePolicer = (*Store)(nil)
	_ store.PlacedCreator  = (*Store)(nil)
	_ store.Protector      = (*Store)(nil)
	_ store.NodeLister     = (*Store)(nil)
)

// placeCalls is what attributes, storage policies and permissions ask of a NameNode; see namenode.Client.
type placeCalls interface {
	GetFileInfo(ctx context.Context, path string) (*hproto.FileStatus, error)
	GetXAttrs(ctx context.Context, path string, names ...*hproto.XAttr) ([]*hproto.XAttr, error)
	SetXAttr(ctx context.Context, path string, attribute *hproto.XAttr, flags hproto.SetXAttrRequest_Flag) error
	RemoveXAttr(ctx context.Context, path string, attribute *hproto.XAttr) error
	GetStoragePolicies(ctx context.Context) ([]*hproto.BlockStoragePolicy, error)
	SetStoragePolicy(ctx context.Context, path, policy string) error
	UnsetStoragePolicy(ctx context.Context, path string) error
	SetPermission(ctx context.Context, path string, mode fs.FileMode) error
	SetOwner(ctx context.Context, path, owner, group string) error
	GetAclStatus(ctx context.Context, path string) (*hproto.AclStatus, error)
	SetAcl(ctx context.Context, path string, entries []*hproto.AclEntry) error
	RemoveAcl(ctx context.Context, path string) error
}

// at does something to a name, and says which name it was where that fails.
func (s *Store) at(ctx context.Context, op, name string, do func(path string) error) error {
	return s.to(ctx, op, name, func() error { return do(s.path(name)) })
}

// to is at for a file that may have another path than its name says.
func (s *Store) to(ctx context.Context, op, name string, do func() error) error {
	err := s.change(ctx, name)
	if err == nil {
		err = do()
	}
	if err != nil {
		return s.failed(op, name, err)
	}
	return nil
}
