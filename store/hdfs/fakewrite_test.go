package hdfs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// lake is a NameNode in memory as writing sees it, and what DataNodes were sent.
type lake struct {
	mu      sync.Mutex
	entries map[string]*inode // files and folders
	ids     uint64
	now     int64 // the NameNode's clock, in ms
	calls   []string
	// fail, if it is set, fails calls.
	fail func(method, path string) error
	// breaks, if it is set, says after how many bytes a stream breaks, and how many of those it was given are lost.
	breaks func() (after, lost int)
	// unsettled is how often a broken file is found not to be closed yet.
	unsettled int
}

type inode struct {
	dir      bool
	id       uint64
	data     []byte
	holder   string // of the lease; "": closed
	expired  bool   // the lease
	modified int64
	ec       bool
	factor   int
}

func newLake() *lake {
	return &lake{entries: map[string]*inode{"/": {dir: true}}, now: 1_000_000}
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

func exception(class string) error {
	return namenode.NewRemoteError("org.apache.hadoop."+class, "as it is", "nn:8020", "create")
}

func (c *lake) status(name string, e *inode) *hproto.FileStatus {
	kind := hproto.FileStatus_FILE
	if e.dir {
		kind = hproto.FileStatus_DIR
	}
	s := &hproto.FileStatus{FileType: &kind, Path: []byte(name), Length: proto.Uint64(uint64(len(e.data))), FileId: &e.id, ModificationTime: proto.Uint64(uint64(e.modified))}
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

func (c *lake) Complete(_ context.Context, r *hproto.CompleteRequest) (bool, error) {
	done, err := c.begin("complete", r.GetSrc())
	if err != nil {
		return false, err
	}
	defer done()
	c.entries[r.GetSrc()].holder = ""
	return true, nil
}

func (c *lake) RecoverLease(_ context.Context, name, _ string) (bool, error) {
	done, err := c.begin("recoverLease", name)
	if err != nil {
		return false, err
	}
	defer done()
	if c.unsettled > 0 {
		c.unsettled--
		return false, nil
	}
	c.entries[name].holder = ""
	return true, nil
}

func (c *lake) GetBlockLocations(_ context.Context, name string, _, _ int64) (*hproto.LocatedBlocks, error) {
	done, err := c.begin("getBlockLocations", name)
	if err != nil {
		return nil, err
	}
	defer done()
	e := c.entries[name]
	open := e.holder != ""
	at := uint64(len(e.data) / fakeBlockSize * fakeBlockSize)
	return &hproto.LocatedBlocks{LastBlock: &hproto.LocatedBlock{Offset: &at}, UnderConstruction: &open, IsLastBlockComplete: proto.Bool(!open)}, nil
}

func (c *lake) AbandonBlock(_ context.Context, r *hproto.AbandonBlockRequest) error {
	done, err := c.begin("abandonBlock", r.GetSrc())
	if err != nil {
		return err
	}
	defer done()
	e := c.entries[r.GetSrc()]
	if e.holder != r.GetHolder() {
		return exception("hdfs.server.namenode.LeaseExpiredException")
	}
	e.data = e.data[:len(e.data)/fakeBlockSize*fakeBlockSize]
	return nil
}

const fakeBlockSize = 1 << 20

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
		return false, namenode.NewRemoteError("java.io.IOException", "Requested replication factor of 600 exceeds maximum of 512 for "+name, "nn", "setReplication")
	}
	e.factor = n
	return true, nil
}

func (c *lake) GetContentSummary(context.Context, string) (*hproto.ContentSummary, error) {
	return &hproto.ContentSummary{Length: proto.Uint64(7), Quota: proto.Uint64(^uint64(0))}, nil
}

func (c *lake) GetServerDefaults(context.Context) (*hproto.FsServerDefaults, error) {
	return &hproto.FsServerDefaults{BlockSize: proto.Uint64(1 << 20), Replication: proto.Uint32(3)}, nil
}

// sent is a stream to its DataNodes.
type sent struct {
	c           *lake
	name        string
	given       []byte
	after, lost int
	ended       bool
}

func (c *lake) appendTo(_ context.Context, name string) (stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "append")
	e := c.entries[name]
	if e == nil || e.holder != "" {
		return nil, missing(name)
	}
	e.holder = "the stream"
	s := &sent{c: c, name: name, after: 1 << 40}
	if c.breaks != nil {
		s.after, s.lost = c.breaks()
	}
	return s, nil
}

func (s *sent) Holder() string { return "the stream" }

func (s *sent) save(n int) {
	e := s.c.entries[s.name]
	e.data = append(e.data, s.given[:max(n, 0)]...)
	s.given = nil
}

func (s *sent) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.given = append(s.given, p...)
	if len(s.given) > s.after {
		s.given = s.given[:s.after]
		return 0, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

func (s *sent) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.lost > 0 {
		return store.ErrUnavailable
	}
	s.save(len(s.given))
	s.c.entries[s.name].holder = ""
	s.ended = true
	return nil
}

func (s *sent) Abort() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.ended && s.c.entries[s.name] != nil {
		s.save(len(s.given) - s.lost)
	}
	s.ended = true
	return nil
}

func newWriteStore(c *lake) *Store {
	w := newWriting(c, nil, c.appendTo)
	w.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return &Store{writes: w}
}

func (c *lake) wantOnly(t *testing.T, names ...string) {
	t.Helper()
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

func (c *lake) wantContent(t *testing.T, name string, want []byte) {
	t.Helper()
	if e := c.entries[name]; e == nil || e.holder != "" || !bytes.Equal(e.data, want) {
		t.Fatalf("%s does not hold the %d bytes that were written, closed", name, len(want))
	}
}
