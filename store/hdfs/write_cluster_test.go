package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// writeOn returns a store of a cluster that can write, in a folder of the test's own.
func writeOn(t *testing.T, c *hdfstest.Cluster, change ...func(*conf.Config) *conf.Config) (*Store, string) {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		cfg = f(cfg)
	}
	s, _, err := Open(c.URL(), Options{Conf: cfg, User: hdfstest.User})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, c.Dir(t)
}

func wantListed(t *testing.T, s *Store, dir string, want ...string) {
	t.Helper()
	l, err := s.nn.GetListing(t.Context(), dir, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, status := range l.GetPartialListing() {
		got = append(got, string(status.GetPath()))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("%s holds %q, want %q", dir, got, want)
	}
}

func TestWrittenFilesAreHadoops(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", "1m") })
	for _, n := range []int{0, 1, 511, 512, 513, 65536, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 12345} {
		name := path.Join(dir, "a", strings.Repeat("x", n%7+1)+string(rune('a'+n%26)))
		data := random(n, uint64(n))
		if err := writeFile(s, name, data); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := c.Get(name); !bytes.Equal(got, data) {
			t.Fatalf("%d bytes: Hadoop reads %d, or others", n, len(got))
		}
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantListed(t, s, path.Join(dir, "a"))
}

func TestWritersOfOneName(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = writeFile(s, dir+"/race", random(100_000, uint64(i))) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("writers %d and %d won", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %d lost with %v", i, err)
		}
	}
	if won < 0 || !bytes.Equal(c.Get(dir+"/race"), random(100_000, uint64(won))) {
		t.Fatalf("writer %d won, and the file is another's", won)
	}
	wantListed(t, s, dir, "race")
}

// pipeline returns the DataNodes through which a writer's block goes, in order.
func pipeline(c *hdfstest.Cluster, w store.Writer) (dns []int) {
	all := c.DataNodes()
	if w.(*writer).draft.now == nil {
		return nil
	}
	for _, target := range w.(*writer).draft.now.targets {
		dns = append(dns, slices.IndexFunc(all, func(d hdfstest.DataNode) bool { return d.UUID == target.Node.UUID }))
	}
	return dns
}

// writeTo writes pieces of data, up to an offset.
func writeTo(t *testing.T, w store.Writer, data []byte, from, to int) {
	t.Helper()
	for at := from; at < to; {
		n, err := w.Write(data[at:min(to, at+300_000)])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
}

// TestDeadDataNodesDoNotEndAWriter: they die with unacknowledged packets on their way. Of a small block another is written, a
// large one goes on with the DataNodes that are left, down to one.
func TestDeadDataNodesDoNotEndAWriter(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	for _, size := range []string{"1m", "32m"} {
		s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", size) })
		w, err := s.Create(t.Context(), dir+"/f")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		data := random(13<<20+5, 7)
		writeTo(t, w, data, 0, 6<<20+200_000)
		first := pipeline(c, w)[0]
		c.Kill(first)
		writeTo(t, w, data, 6<<20+200_000, 9<<20+200_000)
		rest := pipeline(c, w)
		last := rest[len(rest)-1]
		c.Kill(last)
		writeTo(t, w, data, 9<<20+200_000, len(data))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatal("wrong bytes")
		}
		calls := s.nn.Stats().Calls
		if size == "32m" && calls["updatePipeline"] != 2 || size == "1m" && calls["abandonBlock"] == 0 {
			t.Errorf("blocks of %s: calls %v", size, calls)
		}
		c.Restart(first, true)
		c.Restart(last, true)
	}
}

// TestAKillSeries: DataNodes of the pipeline die at many moments, and come back.
func TestAKillSeries(t *testing.T) {
	testdata.Soak(t)
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	for i := range 24 {
		s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", []string{"2m", "64m"}[i%2]) })
		data := random(12<<20+i, uint64(i))
		at := 1 + i*len(data)/24
		w, err := s.Create(t.Context(), dir+"/f")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		writeTo(t, w, data, 0, at)
		victim := i % 4
		if dns := pipeline(c, w); len(dns) > 0 {
			victim = dns[i%len(dns)]
		}
		done := make(chan struct{})
		go func() { c.Kill(victim); close(done) }()
		writeTo(t, w, data, at, len(data))
		if err := w.Close(); err != nil {
			t.Fatalf("%d bytes, node %d killed: %v", at, victim, err)
		}
		<-done
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatalf("%d bytes, node %d killed: wrong bytes", at, victim)
		}
		wantListed(t, s, dir, "f")
		c.Restart(victim, true)
	}
}

