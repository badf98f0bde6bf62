package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
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
	for _, r := range ranges {
		clear(r.Buf)
	}
	time.Sleep(time.Hour) // whatever is still under way ends
	for _, r := range ranges {
		if bytes.ContainsFunc(r.Buf, func(b rune) bool { return b != 0 }) {
			rt.Fatalf("[%d, +%d) was written to after the call", r.Off, len(r.Buf))
		}
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
	bubble(t, "the store is closed", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		c.onRead = func(int, datanode.Block) error { return datanode.ErrClosed }
		start := time.Now()
		if _, err := readAll(t.Context(), f); !errors.Is(err, fs.ErrClosed) || time.Since(start) > 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
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
