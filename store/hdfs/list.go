package hdfs

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// maxListed bounds the entries of a folder that are listed: HDFS allows at most 6.4 million.
const maxListed = 6_400_000

// List implements store.Store. It asks for pages of what the NameNode gives at a time, 1,000 by default. It leaves out the
// root's .stepahead folder. Symbolic links appear without an identity. Files that others than this package are still
// writing do appear, with the length that the NameNode knows.
func (s *Store) List(ctx context.Context, dir string) ([]store.Info, error) {
	if err := s.begin(ctx, dir); err != nil {
		return nil, s.failed("List", dir, err)
	}
	infos := []store.Info{}
	err := s.names.ListAll(ctx, s.path(dir), func(status *hproto.FileStatus) error {
		base := string(status.GetPath())
		switch {
		case base == "": // the answer for a file is the file
			return syscall.ENOTDIR
		case len(infos) == maxListed:
			return fmt.Errorf("%w: more than %d entries", syscall.EFBIG, maxListed)
		case !strings.HasPrefix(base, tempPrefix) && (base != metaDir || dir != "/"):
			infos = append(infos, describe(path.Join(dir, base), status))
		}
		return nil
	})
	if err != nil {
		return nil, s.failed("List", dir, err)
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}