// TestNetworkFaultsOfAWriter harms the way to the pipeline's first DataNode, in a small block and in a large one.
func TestNetworkFaultsOfAWriter(t *testing.T) {
	c := hdfstest.Shared(t)
	for name, harm := range map[string]func(*hdfstest.Proxy){
		"late":          func(p *hdfstest.Proxy) { p.Delay(300 * time.Millisecond) },
		"silent":        func(p *hdfstest.Proxy) { p.Swallow() },
		"refuses":       func(p *hdfstest.Proxy) { p.Down() },
		"resets":        func(p *hdfstest.Proxy) { p.Reset() },
		"cut in an ack": func(p *hdfstest.Proxy) { p.CutAfter(3) },
	} {
		for _, before := range []int{100_000, 6 << 20} {
			t.Run(fmt.Sprint(name, ", after ", before), func(t *testing.T) {
				t.Parallel()
				network := c.Network()
				proxies := map[string]*hdfstest.Proxy{}
				for _, d := range c.DataNodes() {
					proxies[d.Addr] = network.Proxy(d.Addr)
				}
				s, dir := writeOver(t, c, network.Dial)
				w, err := s.Create(t.Context(), dir+"/f")
				if err != nil {
					t.Fatal(err)
				}
				defer w.Abort()
				data := random(before+4<<20+3, 5)
				writeTo(t, w, data, 0, before)
				harm(proxies[w.(*writer).draft.now.targets[0].Node.Addr])
				writeTo(t, w, data, before, len(data))
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(c.Get(dir+"/f"), data) {
					t.Fatal("wrong bytes")
				}
			})
		}
	}
}

// writeOver is writeOn with blocks of 32 MiB, little patience and connections of one's own.
func writeOver(t *testing.T, c *hdfstest.Cluster, dial func(context.Context, string, string) (net.Conn, error)) (*Store, string) {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Open(c.URL(), Options{Conf: cfg.With("dfs.blocksize", "32m"), User: hdfstest.User, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.writes.patience = 2 * time.Second
	return s, c.Dir(t)
}

// hangUp is a connection that ends when the last packet of a block has been sent over it.
type hangUp struct {
	net.Conn
	once *sync.Once
}

func (h hangUp) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	if len(b) == 31 && b[3] == 4 && b[25] == 1 {
		h.once.Do(func() { h.Conn.Close() })
	}
	return n, err
}

// TestABlockIsClosedAgain: the answer to a block's last packet is lost, so that some DataNodes may have closed it.
func TestABlockIsClosedAgain(t *testing.T) {
	c := hdfstest.Shared(t)
	for _, n := range []int{1000, 6<<20 + 17} {
		var once sync.Once
		s, dir := writeOver(t, c, func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return hangUp{conn, &once}, err
		})
		data := random(n, 9)
		if err := writeFile(s, dir+"/f", data); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatal("wrong bytes")
		}
		calls := s.nn.Stats().Calls
		if calls["updatePipeline"]+calls["abandonBlock"] != 1 {
			t.Errorf("%d bytes: %v", n, calls)
		}
	}
}

// TestWhatWritingCosts counts as the NameNode does: what closes a file may have to be asked again.
func TestWhatWritingCosts(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{})
	s, dir := writeOn(t, c)
	if err := store.ReplaceFile(t.Context(), s, dir+"/entry", []byte("first")); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"replaced":    func() error { return store.ReplaceFile(t.Context(), s, dir+"/entry", []byte("again")) },
		"a new file":  func() error { return writeFile(s, dir+"/new", []byte("x")) },
		"a new file ": func() error { return writeFile(s, dir+"/empty", nil) },
	} {
		before := c.Calls(0)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		spent, total := map[string]int64{}, int64(0)
		for name, n := range c.Calls(0) {
			if d := n - before[name]; d > 0 && slices.Contains(clientCalls, name) {
				spent[name], total = d, total+d
			}
		}
		t.Log(what, total, spent)
		if total -= spent["Complete"]; total > 4 {
			t.Errorf("%s: %v", what, spent)
		}
	}
}

