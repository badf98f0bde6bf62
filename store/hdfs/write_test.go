package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
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
	c := newLake(t)
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

// TestFaultyDataNodes: whatever DataNodes do, the file holds what was written, or there is an error and no file.
func TestFaultyDataNodes(t *testing.T) {
	all := random(5<<19+77, 2)
	rapid.Check(t, func(rt *rapid.T) {
		c := openLake()
		defer c.close()
		left := rapid.IntRange(0, maxBroken+4).Draw(rt, "faults")
		faults := rapid.SliceOfN(rapid.Custom(drawFault), left, left).Draw(rt, "which")
		only := rapid.IntRange(1, len(c.nodes)).Draw(rt, "faulty nodes")
		c.fault = func(node int, r fakedn.Request) fakedn.Fault {
			if node >= only || len(faults) == 0 {
				return fakedn.Fault{}
			}
			f := faults[0]
			faults = faults[1:]
			return f
		}
		c.late = rapid.IntRange(0, 3).Draw(rt, "late")
		data := all[:rapid.IntRange(0, len(all)).Draw(rt, "size")]
		s := newWriteStore(c)
		err := s.writeFaulty("/f", data, rapid.SampledFrom([]int{10_000, 100_000, 1 << 20, 16 << 20}).Draw(rt, "piece"))
		if err != nil {
			if left <= maxBroken/2 && only <= 2 {
				rt.Fatalf("%d faults: %v", left, err)
			}
			if store.ClassOf(err) != store.Retryable {
				rt.Fatalf("%v is %s", err, store.ClassOf(err))
			}
			c.wantOnly(rt)
			return
		}
		c.wantOnly(rt, "/f")
		c.wantContent(rt, "/f", data)
	})
}

// drawFault draws what a DataNode does wrong, without waiting.
func drawFault(t *rapid.T) fakedn.Fault {
	f := fakedn.Fault{After: rapid.SampledFrom([]int{0, 0, 1, 2, 3, 5, 8, 12, 15, 16, 17}).Draw(t, "after")}
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0:
		f.Hangup = true
	case 1:
		f.Status, f.Message = hproto.BlockOpResponse_ERROR, "no"
	case 2:
		f.Ack = func(a *hproto.PipelineAck) { *a.Seqno += 1 }
	case 3:
		f.Status = hproto.BlockOpResponse_ERROR_CHECKSUM
	}
	return f
}

// writeFaulty writes a file in pieces.
func (s *Store) writeFaulty(name string, data []byte, piece int) error {
	w, err := s.Create(context.Background(), name)
	if err != nil {
		return err
	}
	defer w.Abort()
	for len(data) > 0 {
		n, err := w.Write(data[:min(piece, len(data))])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return w.Close()
}

// TestSmallFilesAreCheap: a file of one block takes the calls that HDFS cannot do without, and no others.
func TestSmallFilesAreCheap(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"the first in a new folder", func() error { return writeFile(s, "/d/f", []byte("x")) },
			"getFileInfo create mkdirs create getListing addBlock complete rename2"},
		{"another", func() error { return writeFile(s, "/d/g", []byte("x")) }, "getFileInfo create addBlock complete rename2"},
		{"empty", func() error { return writeFile(s, "/d/h", nil) }, "getFileInfo create complete rename2"},
		{"replaced", func() error { return store.ReplaceFile(t.Context(), s, "/d/f", []byte("new")) }, "create addBlock complete rename2"},
		{"in three blocks", func() error { return writeFile(s, "/d/i", random(5*fakeBlockSize/2, 1)) },
			"getFileInfo create addBlock addBlock addBlock complete rename2"},
	} {
		c.calls = nil
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := strings.Join(c.calls, " "); got != step.want {
			t.Errorf("%s: %s; want %s", step.what, got, step.want)
		}
	}
	c.wantContent(t, "/d/f", []byte("new"))
}

