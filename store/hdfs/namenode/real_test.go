package namenode_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// realOptions call a real cluster as a user.
func realOptions(t testing.TB, c *hdfstest.Cluster, user string) namenode.Options {
	t.Helper()
	config, err := conf.Load(c.Getenv)
	must(t, err)
	cluster, err := config.Cluster("")
	must(t, err)
	o, err := namenode.Options{Cluster: cluster, User: user}.WithConfig(config)
	must(t, err)
	return o
}

func realClient(t testing.TB, c *hdfstest.Cluster, user string) *namenode.Client {
	t.Helper()
	return newClient(t, realOptions(t, c, user))
}

// A file's life by our calls, each checked against what Hadoop's own client wrote or sees.
func TestRealFiles(t *testing.T) {
	cluster := hdfstest.Shared(t)
	c := realClient(t, cluster, hdfstest.User)
	ctx, dir := t.Context(), cluster.Dir(t)
	data := hdfstest.Bytes(1, 5<<19) // two blocks and a half
	for _, name := range []string{"plain", "with space", "ünïcödé-日本", "100%25", "a+b&c=d"} {
		path := dir + "/" + name
		cluster.Put(path, data, 2, 1<<20)
		cluster.WaitReplication(path, 2)
		info, err := c.GetFileInfo(ctx, path)
		must(t, err)
		if info.GetLength() != uint64(len(data)) || info.GetFileType() != hproto.FileStatus_FILE || info.GetOwner() != hdfstest.User ||
			info.GetBlockReplication() != 2 || info.GetBlockSize() != 1<<20 || info.GetFileId() == 0 || len(info.GetPath()) != 0 {
			t.Errorf("%s: %v", name, info)
		}
		blocks, err := c.GetBlockLocations(ctx, path, 1<<20, 1)
		must(t, err)
		want := cluster.Locations(path)
		if len(want) != 3 {
			t.Fatalf("%s: Hadoop sees blocks %+v, we %v, %v", name, want, blocks, info)
		}
		compareBlocks(t, blocks.GetBlocks(), want[1:2])
		if blocks.GetLastBlock().GetOffset() != 2<<20 || !blocks.GetIsLastBlockComplete() || blocks.GetUnderConstruction() {
			t.Errorf("%s: last block %v", name, blocks.GetLastBlock())
		}
		located, err := c.GetLocatedFileInfo(ctx, path, true)
		must(t, err)
		compareBlocks(t, located.GetLocations().GetBlocks(), cluster.Locations(path))
	}
	behind, err := c.GetBlockLocations(ctx, dir+"/plain", 1<<30, 1)
	if err != nil || len(behind.GetBlocks()) != 0 {
		t.Errorf("behind the end: %v, %v", behind, err)
	}
}

func compareBlocks(t *testing.T, got []*hproto.LocatedBlock, want []hdfstest.Block) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d blocks, want %d", len(got), len(want))
	}
	for i, b := range got {
		if int64(b.GetOffset()) != want[i].Offset || int64(b.GetB().GetNumBytes()) != want[i].Length || int64(b.GetB().GetBlockId()) != want[i].ID {
			t.Errorf("block %d: %v, want %+v", i, b, want[i])
		}
		if len(b.GetLocs()) != len(want[i].Nodes) || len(b.GetStorageTypes()) != len(b.GetLocs()) || b.GetStorageTypes()[0] != uint32(hproto.StorageType_DISK) {
			t.Errorf("block %d: %d locations, storage types %v, want %+v", i, len(b.GetLocs()), b.GetStorageTypes(), want[i])
		}
		for _, loc := range b.GetLocs() {
			if !strings.HasPrefix(loc.GetLocation(), "/rack") || loc.GetId().GetXferPort() == 0 {
				t.Errorf("block %d: location %v", i, loc)
			}
		}
	}
}

