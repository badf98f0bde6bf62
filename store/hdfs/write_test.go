package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

func writeFile(s *Store, name string, data []byte) error {
	w, err := s.Create(context.Background(), name)
	if err != nil {
		return err
	}
	defer w.Abort()
	if n, err := w.Write(data); err != nil || n != len(data) {
		return errors.Join(err, fmt.Errorf("%d of %d bytes", n, len(data)))
	}
	return w.Close()
}

func TestCreateLeavesTheFileAlone(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	data := random(700_000, 1)
	if err := writeFile(s, "/d/f", data); err != nil {
		t.Fatal(err)
	}
	c.wantOnly(t, "/d", "/d/f")
	c.wantContent(t, "/d/f", data)
	if err := writeFile(s, "/d/f", data); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("again: %v", err)
	}
	if err := writeFile(s, "/d/empty", nil); err != nil {
		t.Fatal(err)
	}
	c.wantOnly(t, "/d", "/d/empty", "/d/f")
}

// TestBrokenStreams: whatever breaks, as long as what was acknowledged is saved, the file is right; or there is an
// error and no file.
func TestBrokenStreams(t *testing.T) {
	all := random(4<<20, 2)
	rapid.Check(t, func(rt *rapid.T) {
		c := newLake()
		breaks := rapid.IntRange(0, maxBroken+2).Draw(rt, "breaks")
		left := breaks
		c.breaks = func() (int, int) {
			if left == 0 {
				return 1 << 40, 0
			}
			left--
			after := rapid.IntRange(0, 3<<20).Draw(rt, "after")
			return after, rapid.IntRange(0, min(after, 700<<10)).Draw(rt, "lost")
		}
		c.unsettled = rapid.IntRange(0, 3).Draw(rt, "unsettled")
		data := all[:rapid.IntRange(0, len(all)).Draw(rt, "size")]
		err := writeFile(newWriteStore(c), "/f", data)
		if err != nil {
			if breaks <= maxBroken {
				rt.Fatalf("%d streams broke: %v", breaks, err)
			}
			c.wantOnly(t)
			return
		}
		c.wantOnly(t, "/f")
		c.wantContent(t, "/f", data)
		if n := c.entries["/f"].factor; n != 0 && n != 3 {
			rt.Fatalf("the file has %d replicas, want 3", n)
		}
	})
}

// TestFewDataNodes: after some broken streams blocks are asked for with fewer replicas, at the end with all.
func TestFewDataNodes(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	good := s.writes.appendTo
	s.writes.appendTo = func(ctx context.Context, name string) (stream, error) {
		if n := c.entries[name].factor; n == 0 || n > 1 {
			return nil, store.ErrUnavailable
		}
		return good(ctx, name)
	}
	if err := writeFile(s, "/f", []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.wantContent(t, "/f", []byte("x"))
	if n := c.entries["/f"].factor; n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
}

func TestLostAcknowledgedBytesAreAnError(t *testing.T) {
	c := newLake()
	c.breaks = func() (int, int) { return 3 << 20, 5 << 19 }
	err := writeFile(newWriteStore(c), "/f", random(4<<20, 3))
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "too few to go on") {
		t.Fatal(err)
	}
	c.wantOnly(t)
}

