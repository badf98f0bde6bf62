package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// rename moves a file or folder. The NameNode is told to replace only where there is a file to replace, since it
// would replace an empty folder too; what is at the new name may change meanwhile, so it may take several turns.
func (w *writing) rename(ctx context.Context, from, to string) error {
	old, err := w.names.GetFileInfo(ctx, from)
	if err != nil || from == to {
		return err
	}
	if strings.HasPrefix(to, from+"/") {
		return fmt.Errorf("%w: a folder cannot be moved into itself", fs.ErrInvalid)
	}
	for range 10 {
		replace, err := w.replaces(ctx, old, to)
		if err != nil {
			return err
		}
		err = w.names.Rename2(ctx, from, to, replace)
		if unsure := errors.Is(err, namenode.ErrOutcomeUnknown) || errors.Is(err, fs.ErrNotExist); unsure && w.moved(ctx, old, to) {
			return nil
		}
		if replace || !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("%w: others make and remove files at the new name", store.ErrUnavailable)
}

// replaces tells whether a rename replaces a file.
func (w *writing) replaces(ctx context.Context, old *hproto.FileStatus, to string) (bool, error) {
	there, err := w.names.GetFileInfo(ctx, to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case there.GetFileType() == hproto.FileStatus_DIR:
		return false, fmt.Errorf("%w: the new name is a folder", fs.ErrExist)
	case old.GetFileType() == hproto.FileStatus_DIR:
		return false, errFolderToFile
	}
	return true, nil
}

// moved tells whether a rename that failed took place nevertheless; see draft.published.
func (w *writing) moved(ctx context.Context, old *hproto.FileStatus, to string) bool {
	now, err := w.names.GetFileInfo(ctx, to)
	return err == nil && old.GetFileId() != 0 && now.GetFileId() == old.GetFileId()
}
