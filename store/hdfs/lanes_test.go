package hdfs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
)

// A lane that is full leaves the other one its own room.
func TestLanesHaveTheirOwnRoom(t *testing.T) {
	for _, full := range []store.Lane{store.Feed, store.Bulk} {
		bubble(t, fmt.Sprint("full lane ", int(full)), func(t *testing.T) {
			c := newScene(t, Options{MaxReads: 2, MaxNodeReads: 2, MaxBulkReads: 2, MaxNodeBulkReads: 2, NoHedge: true})
			f := c.open(t)
			release := make(chan struct{})
			c.onRead = func(_ int, b datanode.Block) error {
				if int64(b.GetBlockId()) == c.file.blocks[0].id {
					<-release
				}
				return nil
			}
			read := func(lane store.Lane, off int64) error {
				ctx, cancel := context.WithTimeout(store.WithLane(t.Context(), lane), time.Second)
				defer cancel()
				return f.ReadRanges(ctx, []store.Range{{Off: off, Buf: make([]byte, 100)}})
			}
			var stuck sync.WaitGroup
			for i := range int64(2) {
				stuck.Go(func() { _ = read(full, i*100) })
			}
			synctest.Wait()
			other := store.Bulk - full
			for range 10 {
				if err := read(other, testBlock); err != nil {
					t.Fatalf("in the other lane: %v", err)
				}
			}
			if err := read(full, testBlock); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("in the full lane: %v", err)
			}
			close(release)
			stuck.Wait()
		})
	}
}

// readAtOnce reads n ranges of 1,000 bytes, step apart, at the same time, and returns how many of them each node served.
func readAtOnce(t *testing.T, c *scene, lane store.Lane, n int, step int64) map[int]int {
	t.Helper()
	f := c.open(t)
	for i := range c.nodes {
		c.slow[i] = time.Second
	}
	var wg sync.WaitGroup
	for i := range int64(n) {
		wg.Go(func() {
			buf := make([]byte, 1000)
			if err := f.ReadRanges(store.WithLane(t.Context(), lane), []store.Range{{Off: i * step, Buf: buf}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	served := map[int]int{}
	for _, r := range c.reads {
		served[r.node]++
	}
	return served
}

// Reads of one block in the lane of large reads are shared by its replicas; others stay with the one of their rank.
func TestBulkReadsOfOneBlockUseAllReplicas(t *testing.T) {
	bubble(t, "bulk", func(t *testing.T) {
		served := readAtOnce(t, newScene(t, Options{NoHedge: true}), store.Bulk, 12, 1000)
		for node, n := range served {
			if n < 3 || n > 5 || len(served) != 3 {
				t.Errorf("node %d served %d of 12: %v", node, n, served)
			}
		}
	})
	bubble(t, "feed", func(t *testing.T) {
		if served := readAtOnce(t, newScene(t, Options{NoHedge: true}), store.Feed, 8, 1000); len(served) != 1 {
			t.Errorf("%v, want one node", served)
		}
	})
}

// Reads of many blocks keep all nodes about equally busy.
func TestBulkReadsKeepAllNodesBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScene(t, Options{NoHedge: true})
		const n = 30
		c.put("/f", random(n*testBlock, 2), testBlock, 3)
		served := readAtOnce(t, c, store.Bulk, n, testBlock)
		for node := range c.nodes {
			if fair := n / len(c.nodes); served[node] < fair-2 || served[node] > fair+2 {
				t.Errorf("node %d served %d of %d: %v", node, served[node], n, served)
			}
		}
	})
}
