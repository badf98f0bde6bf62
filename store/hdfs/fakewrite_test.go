package hdfs

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// lake is a NameNode in memory as writing sees it, with fake DataNodes.
type lake struct {
	nodes []*fakedn.Node
	pool  *datanode.Pool

	mu      sync.Mutex
	entries map[string]*inode // files and folders
	ids     uint64            // of inodes and blocks, and stamps
	now     int64             // the NameNode's clock, in ms
	calls   []string
	// fail, if it is set, fails calls.
	fail func(method, path string) error
	// fault, if it is set, is asked what a DataNode does with a request.
	fault func(node int, r fakedn.Request) fakedn.Fault
	// late is how often DataNodes are found not to have reported a block yet.
	late int
	// replicas is how many a block gets, where there are enough DataNodes, and perRack, unless it is 0, how many of them on one rack: nodes 0, 2 and 4 are on one,
	// the others on another.
	replicas, perRack int
}

type inode struct {
	dir      bool
	id       uint64
	blocks   []*lakeBlock
	holder   string // of the lease; "": closed
	expired  bool   // the lease
	modified int64
	ec       bool
	factor   int
}

// openLake returns a lake, which the caller closes.
func openLake() *lake {
	c := &lake{entries: map[string]*inode{"/": {dir: true}}, now: 1_000_000, ids: 1000, replicas: 3, pool: datanode.NewPool(datanode.Options{})}
	for i := range 5 {
		n, err := fakedn.Start(fakedn.Options{Script: func(r fakedn.Request) fakedn.Fault {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.fault == nil {
				return fakedn.Fault{}
			}
			return c.fault(i, r)
		}})
		if err != nil {
			panic(err)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

func newLake(t *testing.T) *lake {
	c := openLake()
	t.Cleanup(c.close)
	return c
}

func (c *lake) close() {
	c.pool.Close()
	for _, n := range c.nodes {
		n.Close()
	}
}

func (c *lake) begin(method, name string) (func(), error) {
	c.mu.Lock()
	c.calls = append(c.calls, method)
	if c.fail != nil {
		if err := c.fail(method, name); err != nil {
			c.mu.Unlock()
			return nil, err
		}
	}
	return c.mu.Unlock, nil
}

func missing(name string) error { return fmt.Errorf("%s: %w", name, fs.ErrNotExist) }

func exception(class string) error { return said(class, "as it is") }

// said is an exception as a NameNode gives it.
func said(class, message string) error {
	return &namenode.RemoteError{Class: "org.apache.hadoop." + class, Message: message, NameNode: "nn:8020", Method: "create"}
}

func (c *lake) status(name string, e *inode) *hproto.FileStatus {
	kind := hproto.FileStatus_FILE
	if e.dir {
		kind = hproto.FileStatus_DIR
	}
	s := &hproto.FileStatus{FileType: &kind, Path: []byte(name), Length: proto.Uint64(e.length()), FileId: &e.id, ModificationTime: proto.Uint64(uint64(e.modified))}
	if e.ec {
		s.EcPolicy = &hproto.ErasureCodingPolicy{Name: proto.String("RS-6-3-1024k")}
	}
	return s
}

func (c *lake) GetFileInfo(_ context.Context, name string) (*hproto.FileStatus, error) {
	done, err := c.begin("getFileInfo", name)
	if err != nil {
		return nil, err
	}
	defer done()
	if e := c.entries[name]; e != nil {
		return c.status("", e), nil
	}
	return nil, missing(name)
}

func (c *lake) children(dir string) (names []string) {
	for name := range c.entries {
		if name != "/" && path.Dir(name) == dir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *lake) GetListing(_ context.Context, dir string, _ []byte, _ bool) (*hproto.DirectoryListing, error) {
	done, err := c.begin("getListing", dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if c.entries[dir] == nil {
		return nil, missing(dir)
	}
	l := &hproto.DirectoryListing{}
	for _, name := range c.children(dir) {
		l.PartialListing = append(l.PartialListing, c.status(path.Base(name), c.entries[name]))
	}
	return l, nil
}

func (c *lake) IsFileClosed(_ context.Context, name string) (bool, error) {
	done, err := c.begin("isFileClosed", name)
	if err != nil {
		return false, err
	}
	defer done()
	e := c.entries[name]
	if e == nil {
		return false, missing(name)
	}
	return e.holder == "", nil
}

func (c *lake) Create(_ context.Context, r *hproto.CreateRequest) (*hproto.FileStatus, error) {
	done, err := c.begin("create", r.GetSrc())
	if err != nil {
		return nil, err
	}
	defer done()
	switch e := c.entries[r.GetSrc()]; {
	case c.entries[path.Dir(r.GetSrc())] == nil:
		return nil, missing(r.GetSrc())
	case e != nil && e.holder != "" && e.expired:
		return nil, exception("hdfs.protocol.RecoveryInProgressException")
	case e != nil && e.holder != "":
		return nil, exception("hdfs.protocol.AlreadyBeingCreatedException")
	case e != nil:
		return nil, exception("fs.FileAlreadyExistsException")
	}
	c.ids++
	e := &inode{id: c.ids, holder: r.GetClientName(), modified: c.now}
	c.entries[r.GetSrc()] = e
	return c.status("", e), nil
}

func (c *lake) RenewLease(context.Context, string) error {
	done, err := c.begin("renewLease", "")
	if err == nil {
		done()
	}
	return err
}

func (c *lake) Mkdirs(_ context.Context, name string, _ fs.FileMode, _ bool) error {
	done, err := c.begin("mkdirs", name)
	if err != nil {
		return err
	}
	defer done()
	for p := name; p != "/"; p = path.Dir(p) {
		if e := c.entries[p]; e != nil && !e.dir {
			return syscall.ENOTDIR
		}
		if c.entries[p] == nil {
			c.entries[p] = &inode{dir: true}
		}
	}
	return nil
}

func (c *lake) Delete(_ context.Context, name string, _ bool) (bool, error) {
	done, err := c.begin("delete", name)
	if err != nil {
		return false, err
	}
	defer done()
	if c.entries[name] == nil {
		return false, nil
	}
	if len(c.children(name)) > 0 {
		return false, fmt.Errorf("%s: %w", name, syscall.ENOTEMPTY)
	}
	delete(c.entries, name)
	return true, nil
}

func (c *lake) Rename2(_ context.Context, from, to string, overwrite bool) error {
	done, err := c.begin("rename2", from)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case c.entries[from] == nil || c.entries[path.Dir(to)] == nil:
		return missing(from)
	case c.entries[to] != nil && !overwrite:
		return exception("fs.FileAlreadyExistsException")
	}
	for name, e := range c.entries {
		if name == from || strings.HasPrefix(name, from+"/") {
			c.entries[to+name[len(from):]] = e
			delete(c.entries, name)
		}
	}
	return nil
}

func (c *lake) Concat(_ context.Context, target string, sources ...string) error {
	done, err := c.begin("concat", target)
	if err != nil {
		return err
	}
	defer done()
	for _, name := range append([]string{target}, sources...) {
		switch e := c.entries[name]; {
		case e == nil:
			return missing(name)
		case e.dir || e.holder != "" || len(e.blocks) == 0 || path.Dir(name) != path.Dir(target):
			return exception("HadoopIllegalArgumentException")
		}
	}
	for _, name := range sources {
		c.entries[target].blocks = append(c.entries[target].blocks, c.entries[name].blocks...)
		delete(c.entries, name)
	}
	return nil
}

func (c *lake) SetReplication(_ context.Context, name string, n int) (bool, error) {
	done, err := c.begin("setReplication", name)
	if err != nil {
		return false, err
	}
	defer done()
	e := c.entries[name]
	if e == nil || e.dir || e.ec {
		return false, nil
	}
	if n > 512 {
		return false, &namenode.RemoteError{Class: "java.io.IOException", Message: "Requested replication factor of 600 exceeds maximum of 512 for " + name}
	}
	e.factor = n
	return true, nil
}

func (c *lake) GetContentSummary(context.Context, string) (*hproto.ContentSummary, error) {
	return &hproto.ContentSummary{Length: proto.Uint64(7), Quota: proto.Uint64(^uint64(0))}, nil
}

func (c *lake) GetServerDefaults(context.Context) (*hproto.FsServerDefaults, error) {
	return &hproto.FsServerDefaults{BlockSize: proto.Uint64(fakeBlockSize), Replication: proto.Uint32(3)}, nil
}

// fakeBlockSize is that of new files, keptWhole the size up to which blocks can be written again.
const fakeBlockSize, keptWhole = 1 << 20, 256 << 10

func newWriteStore(c *lake) *Store {
	w := newWriting(c, nil, c.pool, new(nodeTable))
	w.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	w.keepWhole = keptWhole
	return &Store{writes: w}
}

func (c *lake) wantOnly(t interface{ Fatalf(string, ...any) }, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := []string{}
	for name := range c.entries {
		if name != "/" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Fatalf("the lake holds %q, want %q", got, names)
	}
}
