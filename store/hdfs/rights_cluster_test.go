package hdfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func wantAccess(t *testing.T, s *hdfs.Store, name string, want store.Access) {
	t.Helper()
	got, err := s.Access(t.Context(), name)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("access to %s: %+v, %v, want %+v", name, got, err, want)
	}
}

func protect(t *testing.T, s *hdfs.Store, name string, a store.Access) {
	t.Helper()
	if err := s.Protect(t.Context(), name, a); err != nil {
		t.Fatalf("protect %s: %v", name, err)
	}
}

// TestRealAccess: rights go from one file to another, and who has none is refused.
func TestRealAccess(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	s, intruder := open(t, c, root, hdfs.Options{}), open(t, c, root, hdfs.Options{User: hdfstest.Intruder})
	storetest.Put(t, s, "/d/f", []byte("f"))
	plain, err := s.Access(t.Context(), "/d/f")
	if err != nil || plain.Owner != hdfstest.User || plain.Group == "" || plain.Mode != 0o644 || plain.ACL != nil {
		t.Fatalf("%+v, %v", plain, err)
	}
	reads := func() error { // by a store that does not know yet where the blocks are
		f, err := open(t, c, root, hdfs.Options{User: hdfstest.Intruder}).Open(t.Context(), "/d/f")
		if err == nil {
			err = errors.Join(f.ReadRanges(t.Context(), []store.Range{{Buf: make([]byte, 1)}}), f.Close())
		}
		return err
	}
	listed := store.Access{Owner: plain.Owner, Group: plain.Group, Mode: 0o650, ACL: []string{"group::---", "user:intruder:r-x"}}
	protect(t, s, "/d/f", listed)
	wantAccess(t, s, "/d/f", listed)
	if err := reads(); err != nil {
		t.Errorf("a listed user: %v", err)
	}
	storetest.Put(t, s, "/d/copy", []byte("f"))
	protect(t, s, "/d/copy", listed)
	wantAccess(t, s, "/d/copy", listed)
	shut := store.Access{Owner: plain.Owner, Group: plain.Group, Mode: 0o600}
	protect(t, s, "/d/f", shut)
	wantAccess(t, s, "/d/f", shut)
	if err := reads(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a user who is not listed: %v", err)
	}
	if err := intruder.Protect(t.Context(), "/d/f", plain); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another's file: %v", err)
	}
	if err := s.Protect(t.Context(), "/d/f", store.Access{Mode: 0o644, ACL: []string{"user:ada:rwxx"}}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no entry: %v", err)
	}
	for _, a := range []store.Access{{Owner: hdfstest.Intruder, Mode: 0o644}, {Group: "strangers", Mode: 0o644}} {
		if err := s.Protect(t.Context(), "/d/f", a); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	wantAccess(t, s, "/d/f", shut)
	super := open(t, c, root, hdfs.Options{User: hdfstest.Superuser})
	given := store.Access{Owner: hdfstest.Intruder, Group: "strangers", Mode: 0o604}
	protect(t, super, "/d/f", given)
	wantAccess(t, super, "/d/f", given)
}

// TestRealAccessOfFolders: with entries that new files inherit, and the sticky bit.
func TestRealAccessOfFolders(t *testing.T) {
	c := hdfstest.Shared(t)
	s := open(t, c, c.Dir(t), hdfs.Options{})
	storetest.Put(t, s, "/d/f", nil)
	a, err := s.Access(t.Context(), "/d")
	if err != nil {
		t.Fatal(err)
	}
	a.Mode = 0o770 | fs.ModeSticky
	a.ACL = []string{"default:group::r-x", "default:mask::r-x", "default:other::---", "default:user::rwx", "default:user:intruder:r-x"}
	protect(t, s, "/d", a)
	wantAccess(t, s, "/d", a)
	storetest.Put(t, s, "/d/new", nil)
	inherited, err := s.Access(t.Context(), "/d/new")
	if err != nil || len(inherited.ACL) != 2 {
		t.Errorf("%+v, %v", inherited, err)
	}
	a.ACL, a.Mode = nil, 0o755
	protect(t, s, "/d", a)
	wantAccess(t, s, "/d", a)
}

// TestRealQuota: more replicas than the quota allows are refused, and the file keeps its number.
func TestRealQuota(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	s := open(t, c, root, hdfs.Options{})
	w, err := s.CreatePlaced(t.Context(), "/d/f", store.Placement{Replicas: 1, BlockSize: blockSize})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, blockSize)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.Quota(root+"/d", 3, 2*blockSize)
	if err := s.SetReplication(t.Context(), "/d/f", 3); !errors.Is(err, syscall.EDQUOT) || store.ClassOf(err) != store.Permanent {
		t.Errorf("three replicas: %v", err)
	}
	if info, err := s.Stat(t.Context(), "/d/f"); err != nil || info.Replicas != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	w, err = s.CreatePlaced(t.Context(), "/d/copy", store.Placement{Replicas: 2, BlockSize: blockSize})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(make([]byte, blockSize))
	if err := errors.Join(err, w.Close()); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("a copy: %v", err)
	}
	if _, err := s.Stat(t.Context(), "/d/copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy is there: %v", err)
	}
}

// TestWithoutExtras: a cluster that keeps no attributes, policies or access control lists says so.
func TestWithoutExtras(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 1, Site: map[string]string{
		"dfs.namenode.xattrs.enabled": "false", "dfs.namenode.acls.enabled": "false", "dfs.storage.policy.enabled": "false",
	}})
	s := open(t, c, c.Dir(t), hdfs.Options{})
	storetest.Put(t, s, "/f", nil)
	before, err := s.Access(t.Context(), "/f")
	if err != nil || before.ACL != nil {
		t.Errorf("%+v, %v", before, err)
	}
	_, _, read := s.Attribute(t.Context(), "/f", "stepahead.test")
	for what, err := range map[string]error{
		"Attribute": read, "SetAttribute": s.SetAttribute(t.Context(), "/f", "stepahead.test", []byte("v")),
		"no attribute": s.SetAttribute(t.Context(), "/f", "stepahead.test", nil),
		"policy":       s.SetStoragePolicy(t.Context(), "/f", "COLD"), "no policy": s.SetStoragePolicy(t.Context(), "/f", ""),
		"ACL": s.Protect(t.Context(), "/f", store.Access{Mode: 0o600, ACL: []string{"user:ada:r--"}}),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantAccess(t, s, "/f", before)
	if p, err := s.StoragePolicy(t.Context(), "/f"); err != nil || p != (store.StoragePolicy{Name: "HOT"}) {
		t.Errorf("%+v, %v", p, err)
	}
}
