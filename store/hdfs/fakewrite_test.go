package hdfs

import (
	"bytes"
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
}

// lakeBlock is a block as the NameNode knows it.
type lakeBlock struct {
	id, stamp uint64
	length    int // -1: it is open
	nodes     []int
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
	c := &lake{entries: map[string]*inode{"/": {dir: true}}, now: 1_000_000, ids: 1000, pool: datanode.NewPool(datanode.Options{})}
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

func (e *inode) length() (n uint64) {
	for _, b := range e.blocks {
		n += uint64(max(b.length, 0))
	}
	return n
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

// held returns a file that somebody writes.
func (c *lake) held(name, holder string) (*inode, error) {
	e := c.entries[name]
	switch {
	case e == nil:
		return nil, missing(name)
	case e.holder != holder:
		return nil, &namenode.RemoteError{Class: "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"}
	}
	return e, nil
}

// commit takes what a client says of a file's last block.
func (e *inode) commit(last *hproto.ExtendedBlock) error {
	if len(e.blocks) == 0 {
		if last != nil {
			return said("java.io.IOException", "there is no block")
		}
		return nil
	}
	b := e.blocks[len(e.blocks)-1]
	if last.GetBlockId() != b.id || last.GetGenerationStamp() != b.stamp {
		return said("java.io.IOException", fmt.Sprintf("the last block is %d under %d, not %v", b.id, b.stamp, last))
	}
	b.length = int(last.GetNumBytes())
	return nil
}

// reported tells whether a DataNode has closed the block.
func (c *lake) reported(b *lakeBlock) bool {
	if c.late > 0 {
		c.late--
		return false
	}
	return slices.ContainsFunc(b.nodes, func(i int) bool {
		r := c.nodes[i].Replica(b.id)
		return r != nil && r.Final && r.Stamp == b.stamp && len(r.Data) == b.length
	})
}

func (c *lake) Complete(_ context.Context, r *hproto.CompleteRequest) (bool, error) {
	done, err := c.begin("complete", r.GetSrc())
	if err != nil {
		return false, err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetClientName())
	if err == nil {
		err = e.commit(r.GetLast())
	}
	if err != nil {
		return false, err
	}
	for _, b := range e.blocks {
		if !c.reported(b) {
			return false, nil
		}
	}
	e.holder = ""
	return true, nil
}

func (c *lake) AddBlock(_ context.Context, r *hproto.AddBlockRequest) (*hproto.LocatedBlock, error) {
	done, err := c.begin("addBlock", r.GetSrc())
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetClientName())
	if err == nil {
		err = e.commit(r.GetPrevious())
	}
	if err != nil {
		return nil, err
	}
	if n := len(e.blocks); n > 1 && !c.reported(e.blocks[n-2]) {
		return nil, exception("hdfs.server.namenode.NotReplicatedYetException")
	}
	b := &lakeBlock{id: c.ids + 1, stamp: c.ids + 2, length: -1}
	c.ids += 2
	for k := range c.nodes {
		i := (int(b.id) + k) % len(c.nodes)
		shunned := slices.ContainsFunc(r.GetExcludeNodes(), func(d *hproto.DatanodeInfo) bool {
			return d.GetId().GetDatanodeUuid() == c.nodes[i].Addr()
		})
		if !shunned && len(b.nodes) < 3 {
			b.nodes = append(b.nodes, i)
		}
	}
	if len(b.nodes) == 0 {
		return nil, said("java.io.IOException", noNodes)
	}
	e.blocks = append(e.blocks, b)
	return c.located(b), nil
}

const noNodes = "File /f could only be written to 0 of the 1 minReplication nodes. There are 5 datanode(s) running and 5 node(s) are excluded in this operation."

func (b *lakeBlock) proto() *hproto.ExtendedBlock {
	return &hproto.ExtendedBlock{PoolId: proto.String("BP-1"), BlockId: &b.id, GenerationStamp: &b.stamp}
}

func (c *lake) located(b *lakeBlock) *hproto.LocatedBlock {
	l := &hproto.LocatedBlock{B: proto.CloneOf(b.proto())}
	for _, i := range b.nodes {
		l.Locs = append(l.Locs, c.nodes[i].Info())
		l.StorageTypes, l.StorageIds = append(l.StorageTypes, 1), append(l.StorageIds, fmt.Sprint("DS-", i))
	}
	return l
}

func (c *lake) AbandonBlock(_ context.Context, r *hproto.AbandonBlockRequest) error {
	done, err := c.begin("abandonBlock", r.GetSrc())
	if err != nil {
		return err
	}
	defer done()
	e, err := c.held(r.GetSrc(), r.GetHolder())
	if err != nil {
		return err
	}
	last := len(e.blocks) - 1
	if last < 0 || e.blocks[last].id != r.GetB().GetBlockId() || e.blocks[last].length >= 0 {
		return said("java.io.IOException", "that is not the last block, or it is closed")
	}
	e.blocks = e.blocks[:last]
	return nil
}

// open returns a block that somebody writes.
func (c *lake) open(id uint64, holder string) *lakeBlock {
	for _, e := range c.entries {
		if n := len(e.blocks); e.holder == holder && n > 0 && e.blocks[n-1].id == id {
			return e.blocks[n-1]
		}
	}
	return nil
}

func (c *lake) UpdateBlockForPipeline(_ context.Context, block *hproto.ExtendedBlock, holder string) (*hproto.LocatedBlock, error) {
	done, err := c.begin("updateBlockForPipeline", "")
	if err != nil {
		return nil, err
	}
	defer done()
	if c.open(block.GetBlockId(), holder) == nil {
		return nil, missing("block")
	}
	c.ids++
	return &hproto.LocatedBlock{B: &hproto.ExtendedBlock{PoolId: block.PoolId, BlockId: block.BlockId, GenerationStamp: proto.Uint64(c.ids)}}, nil
}

func (c *lake) UpdatePipeline(_ context.Context, r *hproto.UpdatePipelineRequest) error {
	done, err := c.begin("updatePipeline", "")
	if err != nil {
		return err
	}
	defer done()
	b := c.open(r.GetNewBlock().GetBlockId(), r.GetClientName())
	if b == nil || b.stamp != r.GetOldBlock().GetGenerationStamp() || r.GetNewBlock().GetGenerationStamp() <= b.stamp || len(r.GetNewNodes()) == 0 || len(r.GetStorageIds()) != len(r.GetNewNodes()) {
		return said("java.io.IOException", fmt.Sprintf("not the block that is written: %v", r))
	}
	b.stamp, b.nodes = r.GetNewBlock().GetGenerationStamp(), nil
	for _, d := range r.GetNewNodes() {
		b.nodes = append(b.nodes, slices.IndexFunc(c.nodes, func(n *fakedn.Node) bool { return n.Addr() == d.GetDatanodeUuid() }))
	}
	return nil
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

// content is what a closed file holds: every replica that counts has the same bytes.
func (c *lake) content(name string) ([]byte, error) {
	e := c.entries[name]
	if e == nil || e.holder != "" {
		return nil, fmt.Errorf("%s is not there, or open", name)
	}
	all := []byte{}
	for _, b := range e.blocks {
		var data []byte
		for _, i := range b.nodes {
			r := c.nodes[i].Replica(b.id)
			if r == nil || !r.Final || r.Stamp != b.stamp {
				continue
			}
			if len(r.Data) != b.length || data != nil && !bytes.Equal(data, r.Data) {
				return nil, fmt.Errorf("block %d at node %d has %d bytes of %d, or others", b.id, i, len(r.Data), b.length)
			}
			data = r.Data
		}
		all = append(all, data...)
	}
	return all, nil
}

func (c *lake) wantContent(t interface{ Fatalf(string, ...any) }, name string, want []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, err := c.content(name); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes, not the %d that were written: %v", name, len(got), len(want), err)
	}
}
