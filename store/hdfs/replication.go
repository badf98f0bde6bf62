package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// isErasureCoded is the flag of a FileStatus.
const isErasureCoded = 4

// setReplication finds out why, where the NameNode only says no.
func (w *writing) setReplication(ctx context.Context, name string, n int) error {
	if n < 1 {
		return fmt.Errorf("%w: %d replicas: at least 1", fs.ErrInvalid, n)
	}
	done, err := w.names.SetReplication(ctx, name, n)
	if err != nil {
		return outsideLimits(err)
	}
	if done {
		return nil
	}
	status, err := w.names.GetFileInfo(ctx, name)
	switch {
	case err != nil:
		return err
	case status.GetFileType() == hproto.FileStatus_DIR:
		return syscall.EISDIR
	case status.GetEcPolicy() != nil || status.GetFlags()&isErasureCoded != 0:
		return fmt.Errorf("%w: the file is erasure-coded (%s) and has no replicas", errors.ErrUnsupported, status.GetEcPolicy().GetName())
	}
	return fmt.Errorf("%w: the NameNode refused without a reason", store.ErrUnavailable)
}

// outsideLimits recognises the cluster's limits, for which HDFS has no exception of its own.
func outsideLimits(err error) error {
	var remote *namenode.RemoteError
	if errors.As(err, &remote) && remote.Class == "java.io.IOException" &&
		(strings.Contains(remote.Message, "exceeds maximum") || strings.Contains(remote.Message, "less than the required minimum")) {
		return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return err
}