// clientCalls are those of the NameNode's calls that DataNodes do not make.
var clientCalls = []string{
	"GetFileInfo", "Create", "AddBlock", "Complete", "Rename2", "Delete", "Mkdirs", "GetListing", "GetBlockLocations", "IsFileClosed",
	"GetServerDefaults", "RenewLease", "AbandonBlock", "UpdateBlockForPipeline", "UpdatePipeline", "Append", "SetReplication",
}

func TestSafeModeQuotaAndPermission(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	c.Mkdir(dir + "/small")
	c.Quota(dir+"/small", 0, 64<<10)
	err := writeFile(s, dir+"/small/f", random(1<<20, 1))
	if !errors.Is(err, syscall.EDQUOT) || store.ClassOf(err) != store.Permanent {
		t.Errorf("quota: %v", err)
	}
	wantListed(t, s, dir+"/small")

	c.Chmod(dir+"/small", hdfstest.Superuser, 0o755)
	if err := writeFile(s, dir+"/small/f", nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("permission: %v", err)
	}

	w, err := s.Create(t.Context(), dir+"/during")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	data := random(2<<20, 3)
	writeTo(t, w, data, 0, 1<<20)
	c.SafeMode(true)
	defer c.SafeMode(false)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = s.Create(ctx, dir+"/f")
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "safe mode") {
		t.Errorf("safe mode: %v", err)
	}
	time.AfterFunc(500*time.Millisecond, func() { c.SafeMode(false) })
	writeTo(t, w, data, 1<<20, len(data))
	if err := w.Close(); err != nil || !bytes.Equal(c.Get(dir+"/during"), data) {
		t.Errorf("safe mode in mid-write: %v", err)
	}
}

// TestWritingIntoACodedFolder: the file has replicas, and Hadoop reads it.
func TestWritingIntoACodedFolder(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	c.Mkdir(dir + "/coded")
	c.ErasureCode(dir+"/coded", "XOR-2-1-1024k")
	data := random(3<<20+5, 9)
	if err := writeFile(s, dir+"/coded/f", data); err != nil {
		t.Fatal(err)
	}
	status, err := s.writes.names.GetFileInfo(t.Context(), dir+"/coded/f")
	if err != nil || status.GetEcPolicy() != nil || status.GetBlockReplication() != 3 {
		t.Fatalf("%v, %v", status, err)
	}
	if !bytes.Equal(c.Get(dir+"/coded/f"), data) {
		t.Fatal("wrong bytes")
	}
	c.Put(dir+"/coded/theirs", random(100, 1), 3, 1<<20)
	if err := s.SetReplication(t.Context(), dir+"/coded/theirs", 2); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("replicas of a coded file: %v", err)
	}
	for n, want := range map[int]error{2: nil, 3: nil, 600: fs.ErrInvalid} {
		if err := s.SetReplication(t.Context(), dir+"/coded/f", n); !errors.Is(err, want) {
			t.Errorf("%d replicas: %v, want %v", n, err, want)
		}
	}
}

func TestCancelledWriterOnACluster(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, dir+"/d/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(random(1<<20, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	wantListed(t, s, dir+"/d")
	if err := s.Remove(t.Context(), dir+"/d"); err != nil {
		t.Error(err)
	}
}

