// Package hdfs knows a Hadoop file system as a store: files by name, which nodes hold their blocks, and exact ranges read from
// the best of them, verified, whatever fails on the way.
package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// Options configure a Store. The zero value is usable: it reads from the cluster that the address names, as nobody in
// particular.
type Options struct {
	// Conf is Hadoop's configuration, as conf.Load finds it. Default: an empty one.
	Conf *conf.Config
	// User is who reads and writes, where the cluster believes what clients say. Default "stepahead".
	User string
	// RealUser acts as User, where the cluster allows it. Default: none, User acts.
	RealUser string
	// Auth proves to NameNodes who calls. Default: nothing does, the cluster believes User.
	Auth namenode.Authenticator
	// Dial opens connections to NameNodes and DataNodes. Default: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Root is the folder that the store's names are relative to; it exists. Default "/".
	Root string
	// Rank tells readers of the same files apart: the rank of a training process. Readers of different ranks take different
	// replicas of a block. Default 0.
	Rank int
	// Node is the UUID of the DataNode beside which the reader runs; its own replicas are read first. Default: none.
	Node string
	// Host is the reader's host name or IP address, Rack its rack as the NameNode calls it, such as "/default-rack". A
	// replica on the same host is read first, then one on the same rack. Default: not known, all are equal; the rack of a DataNode
	// on the same host is taken.
	Host, Rack string
	// Parallel is how many requests one call has in flight at a time. Default 16.
	Parallel int
	// MaxReads is how many requests the whole store has in flight at a time, MaxNodeReads how many of them at one DataNode.
	// Default 64 and 8.
	MaxReads, MaxNodeReads int
	// MaxBulkReads and MaxNodeBulkReads are the same for requests in the lane store.Bulk, which MaxReads and MaxNodeReads do
	// not count. Default 64 and 8.
	MaxBulkReads, MaxNodeBulkReads int
	// NoHedge leaves slow reads to the node that was asked first. By default a second node is asked, for at most 5 % of all
	// bytes.
	NoHedge bool
}

func (o Options) withDefaults() Options {
	if o.Conf == nil {
		o.Conf = new(conf.Config)
	}
	if o.User == "" {
		o.User = "stepahead"
	}
	if o.Root == "" {
		o.Root = "/"
	}
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&o.Parallel, 16)
	set(&o.MaxReads, 64)
	set(&o.MaxNodeReads, 8)
	set(&o.MaxBulkReads, 64)
	set(&o.MaxNodeBulkReads, 8)
	return o
}

// Validate returns all that is wrong with o, defaults filled in.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if err := checkName(o.Root); err != nil {
		errs = append(errs, fmt.Errorf("hdfs.Options: Root: %w", err))
	}
	if o.Rank < 0 {
		errs = append(errs, fmt.Errorf("hdfs.Options: Rank: %d: give 0 or more", o.Rank))
	}
	if o.Parallel < 1 || o.MaxReads < 1 || o.MaxNodeReads < 1 {
		errs = append(errs, fmt.Errorf("hdfs.Options: Parallel %d, MaxReads %d, MaxNodeReads %d: give at least 1", o.Parallel, o.MaxReads, o.MaxNodeReads))
	}
	if o.MaxBulkReads < 1 || o.MaxNodeBulkReads < 1 {
		errs = append(errs, fmt.Errorf("hdfs.Options: MaxBulkReads %d, MaxNodeBulkReads %d: give at least 1", o.MaxBulkReads, o.MaxNodeBulkReads))
	}
	return errors.Join(errs...)
}

// nameNode is what reading asks of a NameNode. What is absent matches fs.ErrNotExist.
type nameNode interface {
	GetFileInfo(ctx context.Context, path string) (*hproto.FileStatus, error)
	GetBlockLocations(ctx context.Context, path string, off, n int64) (*hproto.LocatedBlocks, error)
	GetListing(ctx context.Context, path string, startAfter []byte, needLocation bool) (*hproto.DirectoryListing, error)
	ListAll(ctx context.Context, path string, each func(*hproto.FileStatus) error) error
	ReportBadBlocks(ctx context.Context, blocks []*hproto.LocatedBlock) error
}

// dataNodes is how replicas are read, and asked for their sums; see datanode.Pool.
type dataNodes interface {
	Read(ctx context.Context, node datanode.Node, b datanode.Block, parts []datanode.Part) (n int64, err error)
	CRC32C(ctx context.Context, node datanode.Node, b datanode.Block) (sum uint32, err error)
}

type part = datanode.Part

// Store is a folder of a Hadoop file system as a store.Store.
//
// Names are those of HDFS, below Options.Root. HDFS allows no ':' in them, and they are UTF-8; other names are store.ErrName.
// Symbolic links are not followed: Open and Stat of one, or of a name behind one, fail. Files in an encryption zone are
// refused by Open, since their bytes would be useless. Names in a ".snapshot" folder work as any others.
type Store struct {
	o       Options
	cluster conf.Cluster
	reader  *reader
	names   nameNode
	data    dataNodes
	visible func(ctx context.Context, n *node, b *block) (int64, error) // nil: cannot be learned
	nn      *namenode.Client                                            // names and data are these two; nil in tests without a cluster
	pool    *datanode.Pool
	writes  *writing // nil: read only
	places  placeCalls
	others  *others // nil as nn is

	nodes   nodeTable
	layouts layouts
	bad     badNodes
	reports reports
	hedges  hedger
	gates   [store.Lanes]gates
	loads   loads
	stats   stats
	tokens  atomic.Bool // blocks have tokens
}

