package hdfs_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
)

// A cluster of one DataNode, whose bytes are nowhere else: faults must pass, or be told. The subtests follow each other.
func TestFaultSingle(t *testing.T) {
	t.Parallel()
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 1, Site: map[string]string{"dfs.block.access.token.enable": "true"}})
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(71, 2<<20)
	c.Put(path, data, 1, 0)
	t.Run("connection cut after n bytes", func(t *testing.T) { cutAfter(t, c) })
	t.Run("writing, cut after n bytes", func(t *testing.T) { writeCutAfter(t, c) })
	t.Run("NameNode restarted", func(t *testing.T) {
		s := faulty(t, c, nil)
		f := openFile(t, s, path)
		mustRead(t, f, data)
		c.StopNameNode(0)
		mustRead(t, f, data) // what is known needs no NameNode
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := s.Stat(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
			wantClass(t, err, store.Retryable)
		}
		c.RestartNameNode(0)
		mustRead(t, f, data)
		mustRead(t, openFile(t, s, path), data)
	})
	t.Run("block tokens expire", func(t *testing.T) {
		c.BlockTokenLife(time.Second)
		s := faulty(t, c, nil)
		f := openFile(t, s, path)
		calls := func() int64 { return s.ReadStats().Calls["getBlockLocations"] }
		before := calls()
		until(t, "new tokens", func() bool {
			mustRead(t, f, data)
			return calls() >= before+2
		})
	})
}

// The same with encrypted data transfer, whose handshake has more steps, and keys.
func TestFaultEncrypted(t *testing.T) {
	t.Parallel()
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 1, Encrypt: true, Site: map[string]string{
		"dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
	}})
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(72, 2<<20)
	c.Put(path, data, 1, 0)
	t.Run("connection cut after n bytes", func(t *testing.T) { cutAfter(t, c) })
	t.Run("writing, cut after n bytes", func(t *testing.T) { writeCutAfter(t, c) })
	t.Run("other keys", func(t *testing.T) { // as after they were rolled
		s := faulty(t, c, nil)
		f := openFile(t, s, path)
		mustRead(t, f, data)
		c.Kill(0)
		c.RestartNameNode(0)
		c.Restart(0, true)
		mustRead(t, f, data)
		if n := s.ReadStats().Calls["getDataEncryptionKey"]; n != 2 {
			t.Errorf("%d keys were fetched, want 2", n)
		}
	})
}

// cutAfter ends connections to the only DataNode after every number of bytes that handshakes, answers and packets have.
func cutAfter(t *testing.T, c *hdfstest.Cluster) {
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(73, 100_000)
	c.Put(path, data, 1, 0)
	addr := c.DataNodes()[0].Addr
	for _, bytes := range []int64{0, 1, 2, 4, 7, 30, 100, 180, 240, 300, 360, 420, 600, 1000, 66_000, 99_999} {
		network := c.Network()
		proxy := network.Proxy(addr)
		f := openFile(t, faulty(t, c, over(network)), path)
		proxy.CutAfter(bytes)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // in which no retry's pause fits
		if err := readRange(ctx, f, data, 0, len(data)); err != nil {
			wantClass(t, err, store.Retryable, store.ClassUnknown)
		}
		cancel()
		proxy.Heal()
		mustRead(t, f, data)
	}
}

// writeCutAfter is cutAfter for writers: what the DataNode says to them is short.
func writeCutAfter(t *testing.T, c *hdfstest.Cluster) {
	dir := c.Dir(t)
	data := hdfstest.Bytes(74, 300_000)
	addr := c.DataNodes()[0].Addr
	for _, bytes := range []int64{0, 1, 2, 4, 5, 9, 13, 30, 100, 180, 240, 300, 360, 420} {
		network := c.Network()
		proxy := network.Proxy(addr)
		s := faulty(t, c, over(network))
		proxy.CutAfter(bytes)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		name := dir + "/" + strconv.FormatInt(bytes, 10)
		if err := write(ctx, s, name, data); err != nil {
			wantClass(t, err, store.Retryable, store.ClassUnknown)
			if _, err := s.Stat(t.Context(), name); store.ClassOf(err) != store.NotFound {
				t.Errorf("cut after %d bytes: half a file: %v", bytes, err)
			}
			proxy.Heal()
			if err := write(faultContext(t), s, name, data); err != nil {
				t.Errorf("healed: %v", err)
			}
		}
		cancel()
		proxy.Heal()
		mustRead(t, openFile(t, s, name), data)
	}
}