// TestPermanentErrorsAreNotRetried: more streams do not help against a quota.
func TestPermanentErrorsAreNotRetried(t *testing.T) {
	for _, c := range []struct {
		said  error
		match error
	}{
		{namenode.NewRemoteError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /d is exceeded", "nn", "addBlock"), syscall.EDQUOT},
		{namenode.NewRemoteError("java.io.IOException", "File /f could only be written to 0 of the 1 minReplication nodes. There are 3 datanode(s) running and 3 node(s) are excluded in this operation.", "nn", "addBlock"), syscall.ENOSPC},
		{namenode.NewRemoteError("org.apache.hadoop.security.AccessControlException", "Permission denied", "nn", "append"), fs.ErrPermission},
	} {
		fake := newLake()
		s := newWriteStore(fake)
		opened := 0
		s.writes.appendTo = func(context.Context, string) (stream, error) { opened++; return nil, writeError(c.said) }
		err := writeFile(s, "/f", []byte("x"))
		if !errors.Is(err, c.match) || store.ClassOf(err) != store.Permanent || opened != 1 {
			t.Errorf("%v (%s) after %d streams, want %v after 1", err, store.ClassOf(err), opened, c.match)
		}
		fake.wantOnly(t)
	}
}

func TestNoDataNodeIsNotForEver(t *testing.T) {
	said := namenode.NewRemoteError("java.io.IOException", "File /f could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s) running and 0 node(s) are excluded in this operation.", "nn", "addBlock")
	if err := writeError(said); store.ClassOf(err) != store.Retryable {
		t.Errorf("%v is %s", err, store.ClassOf(err))
	}
	if err := writeError(errors.New("no available namenodes: refused")); store.ClassOf(err) != store.Retryable {
		t.Errorf("%v is %s", err, store.ClassOf(err))
	}
	if err := writeError(context.Canceled); store.ClassOf(err) != store.ClassUnknown {
		t.Errorf("%v is %s", err, store.ClassOf(err))
	}
	zone := namenode.NewRemoteError("org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException", "No crypto protocol versions", "nn", "create")
	if err := writeError(zone); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestSafeModeIsSaid(t *testing.T) {
	c := newLake()
	c.fail = func(method, _ string) error {
		if method == "mkdirs" {
			return exception("hdfs.server.namenode.SafeModeException")
		}
		return nil
	}
	err := writeFile(newWriteStore(c), "/d/f", nil)
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "safe mode") {
		t.Fatal(err)
	}
}

func TestUnknownOutcomeOfTheLastRename(t *testing.T) {
	for _, took := range []bool{true, false} {
		c := newLake()
		c.fail = func(method, name string) error {
			if method != "rename2" {
				return nil
			}
			if took {
				c.entries["/f"] = c.entries[name]
				delete(c.entries, name)
			}
			return fmt.Errorf("%w: %w", namenode.ErrOutcomeUnknown, store.ErrUnavailable)
		}
		err := writeFile(newWriteStore(c), "/f", []byte("x"))
		if took == (err != nil) {
			t.Errorf("took place: %v; %v", took, err)
		}
		if took {
			c.wantOnly(t, "/f")
		} else {
			c.wantOnly(t)
		}
	}
}

func TestWriterEndsWithItsContext(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, "/d/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Write([]byte("more")); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Errorf("Abort: %v", err)
	}
	c.wantOnly(t, "/d")
}

func TestATokenAloneCannotWrite(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	s.writes.refused = errTokenOnly
	if err := writeFile(s, "/f", nil); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "keytab") {
		t.Fatal(err)
	}
	c.entries["/g"] = &inode{}
	if err := s.Rename(t.Context(), "/g", "/h"); err != nil {
		t.Fatalf("a rename needs no DataNode: %v", err)
	}
	c.wantOnly(t, "/h")
}

// TestTokensWithoutSecurity: launchers name a token file on clusters without security too.
func TestTokensWithoutSecurity(t *testing.T) {
	auth := namenode.NewAuth(namenode.AuthOptions{Tokens: func() (map[string]token.Token, error) { return nil, nil }})
	for security, want := range map[string]error{"": nil, "simple": nil, "Kerberos": errTokenOnly} {
		cfg := new(conf.Config).With("hadoop.security.authentication", security)
		if got := openWriting(Options{Conf: cfg, Auth: auth}, conf.Cluster{}, nil).refused; got != want {
			t.Errorf("security %q: %v, want %v", security, got, want)
		}
	}
	if err := openWriting(Options{Conf: new(conf.Config), User: "alice", RealUser: "agent"}, conf.Cluster{}, nil).refused; !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("as another user: %v", err)
	}
}

// leave puts what a killed writer of a name left.
func (c *lake) leave(name string, e inode) string {
	folder := draftFolder(name)
	c.entries[folder] = &inode{dir: true}
	left := path.Join(folder, "left")
	c.entries[left] = &e
	return left
}

func TestLeftovers(t *testing.T) {
	minute := oldDraft.Milliseconds()
	for _, c := range []struct {
		what          string
		left          inode
		create, dying bool // gone after the next Create, after Remove of the folder
	}{
		{"closed, old", inode{modified: 1_000_000 - minute}, true, true},
		{"closed, young: it may be renamed now", inode{modified: 1_000_000 - minute + 1}, false, true},
		{"lease expired", inode{modified: 0, holder: "dead", expired: true}, true, true},
		{"lease renewed", inode{modified: 0, holder: "alive"}, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			fake := newLake()
			left := fake.leave("/d/f", c.left)
			fake.entries["/d"] = &inode{dir: true}
			if err := writeFile(newWriteStore(fake), "/d/f", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if gone := fake.entries[left] == nil; gone != c.create {
				t.Errorf("gone after Create: %v", gone)
			}

			fake = newLake()
			fake.leave("/d/f", c.left)
			fake.entries["/d"] = &inode{dir: true}
			err := newWriteStore(fake).Remove(t.Context(), "/d")
			if c.dying && err != nil || !c.dying && !errors.Is(err, syscall.ENOTEMPTY) {
				t.Errorf("Remove: %v", err)
			}
			if gone := fake.entries["/d"] == nil; gone != c.dying {
				t.Errorf("gone after Remove: %v", gone)
			}
		})
	}
}

