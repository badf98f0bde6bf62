package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

const (
	testSize  = 100_000
	testBlock = 16 << 10 // 7 blocks
)

// scene is a store with one file /f of 7 blocks on 3 of 5 nodes.
type scene struct {
	*fake
	s    *Store
	data []byte
	file *fakeFile
}

func newScene(t testing.TB, o Options) *scene {
	f := newFake(5)
	data := random(testSize, 1)
	return &scene{fake: f, s: newFakeStore(t, f, o), data: data, file: f.put("/f", data, testBlock, 3)}
}

func (c *scene) open(t testing.TB) store.File {
	t.Helper()
	f, err := c.s.Open(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (c *scene) wantAll(t testing.TB, f store.File) {
	t.Helper()
	buf := make([]byte, f.Size())
	if err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf, c.data[:len(buf)]) {
		t.Fatal("wrong bytes")
	}
}

func readAll(ctx context.Context, f store.File) ([]byte, error) {
	buf := make([]byte, f.Size())
	return buf, f.ReadRanges(ctx, []store.Range{{Buf: buf}})
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Random ranges under random faults: the right bytes, or an error of the class that the faults allow; the caller's memory is
// never written to after the call.
func TestReadUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { underFaults(t, rt) })
	})
}

func underFaults(t *testing.T, rt *rapid.T) {
	c := newScene(t, Options{Rank: rapid.IntRange(0, 9).Draw(rt, "rank"), Rack: "/rack1", Parallel: 4})
	c.tokens = rapid.IntRange(0, 1).Draw(rt, "tokens")
	f := c.open(t)
	for node := range 5 {
		switch rapid.IntRange(0, 7).Draw(rt, "node") {
		case 0:
			c.down[node] = true
		case 1:
			c.slow[node] = time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "ms")) * time.Millisecond
		case 2:
			c.broken[node] = rapid.Int64Range(1, testBlock).Draw(rt, "breaks after")
		}
	}
	for _, b := range c.file.blocks {
		for _, node := range b.on {
			switch rapid.IntRange(0, 7).Draw(rt, "replica") {
			case 0:
				c.wrong[[2]int64{b.id, int64(node)}] = true
			case 1:
				c.missing[[2]int64{b.id, int64(node)}] = true
			}
		}
	}
	if rapid.Bool().Draw(rt, "tokens end") && c.tokens > 0 {
		c.tokens++
	}
	ranges := drawRanges(rt, testSize)
	err := f.ReadRanges(t.Context(), ranges)
	for _, r := range ranges {
		if want := c.data[r.Off : r.Off+int64(len(r.Buf))]; err == nil && !bytes.Equal(r.Buf, want) {
			rt.Fatalf("[%d, +%d): wrong bytes without an error", r.Off, len(r.Buf))
		}
	}
	if class := store.ClassOf(err); err != nil && class != store.Retryable && class != store.Corrupt {
		rt.Fatalf("class %s: %v", class, err)
	}
}

