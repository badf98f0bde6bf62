package hdfs

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// changes is what writing asks of a NameNode; see namenode.Client.
type changes interface {
	GetFileInfo(ctx context.Context, path string) (*hproto.FileStatus, error)
	GetListing(ctx context.Context, path string, startAfter []byte, locations bool) (*hproto.DirectoryListing, error)
	IsFileClosed(ctx context.Context, path string) (bool, error)
	Create(ctx context.Context, request *hproto.CreateRequest) (*hproto.FileStatus, error)
	AddBlock(ctx context.Context, request *hproto.AddBlockRequest) (*hproto.LocatedBlock, error)
	AbandonBlock(ctx context.Context, request *hproto.AbandonBlockRequest) error
	UpdateBlockForPipeline(ctx context.Context, block *hproto.ExtendedBlock, clientName string) (*hproto.LocatedBlock, error)
	UpdatePipeline(ctx context.Context, request *hproto.UpdatePipelineRequest) error
	Complete(ctx context.Context, request *hproto.CompleteRequest) (bool, error)
	RenewLease(ctx context.Context, clientName string) error
	Mkdirs(ctx context.Context, path string, permissions fs.FileMode, parents bool) error
	Delete(ctx context.Context, path string, recursive bool) (bool, error)
	Rename2(ctx context.Context, from, to string, overwrite bool) error
	Concat(ctx context.Context, target string, sources ...string) error
	SetReplication(ctx context.Context, path string, n int) (bool, error)
	GetContentSummary(ctx context.Context, path string) (*hproto.ContentSummary, error)
	GetServerDefaults(ctx context.Context) (*hproto.FsServerDefaults, error)
}

// writing is the part of a Store that changes the file system.
type writing struct {
	names changes
	conf  *conf.Config
	pool  *datanode.Pool
	nodes *nodeTable
	// newName returns a name that nobody else has.
	newName func() string
	// pause waits, or returns the context's error.
	pause func(ctx context.Context, d time.Duration) error
	// keepWhole is the size up to which a block's bytes are all kept until it is closed: it can be written again elsewhere,
	// whatever happens to its DataNodes.
	keepWhole int64
	// patience bounds the wait for DataNodes: what Hadoop's clients wait for a pipeline of three. Each of these waits a
	// little less for the next, so that who failed is known.
	patience time.Duration
	// restart is how long a DataNode that says that it restarts may take.
	restart time.Duration
	spread  spread
	placing chan struct{} // one at a time asks where the first block of a file goes
	// noConcat: the NameNode does not know how to join files.
	noConcat atomic.Bool

	mu       sync.Mutex
	defaults *hproto.FsServerDefaults
	swept    map[string]time.Time // folders, and when what killed writers left there was last looked for
}

func newWriting(names changes, c *conf.Config, pool *datanode.Pool, nodes *nodeTable) *writing {
	return &writing{
		names: names, conf: c, pool: pool, nodes: nodes, newName: randomName, pause: store.Sleep, keepWhole: 4 << 20, placing: make(chan struct{}, 1), swept: map[string]time.Time{},
		patience: c.Duration("dfs.client.socket-timeout", time.Minute, time.Millisecond) + 3*perNode,
		restart:  c.Duration("dfs.client.datanode-restart.timeout", 30*time.Second, time.Second),
	}
}

// shape is how new files are stored.
type shape struct {
	blockSize int64
	replicas  int
	exclude   func(off int64) []string // see store.Placement; may be nil
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
	return all &^ w.conf.Umask("fs.permissions.umask-mode", 0o022)
}
