package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

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