func TestFailover(t *testing.T) {
	bubble(t, "a node is down", func(t *testing.T) {
		c := newScene(t, Options{})
		c.down[0], c.down[1] = true, true
		c.wantAll(t, c.open(t))
		if n := c.s.ReadStats().Retries["connect"]; n == 0 {
			t.Error("no retry was counted")
		}
	})
	bubble(t, "going on at the exact offset", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for i := range 5 {
			c.broken[i] = 1000 // 999 bytes of each read arrive
		}
		buf := make([]byte, 2500)
		if err := f.ReadRanges(t.Context(), []store.Range{{Off: 100, Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[100:2600]) {
			t.Fatalf("%v", err)
		}
		var offs []int64
		for _, r := range c.reads {
			offs = append(offs, r.off)
		}
		if want := []int64{100, 1099, 2098}; !slices.Equal(offs, want) {
			t.Errorf("reads at %v, want %v", offs, want)
		}
	})
	bubble(t, "a bad node is remembered and forgiven", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		c.down[2] = true
		c.wantAll(t, f)
		tries := func() (n int) {
			for _, r := range c.reads {
				if r.node == 2 {
					n++
				}
			}
			c.reads = nil
			return n
		}
		if n := tries(); n != 1 {
			t.Errorf("the dead node was asked %d times in one call, want 1", n)
		}
		c.wantAll(t, f)
		if n := tries(); n != 0 {
			t.Errorf("the dead node was asked %d times soon after", n)
		}
		c.down[2] = false
		time.Sleep(11 * time.Second)
		c.wantAll(t, f)
		if n := tries(); n == 0 {
			t.Error("the node was never forgiven")
		}
	})
	bubble(t, "all replicas are gone for a while", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for i := range 5 {
			c.down[i] = true
		}
		time.AfterFunc(2*time.Second, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			clear(c.down)
		})
		c.wantAll(t, f)
	})
	bubble(t, "all replicas are gone", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for i := range 5 {
			c.down[i] = true
		}
		start := time.Now()
		_, err := readAll(t.Context(), f)
		if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), "uuid-0") || time.Since(start) > 15*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := readAll(ctx, f); err == nil {
			t.Error("no error")
		}
		if d, _ := ctx.Deadline(); time.Now().After(d) {
			t.Error("the deadline passed")
		}
	})
	bubble(t, "the context ends", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for i := range 5 {
			c.slow[i] = time.Hour
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := readAll(ctx, f); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestCorruptReplicas(t *testing.T) {
	spoil := func(c *scene, block int, nodes ...int) {
		for _, n := range nodes {
			c.wrong[[2]int64{c.file.blocks[block].id, int64(n)}] = true
		}
	}
	bubble(t, "one is reported once, with its storage", func(t *testing.T) {
		c := newScene(t, Options{})
		b := c.file.blocks[0]
		spoil(c, 0, b.on[0], b.on[1])
		f := c.open(t)
		c.wantAll(t, f)
		c.wantAll(t, f)
		reported := map[string]bool{}
		for _, lb := range c.bad {
			if int64(lb.GetB().GetBlockId()) != b.id {
				t.Errorf("block %d was reported", lb.GetB().GetBlockId())
			}
			for i, d := range lb.Locs {
				uuid := d.GetId().GetDatanodeUuid()
				if reported[uuid] || strings.TrimPrefix(lb.StorageIds[i], "DS-") != fmt.Sprint(int(uuid[len(uuid)-1]-'0')) {
					t.Errorf("%s is reported with storage %s, already: %v", uuid, lb.StorageIds[i], reported)
				}
				reported[uuid] = true
			}
		}
		for uuid := range reported {
			if uuid != fmt.Sprintf("uuid-%02d", b.on[0]) && uuid != fmt.Sprintf("uuid-%02d", b.on[1]) {
				t.Errorf("the good replica on %s was reported", uuid)
			}
		}
	})
	bubble(t, "all", func(t *testing.T) {
		c := newScene(t, Options{})
		spoil(c, 0, c.file.blocks[0].on...)
		if _, err := readAll(t.Context(), c.open(t)); store.ClassOf(err) != store.Corrupt {
			t.Errorf("%v", err)
		}
		if len(c.bad) != 0 {
			t.Error("all replicas were reported: the fault is more likely ours")
		}
	})
	bubble(t, "all but one that does not answer", func(t *testing.T) {
		c := newScene(t, Options{})
		b := c.file.blocks[0]
		spoil(c, 0, b.on[0], b.on[1])
		c.down[b.on[2]] = true
		if _, err := readAll(t.Context(), c.open(t)); store.ClassOf(err) != store.Retryable {
			t.Errorf("%v", err)
		}
	})
}

func TestBlocksMove(t *testing.T) {
	bubble(t, "to other nodes", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for _, b := range c.file.blocks {
			for i := range b.on {
				b.on[i] = (b.on[i] + 2) % 5
			}
		}
		c.wantAll(t, f)
	})
	bubble(t, "a node comes back on another port", func(t *testing.T) {
		f := newFake(1)
		data := random(testSize, 1)
		c := &scene{fake: f, s: newFakeStore(t, f, Options{}), data: data, file: f.put("/f", data, testBlock, 1)}
		open := c.open(t)
		f.onRead = func(int, datanode.Block) error { return datanode.ErrConnect }
		time.AfterFunc(time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			d := proto.Clone(f.nodes[0]).(*hproto.DatanodeInfo)
			d.Id.XferPort = proto.Uint32(50010)
			f.nodes[0], f.onRead = d, nil
		})
		c.wantAll(t, open)
	})
}

func TestTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		c.tokens = 1
		f := c.open(t)
		c.wantAll(t, f)
		before := c.called("getBlockLocations")
		c.mu.Lock()
		c.tokens++
		c.mu.Unlock()
		c.wantAll(t, f)
		if n := c.called("getBlockLocations") - before; n != 1 {
			t.Errorf("%d questions for new tokens of 7 blocks, want 1", n)
		}
		if c.s.bad.any.Load() != 0 {
			t.Error("a node was blamed")
		}
	})
}

