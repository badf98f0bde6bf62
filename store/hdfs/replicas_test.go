package hdfs

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

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
