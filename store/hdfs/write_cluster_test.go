package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
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

// TestADeadDataNodeDoesNotEndAWriter: the first DataNode of the pipeline dies with unacknowledged packets on their way.
func TestADeadDataNodeDoesNotEndAWriter(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	s, dir := writeOn(t, c)
	w, err := s.Create(t.Context(), dir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	data := random(5<<20, 7)
	if _, err := w.Write(data[:2<<20]); err != nil {
		t.Fatal(err)
	}
	blocks := c.Locations(w.(*writer).draft.path)
	victim := blocks[len(blocks)-1].Nodes[0]
	c.Kill(victim)
	for rest := data[2<<20:]; len(rest) > 0; {
		n, err := w.Write(rest[:min(len(rest), 300_000)])
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.(*writer).draft != nil {
		t.Error("the writer still holds its draft")
	}
	if !bytes.Equal(c.Get(dir+"/f"), data) {
		t.Fatal("wrong bytes")
	}
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

	c.SafeMode(true)
	defer c.SafeMode(false)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = s.Create(ctx, dir+"/f")
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "safe mode") {
		t.Errorf("safe mode: %v", err)
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
	if _, err := s.nn.RecoverLease(t.Context(), left, "x"); err != nil {
		t.Fatal(err)
	}
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
		if err := sleep(t.Context(), time.Second); err != nil {
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
