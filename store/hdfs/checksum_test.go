package hdfs

import (
	"context"
	"errors"
	"hash/crc32"
	"io/fs"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

func crcOf(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// sum asks a file for its sum.
func sum(ctx context.Context, f store.File) (uint32, error) {
	return f.(store.Checksummer).CRC32C(ctx)
}

// TestSums: the sum is that of the bytes whatever becomes of nodes, as long as one of each block answers; else it is an error, soon, and no byte is read.
func TestSums(t *testing.T) {
	for what, c := range map[string]struct {
		before func(c *scene)
		want   store.Class // -1: the sum
	}{
		"nothing is wrong":   {func(*scene) {}, -1},
		"two nodes are down": {func(c *scene) { c.down[0], c.down[3] = true, true }, -1},
		"two nodes hang":     {func(c *scene) { c.slow[1], c.slow[2] = time.Hour, time.Hour }, -1},
		"replicas are missing": {func(c *scene) {
			for i, b := range c.file.blocks {
				c.missing[[2]int64{b.id, int64(b.on[i%3])}] = true
			}
		}, -1},
		"tokens end": {func(c *scene) { c.tokens++ }, -1},
		"all are down": {func(c *scene) {
			for n := range c.nodes {
				c.down[n] = true
			}
		}, store.Retryable},
		"all hang": {func(c *scene) {
			for n := range c.nodes {
				c.slow[n] = time.Hour
			}
		}, store.Retryable},
		"they make none": {func(c *scene) { c.noSums = true }, store.Permanent},
	} {
		bubble(t, what, func(t *testing.T) {
			s := newScene(t, Options{})
			s.tokens = 1
			f := s.open(t)
			c.before(s)
			began := time.Now()
			got, err := sum(t.Context(), f)
			if c.want == -1 && (err != nil || got != crcOf(s.data)) || c.want != -1 && (err == nil || store.ClassOf(err) != c.want) {
				t.Errorf("%08x, %v; want %08x or class %v", got, err, crcOf(s.data), c.want)
			}
			if took := time.Since(began); took > time.Minute || len(s.reads) > 0 {
				t.Errorf("after %v and %d reads", took, len(s.reads))
			}
			if c.want == store.Permanent && (!errors.Is(err, errors.ErrUnsupported) || len(s.sums) > len(s.file.blocks)) {
				t.Errorf("%v, asked %d times", err, len(s.sums))
			}
		})
	}
}

// TestSumsOfNone: what has no sum says so, and no DataNode is asked.
func TestSumsOfNone(t *testing.T) {
	bubble(t, "empty", func(t *testing.T) {
		c := newScene(t, Options{})
		c.file = c.put("/f", nil, testBlock, 3)
		if got, err := sum(t.Context(), c.open(t)); err != nil || got != 0 || len(c.sums) > 0 {
			t.Errorf("%08x, %v, %v were asked", got, err, c.sums)
		}
	})
	bubble(t, "being written", func(t *testing.T) {
		c := newScene(t, Options{})
		c.file.open = true
		if _, err := sum(t.Context(), c.open(t)); !errors.Is(err, errors.ErrUnsupported) || len(c.sums) > 0 {
			t.Errorf("%v, %v were asked", err, c.sums)
		}
	})
	bubble(t, "erasure-coded", func(t *testing.T) {
		c := newScene(t, Options{})
		c.file.status.EcPolicy = &hproto.ErasureCodingPolicy{Id: proto.Uint32(1)}
		if _, err := sum(t.Context(), c.open(t)); !errors.Is(err, errors.ErrUnsupported) || len(c.sums) > 0 {
			t.Errorf("%v, %v were asked", err, c.sums)
		}
	})
	bubble(t, "closed, or given up", func(t *testing.T) {
		c := newScene(t, Options{})
		f := c.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := sum(ctx, f); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		for n := range c.nodes {
			c.slow[n] = time.Hour
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := sum(ctx, f); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		f.Close()
		if _, err := sum(t.Context(), f); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// TestRealSums: what DataNodes of Hadoop say is the sum of the bytes, by whomever and in whatever blocks they were written, and nothing is read for it.
func TestRealSums(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c)
	files := map[string][]byte{
		"/empty": nil, "/byte": {7}, "/chunk": random(512, 1), "/chunk+1": random(513, 2), "/block": random(1<<20, 3), "/blocks": random(5<<20+777, 4),
	}
	for name, data := range files {
		c.Put(dir+name, data, 2, 1<<20)
	}
	ours := random(3<<20+1, 5)
	if err := store.ReplaceFile(t.Context(), s, dir+"/ours", ours); err != nil {
		t.Fatal(err)
	}
	files["/ours"] = ours
	for name, data := range files {
		f, err := s.Open(t.Context(), dir+name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sum(t.Context(), f); err != nil || got != crcOf(data) {
			t.Errorf("%s: %08x, %v; want %08x", name, got, err, crcOf(data))
		}
		f.Close()
	}
	if n := s.ReadStats(); n.Asked > 0 {
		t.Errorf("%d bytes were read", n.Asked)
	}
}