// TestReplace: what has the name is replaced by the whole of the new, or stays.
func TestReplace(t *testing.T) {
	c := newLake(t)
	s := newWriteStore(c)
	for _, text := range []string{"old", "new"} {
		if err := s.Replace(t.Context(), "/d/f", []byte(text)); err != nil {
			t.Fatal(err)
		}
		c.wantContent(t, "/d/f", []byte(text))
	}
	c.fail = func(method, _ string) error {
		if method == "complete" {
			return store.ErrUnavailable
		}
		return nil
	}
	if err := s.Replace(t.Context(), "/d/f", []byte("newer")); store.ClassOf(err) != store.Retryable {
		t.Error(err)
	}
	c.wantContent(t, "/d/f", []byte("new"))
	c.wantOnly(t, "/d", "/d/f")
	c.fail = func(method, _ string) error {
		if method == "rename2" {
			return &namenode.RemoteError{Class: "java.io.IOException", Message: "Source /d/x and destination /d must both be directories"}
		}
		return nil
	}
	if err := s.Replace(t.Context(), "/d", nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

// TestAllBytesLost: the only DataNode of a block is gone, with bytes that nobody else has.
func TestAllBytesLost(t *testing.T) {
	c := newLake(t)
	c.fault = func(_ int, r fakedn.Request) fakedn.Fault {
		if r.Write.GetStage() != hproto.OpWriteBlock_SETUP_CREATE {
			return fakedn.Fault{Hangup: true}
		}
		return fakedn.Fault{Hangup: true, After: 10}
	}
	err := writeFile(newWriteStore(c), "/f", random(fakeBlockSize, 3))
	if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "connection broke") {
		t.Fatal(err)
	}
	c.wantOnly(t)
}

// TestUnreportedBlocksEndTheWait: where the NameNode hears nothing of a block, it is waited for once, not once for each
// failure that is gone around.
func TestUnreportedBlocksEndTheWait(t *testing.T) {
	for _, blocks := range []int{1, 3} {
		c := newLake(t)
		c.late = 1 << 40
		s := newWriteStore(c)
		s.writes.patience = 30 * time.Millisecond
		err := writeFile(s, "/f", random(blocks*fakeBlockSize, 4))
		if !errors.Is(err, errUnreported) || store.ClassOf(err) != store.Retryable || strings.Contains(err.Error(), "in turn") {
			t.Errorf("%d blocks: %v", blocks, err)
		}
		c.wantOnly(t)
	}
}

// TestWaitsGrowWithThePipeline: its first node waits longer for more nodes, and says which of them failed.
func TestWaitsGrowWithThePipeline(t *testing.T) {
	w := newWriting(nil, new(conf.Config), nil, new(nodeTable))
	for nodes, want := range map[int]time.Duration{1: 75 * time.Second, 3: 75 * time.Second, 5: 85 * time.Second} {
		o := &output{w: w, now: &section{located: &hproto.LocatedBlock{B: new(hproto.ExtendedBlock)}, targets: make([]datanode.Target, nodes)}}
		if got := o.setup(hproto.OpWriteBlock_SETUP_CREATE, nil).Patience; got != want {
			t.Errorf("%d nodes: %v, want %v", nodes, got, want)
		}
	}
}

// TestALostLeaseIsSaid: it must not look as if the name that is written did not exist.
func TestALostLeaseIsSaid(t *testing.T) {
	lease := exception("hdfs.server.namenode.LeaseExpiredException")
	for _, lost := range []struct {
		method string
		err    error
	}{{"addBlock", missing("/f")}, {"addBlock", lease}, {"complete", lease}, {"rename2", missing("/f")}} {
		c := newLake(t)
		c.fail = func(method, _ string) error {
			if method == lost.method {
				return lost.err
			}
			return nil
		}
		err := writeFile(newWriteStore(c), "/f", []byte("x"))
		if !errors.Is(err, errGone) || store.ClassOf(err) != store.Retryable {
			t.Errorf("%s: %v is %s", lost.method, err, store.ClassOf(err))
		}
	}
}

// TestNameNodesAreWaitedForOnce: the Client has waited minutes for them, which a writer must not do for each failure again.
func TestNameNodesAreWaitedForOnce(t *testing.T) {
	for _, method := range []string{"addBlock", "updateBlockForPipeline", "updatePipeline"} {
		c := newLake(t)
		asked := 0
		c.fail = func(m, _ string) error {
			if m != method {
				return nil
			}
			asked++
			return fmt.Errorf("%w: %w", namenode.ErrGaveUp, store.ErrUnavailable)
		}
		c.fault = func(_ int, r fakedn.Request) fakedn.Fault {
			if r.Write.GetStage() == hproto.OpWriteBlock_SETUP_CREATE {
				return fakedn.Fault{Hangup: true, After: 100} // more than go without an answer
			}
			return fakedn.Fault{}
		}
		s := newWriteStore(c)
		s.writes.conf = new(conf.Config).With("dfs.blocksize", "16m")
		err := writeFile(s, "/f", random(16<<20, 5))
		if !errors.Is(err, namenode.ErrGaveUp) || store.ClassOf(err) != store.Retryable || asked != 1 {
			t.Errorf("%s: %v after %d calls, want 1", method, err, asked)
		}
		c.wantOnly(t)
	}
}

// TestPermanentErrorsAreNotRetried: asking again does not help against a quota.
func TestPermanentErrorsAreNotRetried(t *testing.T) {
	for _, c := range []struct {
		said  error
		match error
	}{
		{said("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /d is exceeded"), syscall.EDQUOT},
		{said("java.io.IOException", noNodes), syscall.ENOSPC},
		{said("security.AccessControlException", "Permission denied"), fs.ErrPermission},
	} {
		fake := newLake(t)
		asked := 0
		fake.fail = func(method, _ string) error {
			if method != "addBlock" {
				return nil
			}
			asked++
			return c.said
		}
		err := writeFile(newWriteStore(fake), "/f", []byte("x"))
		if !errors.Is(err, c.match) || store.ClassOf(err) != store.Permanent || asked != 1 {
			t.Errorf("%v (%s) after %d calls, want %v after 1", err, store.ClassOf(err), asked, c.match)
		}
		fake.wantOnly(t)
	}
}

// TestLeasesAreRenewed for as long as a file is written, whether or not renewals succeed.
func TestLeasesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		keep := func() *lease {
			return keepLease(ctx, leaseBeat, func(context.Context) error { n.Add(1); return store.ErrUnavailable })
		}
		l := keep()
		time.Sleep(5*leaseBeat + time.Second)
		l.drop()
		l.drop()
		time.Sleep(10 * leaseBeat)
		if n.Load() != 5 {
			t.Errorf("%d renewals, want 5", n.Load())
		}
		keep()
		cancel()
		time.Sleep(10 * leaseBeat)
		if n.Load() > 6 {
			t.Errorf("%d renewals after the end", n.Load()-5)
		}
	})
}

