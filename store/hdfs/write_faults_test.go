package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/internal/fakedn"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

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
	switch rapid.IntRange(0, 5).Draw(t, "fault") {
	case 0:
		f.Hangup = true
	case 1:
		f.Status, f.Message = hproto.BlockOpResponse_ERROR, "no"
	case 2:
		f.Ack = func(a *hproto.PipelineAck) { *a.Seqno += 1 }
	case 3:
		f.Status = hproto.BlockOpResponse_ERROR_CHECKSUM
	case 4:
		f.Status = hproto.BlockOpResponse_OOB_RESTART
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

// first tells whether a request is made of the first DataNode of a pipeline.
func first(r fakedn.Request) bool {
	return len(r.Write.GetTargets()) == int(r.Write.GetPipelineSize())-1
}

// largeBlocks is a store whose blocks have 8 MiB, so that not all of their packets are kept when more than go without an
// answer were answered.
func largeBlocks(c *lake) *Store {
	s := newWriteStore(c)
	s.writes.conf = new(conf.Config).With("dfs.blocksize", "8m")
	return s
}

// manyPackets are more than go without an answer, and fewer than a large block has.
const manyPackets = 100

// TestSilentDataNodesAreNotWaitedForOneByOne: where none says anything, a handful is tried, and the error says which and how
// far the file came.
func TestSilentDataNodesAreNotWaitedForOneByOne(t *testing.T) {
	for after, have := range map[int]string{0: "0", manyPackets: `[1-9]\d*`} { // packets that the first pipeline takes
		c := newLake(t)
		asked := 0
		c.fault = func(_ int, r fakedn.Request) fakedn.Fault {
			if !first(r) {
				return fakedn.Fault{}
			}
			if asked++; asked > 1 {
				return fakedn.Fault{Stall: 1}
			}
			return fakedn.Fault{Stall: 1, After: after}
		}
		s := largeBlocks(c)
		s.writes.patience = 300 * time.Millisecond
		err := writeFile(s, "/f", random(8<<20, 4))
		c.wantOnly(t)
		c.mu.Lock()
		if store.ClassOf(err) != store.Retryable || asked < 2 || asked > 2+longest {
			t.Errorf("%v is %s, after %d pipelines", err, store.ClassOf(err), asked)
		}
		c.mu.Unlock()
		said := regexp.MustCompile(`^hdfs\.Write hdfs:///f: .*no DataNode has more than ` + have + ` bytes of the file, at localhost \(127\.0\.0\.1:\d+\), `)
		if !said.MatchString(err.Error()) {
			t.Errorf("%v: want %v", err, said)
		}
	}
}

// TestARestartIsNoDeath: a DataNode says in mid-block that it restarts. The others go on without it, and it gets later blocks
// again; where it is the only one, it is waited for.
func TestARestartIsNoDeath(t *testing.T) {
	for replicas, refusals := range map[int]int{3: 0, 1: 2 * maxBroken} { // by the one that restarts
		c := newLake(t)
		c.replicas = replicas
		at, refused := -1, 0
		c.fault = func(node int, r fakedn.Request) fakedn.Fault {
			switch last := len(r.Write.GetTargets()) == 0; {
			case at < 0 && last:
				at = node
				return fakedn.Fault{Status: hproto.BlockOpResponse_OOB_RESTART, After: manyPackets}
			case at == node && refused < refusals:
				refused++
				return fakedn.Fault{Hangup: true}
			}
			return fakedn.Fault{}
		}
		s := largeBlocks(c)
		s.writes.restart = 0
		if replicas == 1 {
			s.writes.restart = time.Minute
		}
		data := random(24<<20, 6)
		if err := writeFile(s, "/f", data); err != nil {
			t.Fatalf("%d replicas: %v", replicas, err)
		}
		c.wantContent(t, "/f", data)
		c.mu.Lock()
		blocks := c.entries["/f"].blocks
		if again := slices.Contains(slices.Concat(blocks[1].nodes, blocks[2].nodes), at); replicas == 3 && !again || refused != refusals {
			t.Errorf("%d replicas: DataNode %d refused %d times, and got a later block: %v", replicas, at, refused, again)
		}
		c.mu.Unlock()
	}
}

// TestARefusedTokenIsNotTheNodes: another one is asked for, and only a DataNode that refuses that too is left out.
func TestARefusedTokenIsNotTheNodes(t *testing.T) {
	for _, times := range []int{1, 2} {
		c := newLake(t)
		broke, refused := false, 0
		c.fault = func(_ int, r fakedn.Request) fakedn.Fault {
			switch {
			case !broke:
				broke = true
				return fakedn.Fault{Hangup: true, After: manyPackets}
			case r.Write.GetStage() != hproto.OpWriteBlock_SETUP_CREATE && first(r) && refused < times:
				refused++
				return fakedn.Fault{Status: hproto.BlockOpResponse_ERROR, Message: "InvalidToken: expired"}
			}
			return fakedn.Fault{}
		}
		if err := writeFile(largeBlocks(c), "/f", random(8<<20, 8)); err != nil {
			t.Fatal(err)
		}
		// One of three hung up, and one of the other two may have refused both tokens.
		if n := len(c.entries["/f"].blocks[0].nodes); n != 3-times {
			t.Errorf("%d tokens were refused: %d DataNodes have the block, want %d", times, n, 3-times)
		}
	}
}

// TestAStoreIsClosedUnderAWriter: the file was not removed by somebody, and another attempt is of no use.
func TestAStoreIsClosedUnderAWriter(t *testing.T) {
	for _, how := range []string{"NameNode", "DataNode"} {
		c := newLake(t)
		s := newWriteStore(c)
		w, err := s.Create(t.Context(), "/f")
		if err != nil {
			t.Fatal(err)
		}
		if how == "DataNode" {
			c.pool.Close()
		}
		c.fail = func(method, _ string) error {
			if method == "addBlock" && how == "NameNode" {
				return fmt.Errorf("the client is closed: %w", fs.ErrClosed)
			}
			return nil
		}
		_, err = w.Write(random(fakeBlockSize, 1))
		if !errors.Is(err, errStoreClosed) || errors.Is(err, errGone) || store.ClassOf(err) != store.Permanent {
			t.Errorf("%s: %v is %s", how, err, store.ClassOf(err))
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnreportedBlocksEndTheWait: where the NameNode hears nothing of a block, it is waited for once, not once for each
// failure that is gone around.
func TestUnreportedBlocksEndTheWait(t *testing.T) {
	for _, blocks := range []int{1, 3} {
		c := newLake(t)
		c.late = 1 << 40
		s := newWriteStore(c)
		s.writes.patience = 300 * time.Millisecond
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
				return fakedn.Fault{Hangup: true, After: manyPackets}
			}
			return fakedn.Fault{}
		}
		err := writeFile(largeBlocks(c), "/f", random(8<<20, 5))
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