// An open file gives the bytes of its version or an error that tells what happened, never anything else.
func TestIdentity(t *testing.T) {
	// unknown makes what the store knows of the blocks useless, so that the NameNode is asked.
	unknown := func(c *scene, f *fakeFile) {
		for _, b := range f.blocks {
			for n := range 5 {
				c.missing[[2]int64{b.id, int64(n)}] = true
			}
		}
	}
	for _, inodes := range []bool{true, false} {
		bubble(t, fmt.Sprint("overwritten, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			old := c.file
			now := c.put("/f", random(testSize, 2), testBlock, 3)
			unknown(c, old)
			_, err := readAll(t.Context(), f)
			var changed *store.IdentityError
			if !errors.As(err, &changed) || changed.Pinned != f.Identity() || changed.Now != versionOf(now.status).identity() {
				t.Errorf("%v, want an error that names %s and %s", err, f.Identity(), versionOf(now.status).identity())
			}
		})
		bubble(t, fmt.Sprint("removed, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			unknown(c, c.file)
			delete(c.files, "/f")
			if _, err := readAll(t.Context(), f); store.ClassOf(err) != store.NotFound {
				t.Errorf("%v", err)
			}
		})
		bubble(t, fmt.Sprint("appended, inodes ", inodes), func(t *testing.T) {
			c := newScene(t, Options{})
			c.inodes = inodes
			f := c.open(t)
			last := c.file.blocks[6]
			last.stamp++
			last.data = append(slices.Clone(last.data), 1, 2, 3)
			c.file.status.Length = proto.Uint64(testSize + 3)
			c.wantAll(t, f) // the nodes serve the newer replica, whose first bytes are the same
			for i := range last.on {
				last.on[i] = (last.on[i] + 2) % 5
			}
			if _, err := readAll(t.Context(), f); err != nil && store.ClassOf(err) != store.IdentityChanged {
				t.Errorf("%v", err)
			}
		})
	}
	bubble(t, "renamed", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		c.files["/g"] = c.file
		delete(c.files, "/f")
		for _, b := range c.file.blocks {
			for i := range b.on {
				b.on[i] = (b.on[i] + 2) % 5
			}
		}
		c.wantAll(t, f)
	})
}

func TestSlowNodes(t *testing.T) {
	bubble(t, "a small read is hedged", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		for range 20 { // earns a budget
			c.wantAll(t, f)
		}
		c.slow[0] = time.Minute
		buf := make([]byte, 1000)
		start := time.Now()
		for i := range int64(7) {
			if err := f.ReadRanges(t.Context(), []store.Range{{Off: i * testBlock, Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[i*testBlock:i*testBlock+1000]) {
				t.Fatalf("block %d: %v", i, err)
			}
		}
		st := c.s.ReadStats()
		if st.HedgesWon == 0 || time.Since(start) > 7*time.Second || st.HedgeBytes*20 > st.Asked {
			t.Errorf("after %v: %+v", time.Since(start), st)
		}
	})
	bubble(t, "the first answer may still win", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		for range 20 {
			c.wantAll(t, f)
		}
		for i := range 5 {
			c.slow[i] = 700 * time.Millisecond
		}
		buf := make([]byte, 1000)
		if err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[:1000]) {
			t.Fatal(err)
		}
		if st := c.s.ReadStats(); st.HedgesLost != 1 || st.HedgesWon != 0 {
			t.Errorf("%+v", st)
		}
	})
	bubble(t, "without a budget it is handed over", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		c.slow[0], c.slow[1] = time.Hour, time.Hour
		start := time.Now()
		c.wantAll(t, f)
		if took := time.Since(start); took > 10*time.Second || c.s.ReadStats().Retries["slow"] == 0 {
			t.Errorf("took %v, retries %v", took, c.s.ReadStats().Retries)
		}
	})
	bubble(t, "a node that stands still is left, also by those who wait for it", func(t *testing.T) {
		c := newScene(t, Options{MaxNodeReads: 1, Parallel: 8, NoHedge: true})
		f := c.open(t)
		c.slow[0] = time.Hour
		start := time.Now()
		var wg sync.WaitGroup
		for i := range int64(50) {
			wg.Go(func() {
				buf := make([]byte, 1000)
				if err := f.ReadRanges(t.Context(), []store.Range{{Off: i * 1500, Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[i*1500:i*1500+1000]) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v, want the patience with one node", took)
		}
	})
	bubble(t, "a node that is always overtaken counts as failed", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		for range 100 {
			c.wantAll(t, f)
		}
		c.slow[0] = time.Minute
		start := time.Now()
		for i := range int64(60) {
			buf := make([]byte, 1000)
			if err := f.ReadRanges(t.Context(), []store.Range{{Off: i * 1500, Buf: buf}}); err != nil {
				t.Fatal(err)
			}
		}
		if st := c.s.ReadStats(); st.HedgesWon != maxOvertaken || time.Since(start) > 2*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), st)
		}
	})
	bubble(t, "a near deadline leaves time for another node", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		c.slow[0], c.slow[1] = time.Hour, time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		buf := make([]byte, 1000)
		for i := range int64(7) {
			if err := f.ReadRanges(ctx, []store.Range{{Off: i * testBlock, Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[i*testBlock:i*testBlock+1000]) {
				t.Errorf("block %d: %v", i, err)
			}
		}
	})
	bubble(t, "where all are slow, one is waited for", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for i := range 5 {
			c.slow[i] = time.Minute
		}
		c.wantAll(t, f)
	})
}

func TestNameNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		for range 10 {
			c.wantAll(t, f)
		}
		if a, b := c.called("getFileInfo"), c.called("getBlockLocations"); a != 1 || b != 1 {
			t.Errorf("%d getFileInfo and %d getBlockLocations for one file, want 1 and 1", a, b)
		}
		c.wantAll(t, c.open(t))
		if a, b := c.called("getFileInfo"), c.called("getBlockLocations"); a != 2 || b != 1 {
			t.Errorf("opened again: %d getFileInfo and %d getBlockLocations, want 2 and 1", a, b)
		}
	})
}

func TestPrefetch(t *testing.T) {
	for _, tokens := range []int{0, 1} {
		bubble(t, fmt.Sprint("tokens ", tokens), func(t *testing.T) {
			c := newScene(t, Options{})
			c.tokens = tokens
			c.s.tokens.Store(tokens > 0)
			var names []string
			for i := range 30 {
				names = append(names, fmt.Sprintf("/d/f%02d", i))
				c.put(names[i], c.data, testBlock, 3)
				c.put(names[i]+"-other", c.data, testBlock, 3)
			}
			names = append(names, "/d/missing", "/d/f99", "/nowhere/x")
			if err := c.s.Prefetch(t.Context(), names); err != nil {
				t.Fatal(err)
			}
			if n := c.called("getListing"); tokens == 0 && n > 8 {
				t.Errorf("%d listings for 60 files, 10 a page", n)
			}
			clear(c.calls)
			for _, name := range names[:30] {
				f, err := c.s.Open(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				c.wantAll(t, f)
				if _, err := c.s.Locate(t.Context(), name, 0, testSize); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.calls) > 0 {
				t.Errorf("asked after Prefetch: %v", c.calls)
			}
			if _, err := c.s.Open(t.Context(), "/d/missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a missing file: %v", err)
			}
			time.Sleep(6 * time.Minute)
			c.s.Open(t.Context(), names[0])
			if c.called("getFileInfo") == 0 {
				t.Error("what was prefetched is believed for ever")
			}
		})
	}
}

func TestReadMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		var files []store.FileRanges
		for i := range 40 {
			name := fmt.Sprintf("/many/%d", i)
			file := c.put(name, c.data, testBlock, 3)
			f, err := c.s.Open(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if i == 7 {
				for _, b := range file.blocks {
					for n := range 5 {
						c.wrong[[2]int64{b.id, int64(n)}] = true
					}
				}
			}
			off := int64(i * 1000)
			files = append(files, store.FileRanges{File: f, Ranges: []store.Range{{Off: off, Buf: make([]byte, 30_000)}, {Off: 5, Buf: make([]byte, 10)}}})
		}
		if err := c.s.ReadMany(t.Context(), files); err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			if i == 7 {
				if store.ClassOf(f.Err) != store.Corrupt {
					t.Errorf("the corrupt file: %v", f.Err)
				}
				continue
			}
			if f.Err != nil || !bytes.Equal(f.Ranges[0].Buf, c.data[i*1000:i*1000+30_000]) || !bytes.Equal(f.Ranges[1].Buf, c.data[5:15]) {
				t.Errorf("file %d: %v", i, f.Err)
			}
		}
	})
}

func TestReadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t).(store.ReplicaReader)
		b := c.file.blocks[0]
		uuid := func(i int) string { return fmt.Sprintf("uuid-%02d", i) }
		one := func(node string) error {
			buf := make([]byte, 1000)
			err := f.ReadReplica(t.Context(), node, []store.Range{{Off: 10, Buf: buf}})
			if err == nil && !bytes.Equal(buf, c.data[10:1010]) {
				t.Error("wrong bytes")
			}
			return err
		}
		for _, n := range b.on {
			c.reads = nil
			if err := one(uuid(n)); err != nil || len(c.reads) != 1 || c.reads[0].node != n {
				t.Errorf("node %d: %v, reads %v", n, err, c.reads)
			}
		}
		c.wrong[[2]int64{b.id, int64(b.on[0])}] = true
		c.missing[[2]int64{b.id, int64(b.on[1])}] = true
		c.down[b.on[2]] = true
		for i, want := range []store.Class{store.Corrupt, store.NotFound, store.Retryable} {
			if err := one(uuid(b.on[i])); store.ClassOf(err) != want {
				t.Errorf("node %d: %v, want class %s", b.on[i], err, want)
			}
		}
		if err := one("nobody"); store.ClassOf(err) != store.NotFound {
			t.Errorf("an unknown node: %v", err)
		}
		b.on = append(b.on, (b.on[2]+1)%5) // since the file was opened
		if err := one(uuid(b.on[3])); err != nil {
			t.Errorf("a new replica: %v", err)
		}
	})
}

func TestFilesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		c.put("/zone/f", c.data, testBlock, 3).status.FileEncryptionInfo = &hproto.FileEncryptionInfo{KeyName: proto.String("key7")}
		c.put("/link", nil, testBlock, 3).status.FileType = hproto.FileStatus_SYMLINK.Enum()
		c.put("/striped", c.data, testBlock, 3).status.EcPolicy = &hproto.ErasureCodingPolicy{Id: proto.Uint32(3)}
		for name, word := range map[string]string{"/zone/f": "key7", "/striped": "rs-legacy", "/link": "link", "/zone": "directory", "/none": "not exist", "/a:b": "':'", "/\xff": "UTF-8", "/.reserved/raw/x": "own", "/x/.stepahead-tmp-1": "reserved"} {
			_, err := c.s.Open(t.Context(), name)
			if err == nil || !strings.Contains(err.Error(), word) || store.ClassOf(err) != store.Permanent && name != "/none" {
				t.Errorf("%s: %v, want an error about %q", name, err, word)
			}
		}
	})
}

func TestFilesBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{})
		c.file.open = true
		f := c.open(t)
		if f.Size() != 6*testBlock {
			t.Errorf("size %d, want the complete blocks' %d", f.Size(), 6*testBlock)
		}
		c.wantAll(t, f)
		last := c.file.blocks[6]
		c.s.visible = func(_ context.Context, n *node, b *block) (int64, error) {
			if b.id.id != last.id {
				t.Errorf("asked for %v", b.id)
			}
			return 1000, nil
		}
		c.file.status.ModificationTime = proto.Uint64(5)
		f = c.open(t)
		if f.Size() != 6*testBlock+1000 {
			t.Errorf("size %d, want 1000 bytes more than the complete blocks", f.Size())
		}
		c.wantAll(t, f)
		c.file.open, last.stamp = false, last.stamp+1 // closed
		for i := range last.on {
			last.on[i] = (last.on[i] + 2) % 5
		}
		c.wantAll(t, f)
	})
}

func TestListPages(t *testing.T) {
	c := newScene(t, Options{})
	var want []string
	for i := range 57 {
		want = append(want, fmt.Sprintf("/d/f %02d%%é", i))
		c.put(want[i], nil, testBlock, 3)
	}
	c.put("/d/"+tempPrefix+"1", nil, testBlock, 3)
	infos, err := c.s.List(t.Context(), "/d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range infos {
		got = append(got, i.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestParse(t *testing.T) {
	for url, want := range map[string]string{
		"hdfs://ns/a/b":     "ns /a/b",
		"hdfs://h:8020/a%2": "h:8020 /a%2",
		"hdfs:///a":         " /a",
		"hdfs://ns":         "ns /",
		"hdfs://ns/":        "ns /",
		"hdfs://ns/a/":      "ns /a",
		"/a/b":              " /a/b",
	} {
		authority, name, err := parse(url)
		if got := authority + " " + name; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", url, got, err, want)
		}
	}
	for _, url := range []string{"", "a/b", "s3://x/y", "hdfs://ns//a", "hdfs://ns/a/../b"} {
		if _, _, err := parse(url); !errors.Is(err, store.ErrName) {
			t.Errorf("%q: %v", url, err)
		}
	}
}
