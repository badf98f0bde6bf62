package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// oldDraft is the age from which a draft may be what a killed writer left: HDFS's soft limit, after which a
// lease that is not renewed may be taken. A writer that is alive closes and renames its draft in far less.
const oldDraft = 60 * time.Second

// sweepEvery is how often a Store looks for what killed writers left in a folder, when it writes there.
const sweepEvery = time.Hour

// maxSwept bounds the folders of which that is remembered.
const maxSwept = 4096

// sweep is sweepNow, not more often than every so often.
func (w *writing) sweep(ctx context.Context, folder string, own *hproto.FileStatus) {
	if w.sweeps(folder) {
		w.sweepNow(ctx, folder, own)
	}
}

// sweepNow removes what killed writers left in a folder. own was made there just now: its time of change is the NameNode's
// now, and no other clock is asked. What cannot be removed stays for the next writer, as does what does not fit one
// answer: drafts come first in it.
func (w *writing) sweepNow(ctx context.Context, folder string, own *hproto.FileStatus) {
	listing, err := w.names.GetListing(ctx, folder, []byte(tempPrefix), false)
	if err != nil {
		return
	}
	old := func(status *hproto.FileStatus) bool {
		return time.Duration(int64(own.GetModificationTime())-int64(status.GetModificationTime()))*time.Millisecond >= oldDraft
	}
	for _, status := range listing.GetPartialListing() {
		base := string(status.GetPath())
		if !strings.HasPrefix(base, tempPrefix) {
			return
		}
		if status.GetFileId() != own.GetFileId() && old(status) {
			_ = w.removeDead(ctx, path.Join(folder, base), old)
		}
	}
}

// sweeps tells whether it is time to look into a folder.
func (w *writing) sweeps(folder string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.swept[folder]
	if known && time.Since(last) < sweepEvery {
		return false
	}
	if len(w.swept) >= maxSwept {
		clear(w.swept)
	}
	w.swept[folder] = time.Now()
	return true
}

// errAlive: a writer that renews its lease has the draft.
var errAlive = fmt.Errorf("%w: it is being written by another writer", fs.ErrExist)

// removeDead removes a draft whose writer is gone. A part's is gone when that of its guard is.
func (w *writing) removeDead(ctx context.Context, name string, old func(*hproto.FileStatus) bool) error {
	if guard, ok := guardOf(name); ok {
		if err := w.dead(ctx, guard, old); err != nil {
			return err
		}
	}
	if err := w.dead(ctx, name, old); err != nil {
		return err
	}
	_, err := w.names.Delete(ctx, name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dead returns nil where no writer has a draft: it is closed, or its lease has expired, or it is not there. One that is being
// written is errAlive, and where old is given also one that is not old: a file's time of change is when it was closed, so
// one that was listed while it was long in writing may be given its name just now.
func (w *writing) dead(ctx context.Context, name string, old func(*hproto.FileStatus) bool) error {
	closed, err := w.names.IsFileClosed(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !closed {
		if err := w.expired(ctx, name); err != nil {
			return err
		}
	}
	if old != nil {
		status, err := w.names.GetFileInfo(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !old(status):
			return errAlive
		}
	}
	return nil
}

// expired asks for a lease on a draft that is open. The NameNode's refusal tells whether its writer lives: it
// takes the lease of one that has not been renewed, and no other.
func (w *writing) expired(ctx context.Context, name string) error {
	_, err := w.names.Create(ctx, &hproto.CreateRequest{
		Src: &name, ClientName: proto.String("stepahead-" + w.newName()), CreateParent: proto.Bool(false),
		CreateFlag: proto.Uint32(uint32(hproto.CreateRequest_CREATE | hproto.CreateRequest_SHOULD_REPLICATE)),
		Masked:     &hproto.FsPermission{Perm: proto.Uint32(0o600)}, Replication: proto.Uint32(1), BlockSize: proto.Uint64(128 << 20),
	})
	var remote *namenode.RemoteError
	switch {
	case err == nil: // it vanished, and what is there now is ours
		_, err = w.names.Delete(ctx, name, false)
		return err
	case !errors.As(err, &remote):
		return err
	case strings.HasSuffix(remote.Class, ".RecoveryInProgressException"), strings.HasSuffix(remote.Class, ".FileAlreadyExistsException"):
		return nil
	case strings.HasSuffix(remote.Class, ".AlreadyBeingCreatedException"):
		return errAlive
	}
	return err
}

// remove removes a file, or a folder that holds nothing but what killed writers left.
func (w *writing) remove(ctx context.Context, name string) error {
	err := w.delete(ctx, name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	listing, listed := w.names.GetListing(ctx, name, nil, false)
	if listed != nil || listing.GetRemainingEntries() > 0 {
		return err
	}
	for _, status := range listing.GetPartialListing() {
		if !strings.HasPrefix(string(status.GetPath()), tempPrefix) {
			return err
		}
	}
	for _, status := range listing.GetPartialListing() {
		if held := w.removeDead(ctx, path.Join(name, string(status.GetPath())), nil); held != nil {
			return fmt.Errorf("%w: %w", syscall.ENOTEMPTY, held)
		}
	}
	return w.delete(ctx, name)
}

func (w *writing) delete(ctx context.Context, name string) error {
	there, err := w.names.Delete(ctx, name, false)
	if err == nil && !there {
		return fs.ErrNotExist
	}
	return err
}