func TestRemoveKeepsFiles(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	left := c.leave("/d/f", inode{})
	c.entries["/d"] = &inode{dir: true}
	c.entries["/d/other"] = &inode{}
	if err := s.Remove(t.Context(), "/d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatal(err)
	}
	if c.entries[left] == nil {
		t.Error("a draft was removed although the folder stays")
	}
	if err := s.Remove(t.Context(), "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "/"); store.ClassOf(err) != store.Permanent {
		t.Error(err)
	}
}

func TestRenameInsideTheFake(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	for name, e := range map[string]inode{"/f": {id: 1}, "/g": {id: 2}, "/d": {dir: true}, "/d/x": {id: 3}} {
		c.entries[name] = &e
	}
	for _, bad := range [][2]string{{"/f", "/d"}, {"/d", "/f"}, {"/d", "/d/e"}, {"/", "/r"}, {"/f", "/"}, {"/missing", "/h"}, {"/f", "/missing/h"}} {
		err := s.Rename(t.Context(), bad[0], bad[1])
		if class := store.ClassOf(err); class != store.Permanent && class != store.NotFound {
			t.Errorf("%s to %s: %v is %s", bad[0], bad[1], err, class)
		}
	}
	raced := 0
	c.fail = func(method, name string) error {
		if method == "rename2" && raced < 2 { // it appears just before
			raced++
			return exception("fs.FileAlreadyExistsException")
		}
		return nil
	}
	if err := s.Rename(t.Context(), "/f", "/new"); err != nil || raced != 2 {
		t.Fatal(err, raced)
	}
	if err := s.Rename(t.Context(), "/new", "/g"); err != nil || c.entries["/g"].id != 1 {
		t.Fatal(err)
	}
	if err := s.Rename(t.Context(), "/g", "/g"); err != nil {
		t.Fatal(err)
	}
}

func TestSetReplicationSaysWhy(t *testing.T) {
	c := newLake()
	s := newWriteStore(c)
	for name, e := range map[string]inode{"/f": {}, "/d": {dir: true}, "/coded": {ec: true}} {
		c.entries[name] = &e
	}
	for _, c := range []struct {
		name string
		n    int
		want error
	}{
		{"/f", 3, nil}, {"/f", 0, fs.ErrInvalid}, {"/f", 600, fs.ErrInvalid}, {"/d", 3, syscall.EISDIR},
		{"/coded", 3, errors.ErrUnsupported}, {"/missing", 3, fs.ErrNotExist},
	} {
		if err := s.SetReplication(t.Context(), c.name, c.n); !errors.Is(err, c.want) {
			t.Errorf("%d replicas of %s: %v, want %v", c.n, c.name, err, c.want)
		}
	}
}

func TestShapeOfNewFiles(t *testing.T) {
	s := newWriteStore(newLake())
	if n := s.BlockSize(); n != 1<<20 {
		t.Errorf("the NameNode's block size is %d", n)
	}
	c := new(conf.Config).With("dfs.blocksize", "32m").With("dfs.replication", "2").With("fs.permissions.umask-mode", "077")
	s.writes.conf = c
	shape, err := s.writes.shape(t.Context())
	if err != nil || shape.blockSize != 32<<20 || shape.replicas != 2 || s.BlockSize() != 32<<20 {
		t.Errorf("%+v, %v", shape, err)
	}
	if p := s.writes.permissions(0o777); p != 0o700 {
		t.Errorf("permissions %o", p)
	}
	if p := newWriteStore(newLake()).writes.permissions(0o666); p != 0o644 {
		t.Errorf("permissions %o", p)
	}
	sum, err := s.ContentSummary(t.Context(), "/")
	if err != nil || sum.Bytes != 7 || sum.Names != -1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