func TestNoDataNodeIsNotForEver(t *testing.T) {
	none := said("java.io.IOException", strings.Replace(noNodes, "5 datanode", "0 datanode", 1))
	if err := writeError(none); store.ClassOf(err) != store.Retryable {
		t.Errorf("%v is %s", err, store.ClassOf(err))
	}
	if err := writeError(context.Canceled); store.ClassOf(err) != store.ClassUnknown {
		t.Errorf("%v is %s", err, store.ClassOf(err))
	}
	zone := exception("hdfs.UnknownCryptoProtocolVersionException")
	if err := writeError(zone); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestSafeModeIsSaid(t *testing.T) {
	c := newLake(t)
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
		c := newLake(t)
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
	c := newLake(t)
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

// leave puts what a killed writer of a name left.
func (c *lake) leave(name string, e inode) string {
	left := path.Join(path.Dir(name), tempPrefix+"left")
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
			fake := newLake(t)
			left := fake.leave("/d/f", c.left)
			fake.entries["/d"] = &inode{dir: true}
			if err := writeFile(newWriteStore(fake), "/d/f", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if gone := fake.entries[left] == nil; gone != c.create {
				t.Errorf("gone after Create: %v", gone)
			}

			fake = newLake(t)
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

// TestSweepsSpareWhatIsPublished: a writer that took long closes its draft while another looks for what killed writers
// left. It has not given it its name yet.
func TestSweepsSpareWhatIsPublished(t *testing.T) {
	for _, when := range []string{"isFileClosed", "create"} { // just before the call that asks
		c := newLake(t)
		left := c.leave("/d/f", inode{id: 7, modified: 0, holder: "alive"})
		c.entries["/d"] = &inode{dir: true}
		c.fail = func(method, name string) error {
			if e := c.entries[left]; name == left && method == when {
				e.holder, e.modified = "", c.now
			}
			return nil
		}
		if err := writeFile(newWriteStore(c), "/d/f", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if e := c.entries[left]; e == nil || e.holder != "" {
			t.Errorf("closed just before %s: %+v is left of the draft", when, e)
		}
	}
}

func TestRemoveKeepsFiles(t *testing.T) {
	c := newLake(t)
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
	c := newLake(t)
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
	c := newLake(t)
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
	s := newWriteStore(newLake(t))
	if n := s.BlockSize(); n != fakeBlockSize {
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
	if p := newWriteStore(newLake(t)).writes.permissions(0o666); p != 0o644 {
		t.Errorf("permissions %o", p)
	}
	sum, err := s.ContentSummary(t.Context(), "/")
	if err != nil || sum.Bytes != 7 || sum.Names != -1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