// Changes of names and settings.
func TestRealChanges(t *testing.T) {
	cluster := hdfstest.Shared(t)
	c := realClient(t, cluster, hdfstest.User)
	ctx, dir := t.Context(), cluster.Dir(t)
	must(t, c.Mkdirs(ctx, dir+"/a/b", 0o750, true))
	must(t, c.Mkdirs(ctx, dir+"/a/b", 0o750, true)) // once more
	wantError(t, "mkdirs without parents", c.Mkdirs(ctx, dir+"/x/y", 0o750, false), fs.ErrNotExist)
	cluster.Put(dir+"/f", []byte("one"), 3, 0)
	cluster.Put(dir+"/g", []byte("two"), 3, 0)
	wantError(t, "mkdirs below a file", c.Mkdirs(ctx, dir+"/f/x", 0o750, true), syscall.ENOTDIR)
	wantError(t, "rename onto a file", c.Rename2(ctx, dir+"/f", dir+"/g", false), fs.ErrExist)
	must(t, c.Rename2(ctx, dir+"/f", dir+"/g", true))
	if got := cluster.Get(dir + "/g"); string(got) != "one" {
		t.Errorf("renamed over: %q", got)
	}
	wantError(t, "rename of nothing", c.Rename2(ctx, dir+"/none", dir+"/h", true), fs.ErrNotExist)
	_, err := c.Delete(ctx, dir+"/a", false)
	wantError(t, "delete of a full folder", err, syscall.ENOTEMPTY)
	if deleted, err := c.Delete(ctx, dir+"/a", true); !deleted || err != nil {
		t.Errorf("delete: %v, %v", deleted, err)
	}
	if deleted, err := c.Delete(ctx, dir+"/a", true); deleted || err != nil {
		t.Errorf("delete of nothing: %v, %v", deleted, err)
	}
	if ok, err := c.SetReplication(ctx, dir+"/g", 2); !ok || err != nil {
		t.Errorf("setReplication: %v, %v", ok, err)
	}
	if ok, err := c.SetReplication(ctx, dir, 2); ok || err != nil {
		t.Errorf("setReplication of a folder: %v, %v", ok, err)
	}
	when := time.UnixMilli(1_700_000_000_123)
	must(t, c.SetTimes(ctx, dir+"/g", when, time.Time{}))
	info, err := c.GetFileInfo(ctx, dir+"/g")
	must(t, err)
	if info.GetModificationTime() != uint64(when.UnixMilli()) || info.GetBlockReplication() != 2 {
		t.Errorf("%v", info)
	}
	cluster.Put(dir+"/p1", hdfstest.Bytes(1, 1<<20), 2, 0)
	cluster.Put(dir+"/p2", hdfstest.Bytes(2, 1<<20), 2, 0)
	must(t, c.Concat(ctx, dir+"/p1", dir+"/p2"))
	if got := cluster.Get(dir + "/p1"); !slices.Equal(got, append(hdfstest.Bytes(1, 1<<20), hdfstest.Bytes(2, 1<<20)...)) {
		t.Errorf("concat gave %d other bytes", len(got))
	}
	attribute := &hproto.XAttr{Namespace: hproto.XAttr_USER.Enum(), Name: proto.String("factor"), Value: []byte("3")}
	must(t, c.SetXAttr(ctx, dir+"/g", attribute, hproto.SetXAttrRequest_CREATE))
	got, err := c.GetXAttrs(ctx, dir+"/g", attribute)
	if err != nil || len(got) != 1 || string(got[0].GetValue()) != "3" {
		t.Errorf("xattrs %v, %v", got, err)
	}
	must(t, c.RemoveXAttr(ctx, dir+"/g", attribute))
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// What is refused, and by which error.
func TestRealRefusals(t *testing.T) {
	cluster := hdfstest.Shared(t)
	c := realClient(t, cluster, hdfstest.User)
	intruder := realClient(t, cluster, hdfstest.Intruder)
	ctx, dir := t.Context(), cluster.Dir(t)
	cluster.Put(dir+"/secret", []byte("x"), 1, 0)
	cluster.Chmod(dir+"/secret", "", 0o600)
	must(t, c.CheckAccess(ctx, dir+"/secret", hproto.CheckAccessRequest_READ))
	wantError(t, "checkAccess", intruder.CheckAccess(ctx, dir+"/secret", hproto.CheckAccessRequest_READ), fs.ErrPermission)
	_, err := intruder.GetBlockLocations(ctx, dir+"/secret", 0, 1)
	wantError(t, "locations", err, fs.ErrPermission)
	_, err = intruder.GetDatanodeReport(ctx, hproto.GetDatanodeReportRequest_LIVE)
	wantError(t, "datanode report", err, fs.ErrPermission)
	_, err = c.GetFileInfo(ctx, dir+"/none")
	wantError(t, "absent", err, fs.ErrNotExist)
	cluster.Symlink(dir+"/secret", dir+"/link")
	_, err = c.GetBlockLocations(ctx, dir+"/link", 0, 1)
	wantError(t, "symlink", err, errors.ErrUnsupported)
	if err != nil && !strings.Contains(err.Error(), "symbolic links are not followed") {
		t.Errorf("symlink: %v", err)
	}
	must(t, c.Mkdirs(ctx, dir+"/quota", 0o755, true))
	cluster.Quota(dir+"/quota", 2, 0)
	must(t, c.Mkdirs(ctx, dir+"/quota/1", 0o755, true))
	wantError(t, "quota", c.Mkdirs(ctx, dir+"/quota/2", 0o755, true), syscall.EDQUOT)
	usage, err := c.GetQuotaUsage(ctx, dir+"/quota")
	if err != nil || usage.GetQuota() != 2 || usage.GetSpaceQuota() != math.MaxUint64 {
		t.Errorf("%v, %v", usage, err)
	}
	wantError(t, "long name", c.Mkdirs(ctx, dir+"/"+strings.Repeat("x", 256), 0o755, true), syscall.ENAMETOOLONG)
	_, err = c.GetDelegationToken(ctx, hdfstest.User)
	if err == nil || store.ClassOf(err) == store.Retryable {
		t.Errorf("a token without security: %v", err)
	}
}

// What the cluster tells about itself, to a superuser and to others.
func TestRealCluster(t *testing.T) {
	cluster := hdfstest.Shared(t)
	ctx, dir := t.Context(), cluster.Dir(t)
	super, c := realClient(t, cluster, hdfstest.Superuser), realClient(t, cluster, hdfstest.User)
	byReport, err := super.LiveNodes(ctx)
	must(t, err)
	byJMX, err := c.LiveNodes(ctx)
	must(t, err)
	describe := func(nodes []*hproto.DatanodeInfo) (list []string) {
		for _, n := range nodes {
			list = append(list, fmt.Sprint(n.GetId().GetDatanodeUuid(), n.GetId().GetHostName(), n.GetId().GetXferPort(), n.GetLocation(), n.GetCapacity() > 0))
		}
		slices.Sort(list)
		return list
	}
	if a, b := describe(byReport), describe(byJMX); len(a) != 3 || !slices.Equal(a, b) {
		t.Errorf("live nodes by report %v, by JMX %v", a, b)
	}
	defaults, err := c.GetServerDefaults(ctx)
	if err != nil || defaults.GetBytesPerChecksum() != 512 || defaults.GetEncryptDataTransfer() {
		t.Errorf("%v, %v", defaults, err)
	}
	cluster.Put(dir+"/f", []byte("12345"), 2, 0)
	summary, err := c.GetContentSummary(ctx, dir)
	if err != nil || summary.GetLength() != 5 || summary.GetFileCount() != 1 || summary.GetSpaceConsumed() != 10 {
		t.Errorf("%v, %v", summary, err)
	}
	key, err := c.GetDataEncryptionKey(ctx)
	policy, err2 := c.GetErasureCodingPolicy(ctx, dir)
	closed, err3 := c.IsFileClosed(ctx, dir+"/f")
	stats, err4 := c.GetFsStats(ctx)
	_, err5 := c.GetSlowDatanodeReport(ctx)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil || key != nil || policy != nil || !closed || stats.GetCapacity() == 0 {
		t.Errorf("%v %v %v %v, %v", key, policy, closed, stats, err)
	}
}

// A folder of 10,000 files: every name once, in order, in as many calls as pages.
func TestRealLargeFolder(t *testing.T) {
	cluster := hdfstest.Shared(t)
	dir := cluster.Dir(t)
	cluster.ManyFiles(dir, 10_000)
	c := realClient(t, cluster, hdfstest.User)
	n := 0
	must(t, c.ListAll(t.Context(), dir, func(s *hproto.FileStatus) error {
		if string(s.GetPath()) != fmt.Sprintf("%06d", n) {
			t.Fatalf("entry %d is %q", n, s.GetPath())
		}
		n++
		return nil
	}))
	if calls := c.Stats().Calls["getListing"]; n != 10_000 || calls != 10 {
		t.Errorf("%d entries in %d calls", n, calls)
	}
}

// Many callers share one connection to a real NameNode, some give up, and all others get their own answer.
func TestRealMultiplex(t *testing.T) {
	cluster := hdfstest.Shared(t)
	dir := cluster.Dir(t)
	for i := range 8 {
		cluster.Put(fmt.Sprintf("%s/%d", dir, i), make([]byte, i), 1, 0)
	}
	c := realClient(t, cluster, hdfstest.User)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			for range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%4)*time.Second)
				if i%8 == 7 {
					cancel()
				}
				info, err := c.GetFileInfo(ctx, fmt.Sprintf("%s/%d", dir, i%8))
				if i%8 != 7 && (err != nil || info.GetLength() != uint64(i%8)) || i%8 == 7 && err == nil {
					t.Errorf("%d: %v, %v", i, info, err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	if n := c.Stats().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Safe mode: reads go on, changes are refused by an error that says so and may be tried again.
func TestRealSafeMode(t *testing.T) {
	cluster := hdfstest.Shared(t)
	dir := cluster.Dir(t)
	cluster.Put(dir+"/f", []byte("x"), 1, 0)
	c := realClient(t, cluster, hdfstest.User)
	cluster.SafeMode(true)
	defer cluster.SafeMode(false)
	_, err := c.GetBlockLocations(t.Context(), dir+"/f", 0, 1)
	must(t, err)
	err = c.Mkdirs(t.Context(), dir+"/d", 0o755, true)
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "safe mode") {
		t.Errorf("mkdirs in safe mode: %v", err)
	}
}

// The first two connections to a real NameNode are cut after so many bytes, in either direction. A call that changes
// something and was served before the cut is answered from the NameNode's memory: it took place once, and says so.
func TestRealCut(t *testing.T) {
	cluster := hdfstest.Shared(t)
	dir := cluster.Dir(t)
	plain := realClient(t, cluster, hdfstest.User)
	for _, bytes := range []int64{0, 3, 7, 20, 60, 120, 200} {
		for _, reading := range []bool{false, true} {
			if reading && bytes > 20 {
				continue // an answer is shorter
			}
			path := fmt.Sprintf("%s/%d-%v", dir, bytes, reading)
			must(t, plain.Mkdirs(t.Context(), path, 0o755, true))
			o := realOptions(t, cluster, hdfstest.User)
			var dials atomic.Int32
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err == nil && dials.Add(1) <= 2 {
					c = &severed{Conn: c, reading: reading, left: bytes}
				}
				return c, err
			}
			deleted, err := newClient(t, o).Delete(t.Context(), path, false)
			if !deleted || err != nil {
				t.Errorf("cut after %d bytes, reading %v: deleted %v, %v", bytes, reading, deleted, err)
			}
			if n := dials.Load(); n != 3 {
				t.Errorf("cut after %d bytes, reading %v: %d connections", bytes, reading, n)
			}
		}
	}
}

// severed resets a connection after so many bytes in one direction.
type severed struct {
	net.Conn
	reading bool
	left    int64
}

func (s *severed) Read(p []byte) (int, error) {
	if s.reading {
		if s.left == 0 {
			return 0, s.sever()
		}
		p = p[:min(int64(len(p)), s.left)]
	}
	n, err := s.Conn.Read(p)
	if s.reading {
		s.left -= int64(n)
	}
	return n, err
}

func (s *severed) Write(p []byte) (int, error) {
	if s.reading {
		return s.Conn.Write(p)
	}
	if int64(len(p)) <= s.left {
		s.left -= int64(len(p))
		return s.Conn.Write(p)
	}
	n, _ := s.Conn.Write(p[:s.left])
	return n, s.sever()
}

func (s *severed) sever() error {
	s.Conn.(*net.TCPConn).SetLinger(0)
	s.Conn.Close()
	return syscall.ECONNRESET
}
