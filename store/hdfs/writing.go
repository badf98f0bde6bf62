package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// changes is what writing asks of a NameNode; see namenode.Client.
type changes interface {
	GetFileInfo(ctx context.Context, path string) (*hproto.FileStatus, error)
	GetListing(ctx context.Context, path string, startAfter []byte, locations bool) (*hproto.DirectoryListing, error)
	IsFileClosed(ctx context.Context, path string) (bool, error)
	Create(ctx context.Context, request *hproto.CreateRequest) (*hproto.FileStatus, error)
	Complete(ctx context.Context, request *hproto.CompleteRequest) (bool, error)
	GetBlockLocations(ctx context.Context, path string, off, n int64) (*hproto.LocatedBlocks, error)
	AbandonBlock(ctx context.Context, request *hproto.AbandonBlockRequest) error
	RecoverLease(ctx context.Context, path, clientName string) (bool, error)
	Mkdirs(ctx context.Context, path string, permissions fs.FileMode, parents bool) error
	Delete(ctx context.Context, path string, recursive bool) (bool, error)
	Rename2(ctx context.Context, from, to string, overwrite bool) error
	SetReplication(ctx context.Context, path string, n int) (bool, error)
	GetContentSummary(ctx context.Context, path string) (*hproto.ContentSummary, error)
	GetServerDefaults(ctx context.Context) (*hproto.FsServerDefaults, error)
}

// stream sends what is written to it to DataNodes, as the end of one file.
type stream interface {
	io.Writer
	// Close returns when the NameNode has closed the file with all bytes.
	Close() error
	// Abort gives up what is not with DataNodes yet, and frees the stream. It may follow a failed Close. Its
	// error is what DataNodes had against the stream, or nil.
	Abort() error
	// Holder is the name by which the NameNode knows who has the file.
	Holder() string
}

// writing is the part of a Store that changes the file system.
type writing struct {
	names changes
	conf  *conf.Config
	// appendTo opens a stream at the end of a closed file; it ends with ctx.
	appendTo func(ctx context.Context, path string) (stream, error)
	// refused is why no files can be written; nil: they can.
	refused error
	// newName returns a name that nobody else has.
	newName func() string
	// pause waits, or returns the context's error.
	pause func(ctx context.Context, d time.Duration) error

	mu       sync.Mutex
	defaults *hproto.FsServerDefaults
}

// errTokenOnly: what sends blocks to DataNodes knows Kerberos and no tokens.
var errTokenOnly = fmt.Errorf("%w: with a delegation token alone no files can be written: log in with a keytab or a ticket cache", errors.ErrUnsupported)

func newWriting(names changes, c *conf.Config, appendTo func(context.Context, string) (stream, error)) *writing {
	return &writing{names: names, conf: c, appendTo: appendTo, newName: randomName, pause: wait}
}

// shape is how new files are stored.
type shape struct {
	blockSize int64
	replicas  int
}

// shape returns what the configuration says, and for the rest what the NameNode says.
func (w *writing) shape(ctx context.Context) (shape, error) {
	s := shape{blockSize: w.conf.Size("dfs.blocksize", 0), replicas: int(w.conf.Int("dfs.replication", 0))}
	if s.blockSize > 0 && s.replicas > 0 {
		return s, nil
	}
	d, err := w.serverDefaults(ctx)
	if err != nil {
		return shape{}, err
	}
	if s.blockSize <= 0 {
		s.blockSize = int64(d.GetBlockSize())
	}
	if s.replicas <= 0 {
		s.replicas = int(d.GetReplication())
	}
	return s, nil
}

func (w *writing) serverDefaults(ctx context.Context) (*hproto.FsServerDefaults, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.defaults == nil {
		d, err := w.names.GetServerDefaults(ctx)
		if err != nil {
			return nil, err
		}
		w.defaults = d
	}
	return w.defaults, nil
}

// permissions returns what new files or folders get, less what the configuration masks.
func (w *writing) permissions(all fs.FileMode) fs.FileMode {
	mask, err := strconv.ParseUint(w.conf.String("fs.permissions.umask-mode", "022"), 8, 12)
	if err != nil { // symbolic masks are for other programs
		mask = 0o022
	}
	return all &^ fs.FileMode(mask)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
