package hdfs

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
)

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
	bubble(t, "reads that fail at once say nothing of how long reads take", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		for i := range 5 {
			c.slow[i] = 100 * time.Millisecond
		}
		f := c.open(t)
		for range 20 {
			c.wantAll(t, f)
		}
		before := c.s.hedges.delay(testBlock)
		c.onRead = func(int, datanode.Block) error { return datanode.ErrConnect }
		for range 20 {
			if _, err := readAll(t.Context(), f); err == nil {
				t.Fatal("no error")
			}
			time.Sleep(badMost)
		}
		if after := c.s.hedges.delay(testBlock); before < 190*time.Millisecond || after < before*9/10 {
			t.Errorf("a second node would be asked after %v, and before the failures after %v", after, before)
		}
	})
	bubble(t, "the second node stands still, too", func(t *testing.T) {
		c := newScene(t, Options{Parallel: 1})
		f := c.open(t)
		for range 100 {
			c.wantAll(t, f)
		}
		b := c.file.blocks[0]
		c.slow[b.on[0]], c.slow[b.on[1]] = time.Hour, time.Hour
		start := time.Now()
		buf := make([]byte, 1000)
		if err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}); err != nil || !bytes.Equal(buf, c.data[:1000]) {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
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