var (
	_ store.ReadCounter = (*Store)(nil)
	_ store.ManyReader  = (*Store)(nil)
	_ store.Prefetcher  = (*Store)(nil)
)

func newStore(o Options, cluster conf.Cluster, names nameNode, data dataNodes) *Store {
	s := &Store{o: o, cluster: cluster, names: names, data: data, reader: &reader{node: o.Node, host: o.Host, rack: o.Rack, rank: o.Rank}}
	s.nodes.byHost = o.Conf.Bool("dfs.client.use.datanode.hostname", false)
	s.tokens.Store(o.Auth != nil) // a secure cluster has them
	s.gates[store.Feed].most, s.gates[store.Feed].mostNode = o.MaxReads, o.MaxNodeReads
	s.gates[store.Bulk].most, s.gates[store.Bulk].mostNode = o.MaxBulkReads, o.MaxNodeBulkReads
	return s
}

// RunsBeside says, before anything is read, beside which DataNode the reader runs, as FindNode describes it; see
// Options.Node and Options.Rack, which it replaces.
func (s *Store) RunsBeside(node store.Replica) {
	s.o.Node, s.o.Rack = node.Node, node.Rack
	s.reader.node, s.reader.rack = node.Node, node.Rack
}

// Cluster is the cluster that the store reads.
func (s *Store) Cluster() conf.Cluster { return s.cluster }

// ParseURL splits an address, hdfs://authority/path, into what conf.Config.Cluster takes and a name. Nothing is decoded: what
// follows the authority is the path as it is. A path alone is one of the default cluster. Errors match store.ErrName.
func ParseURL(url string) (authority, name string, err error) {
	rest, ok := strings.CutPrefix(url, "hdfs://")
	switch scheme, _, other := strings.Cut(url, "://"); {
	case ok:
		authority, name, _ = strings.Cut(rest, "/")
		name = "/" + name
	case other && !strings.Contains(scheme, "/"):
		return "", "", fmt.Errorf("%w: %q: the scheme %s is not HDFS's: write hdfs://cluster/path", store.ErrName, url, scheme)
	default:
		name = url
	}
	if len(name) > 1 {
		name = strings.TrimSuffix(name, "/")
	}
	return authority, name, store.CheckName(name)
}

// tempPrefix marks files that are being written. They are never listed and cannot be named.
const tempPrefix = ".stepahead-tmp-"

// metaDir is the store's own folder in its root. It can be reached by name and is not listed.
const metaDir = ".stepahead"

func checkName(name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	switch {
	case strings.Contains(name, ":"):
		return fmt.Errorf("%w: %q: HDFS allows no ':' in names", store.ErrName, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %q: names in HDFS are UTF-8", store.ErrName, name)
	case name == "/.reserved" || strings.HasPrefix(name, "/.reserved/"):
		return fmt.Errorf("%w: %q: /.reserved is HDFS's own", store.ErrName, name)
	}
	for p := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(p, tempPrefix) {
			return fmt.Errorf("%w: %q: names that start with %s are reserved", store.ErrName, name, tempPrefix)
		}
	}
	return nil
}

// begin is what every operation does first.
func (s *Store) begin(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// path is a checked name as HDFS calls it.
func (s *Store) path(name string) string { return path.Join(s.o.Root, name) }

// Address implements store.Store.
func (s *Store) Address(name string) string { return s.url(s.path(name)) }

// url is a path of HDFS with the cluster that it is in.
func (s *Store) url(path string) string { return "hdfs://" + s.cluster.Name + path }

// failed names the operation and the file.
func (s *Store) failed(op, name string, err error) error {
	return failedAt(op, s.Address(name), err)
}

func failedAt(op, url string, err error) error {
	return fmt.Errorf("hdfs.%s %s: %w", op, url, err)
}

// status asks for a file or folder. Links are refused.
func (s *Store) status(ctx context.Context, path string) (*hproto.FileStatus, error) {
	status, err := s.names.GetFileInfo(ctx, path)
	if err != nil {
		return nil, err
	}
	if status.GetFileType() == hproto.FileStatus_SYMLINK {
		return nil, fmt.Errorf("%w: a symbolic link to %q: links are not followed, open what it leads to", syscall.ELOOP, status.GetSymlink())
	}
	return status, nil
}

// Stat implements store.Store.
func (s *Store) Stat(ctx context.Context, name string) (store.Info, error) {
	return s.stat(ctx, name, s.path(name))
}

// stat is Stat of what has a path, and is called name.
func (s *Store) stat(ctx context.Context, name, path string) (store.Info, error) {
	if err := s.begin(ctx, name); err != nil {
		return store.Info{}, s.failed("Stat", name, err)
	}
	status, err := s.status(ctx, path)
	if err != nil {
		return store.Info{}, s.failed("Stat", name, err)
	}
	return describe(name, status), nil
}

// fileStatus asks for a file that can be read.
func (s *Store) fileStatus(ctx context.Context, path string) (*hproto.FileStatus, error) {
	status, err := s.status(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case status.GetFileType() == hproto.FileStatus_DIR:
		return nil, syscall.EISDIR
	case int64(status.GetLength()) < 0:
		return nil, fmt.Errorf("%w: its length is %d", fs.ErrInvalid, status.GetLength())
	}
	if policy := policyOf(status.GetEcPolicy()); policy != nil {
		if err := policy.Validate(); err != nil {
			return nil, err
		}
	}
	if e := status.GetFileEncryptionInfo(); e != nil {
		return nil, fmt.Errorf("%w: it lies in an encryption zone (key %s): copy it out of the zone", errors.ErrUnsupported, e.GetKeyName())
	}
	return status, nil
}