// TestRenamesOnACluster: what HDFS does beyond what a store may.
func TestRenamesOnACluster(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	for _, name := range []string{"/f", "/g", "/d/x"} {
		if err := writeFile(s, dir+name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	c.Mkdir(dir + "/empty")
	for _, bad := range [][2]string{{"/f", "/empty"}, {"/d", "/empty"}, {"/d", "/f"}, {"/d", "/d/e"}, {"/f", "/g/h"}} {
		if err := s.Rename(t.Context(), dir+bad[0], dir+bad[1]); store.ClassOf(err) != store.Permanent {
			t.Errorf("%s to %s: %v is %s", bad[0], bad[1], err, store.ClassOf(err))
		}
	}
	if err := s.Rename(t.Context(), dir+"/f", dir+"/no/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Rename(t.Context(), dir+"/f", dir+"/g"); err != nil {
		t.Error(err)
	}
	if got := c.Get(dir + "/g"); string(got) != "/f" {
		t.Errorf("the replaced file holds %q", got)
	}
	if err := s.Remove(t.Context(), dir+"/d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Error(err)
	}
	wantListed(t, s, dir, "d", "empty", "g")
}

// TestALivingWriterKeepsItsDraft: another writer, and Remove, tell it by its lease.
func TestALivingWriterKeepsItsDraft(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	w, err := s.Create(t.Context(), dir+"/d/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := w.Write(random(1<<20, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), dir+"/d"); !errors.Is(err, syscall.ENOTEMPTY) || !errors.Is(err, errAlive) {
		t.Fatalf("Remove: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	left := path.Join(dir, "d", tempPrefix+"left")
	c.PutOpen(left, []byte("left"), 1, 1<<20)
	c.CloseFile(left)
	if err := s.Remove(t.Context(), dir+"/d/f"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), dir+"/d"); err != nil {
		t.Fatalf("with a dead writer's draft: %v", err)
	}
}

// TestAnExpiredLeaseFreesADraft: nobody renews it, and after HDFS's minute the folder can be removed.
func TestAnExpiredLeaseFreesADraft(t *testing.T) {
	testdata.Soak(t)
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	left := path.Join(dir, "d", tempPrefix+"left")
	_, err := s.nn.Create(t.Context(), &hproto.CreateRequest{
		Src: &left, ClientName: proto.String("dead"), CreateParent: proto.Bool(true), CreateFlag: proto.Uint32(uint32(hproto.CreateRequest_CREATE)),
		Masked: &hproto.FsPermission{Perm: proto.Uint32(0o644)}, Replication: proto.Uint32(1), BlockSize: proto.Uint64(1 << 20),
	})
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; {
		err := s.Remove(t.Context(), dir+"/d")
		if err == nil {
			if age := time.Since(start); age < oldDraft {
				t.Fatalf("removed after %v, when its writer might have lived", age)
			}
			return
		}
		if !errors.Is(err, errAlive) || time.Since(start) > 2*oldDraft {
			t.Fatal(err)
		}
		if err := store.Sleep(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLiveNodes: what everybody is told, and what a superuser is told beside.
func TestLiveNodes(t *testing.T) {
	c := hdfstest.Shared(t)
	for _, user := range []string{hdfstest.User, hdfstest.Superuser} {
		cfg, err := conf.Load(c.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := Open(c.URL(), Options{Conf: cfg, User: user})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		nodes, err := s.LiveNodes(t.Context())
		if err != nil || len(nodes) != 3 {
			t.Fatalf("%s: %v, %v", user, nodes, err)
		}
		racks := map[string]bool{}
		for _, n := range nodes {
			racks[n.Rack] = true
			super := user == hdfstest.Superuser
			if n.Capacity <= 0 || n.Remaining <= 0 || n.State != "normal" || (n.Load >= 0) != super || super && n.Node == "" || n.Host == "" || n.Addr == "" {
				t.Errorf("%s: %+v", user, n)
			}
		}
		if len(racks) != 3 {
			t.Errorf("%s: racks %v, want 3", user, racks)
		}
	}
}

// TestFailoverInMidWrite: the writer goes on with the NameNode that took over.
func TestFailoverInMidWrite(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{NameNodes: 2})
	s, dir := writeOn(t, c)
	w, err := s.Create(t.Context(), dir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	data := random(5<<20, 11)
	for i := range 5 {
		switch i {
		case 2:
			c.Failover(1)
		case 4:
			c.StopNameNode(1)
			c.Failover(0)
		}
		if _, err := w.Write(data[i<<20 : (i+1)<<20]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(storetest.Get(t, s, dir+"/f"), data) {
		t.Fatal("wrong bytes")
	}
}

// TestFullDataNodes: no DataNode has room for a block, here because the block is as large as 100 TiB.
func TestFullDataNodes(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", "100t") })
	err := writeFile(s, dir+"/f", random(1000, 1))
	if !errors.Is(err, syscall.ENOSPC) || store.ClassOf(err) != store.Permanent {
		t.Fatal(err)
	}
	wantListed(t, s, dir)
}
