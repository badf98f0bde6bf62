package hdfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// pipeline returns the DataNodes through which a writer's block goes, in order.
func pipeline(c *hdfstest.Cluster, w store.Writer) (dns []int) {
	all := c.DataNodes()
	if w.(*writer).draft.now == nil {
		return nil
	}
	for _, target := range w.(*writer).draft.now.targets {
		dns = append(dns, slices.IndexFunc(all, func(d hdfstest.DataNode) bool { return d.UUID == target.Node.UUID }))
	}
	return dns
}

// TestDeadDataNodesDoNotEndAWriter: they die with unacknowledged packets on their way. Of a small block another is written, a
// large one goes on with the DataNodes that are left, down to one.
func TestDeadDataNodesDoNotEndAWriter(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	for _, size := range []string{"1m", "32m"} {
		s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", size) })
		w, err := s.Create(t.Context(), dir+"/f")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		data := random(13<<20+5, 7)
		writeTo(t, w, data, 0, 6<<20+200_000)
		first := pipeline(c, w)[0]
		c.Kill(first)
		writeTo(t, w, data, 6<<20+200_000, 9<<20+200_000)
		rest := pipeline(c, w)
		last := rest[len(rest)-1]
		c.Kill(last)
		writeTo(t, w, data, 9<<20+200_000, len(data))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatal("wrong bytes")
		}
		calls := s.nn.Stats().Calls
		if size == "32m" && calls["updatePipeline"] != 2 || size == "1m" && calls["abandonBlock"] == 0 {
			t.Errorf("blocks of %s: calls %v", size, calls)
		}
		c.Restart(first, true)
		c.Restart(last, true)
	}
	restartsInMidBlock(t, c)
}

// restartsInMidBlock: the only DataNode that has a block restarts as for an upgrade, and the block goes on there.
func restartsInMidBlock(t *testing.T, c *hdfstest.Cluster) {
	s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config {
		return cfg.With("dfs.blocksize", "32m").With("dfs.replication", "1")
	})
	w, err := s.Create(t.Context(), dir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	data := random(9<<20+5, 8)
	writeTo(t, w, data, 0, 6<<20)
	only := pipeline(c, w)[0]
	c.Leave(only)
	back := make(chan struct{})
	go func() { c.Restart(only, true); close(back) }()
	defer func() { <-back }()
	writeTo(t, w, data, 6<<20, len(data))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.Get(dir+"/f"), data) {
		t.Error("wrong bytes after a restart")
	}
	if calls := s.nn.Stats().Calls; calls["updatePipeline"] < 1 {
		t.Errorf("nothing restarted in mid-block: calls %v", calls)
	}
}

// TestAKillSeries: DataNodes of the pipeline die at many moments, and come back.
func TestAKillSeries(t *testing.T) {
	testdata.Soak(t)
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: 4})
	for i := range 24 {
		s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", []string{"2m", "64m"}[i%2]) })
		data := random(12<<20+i, uint64(i))
		at := 1 + i*len(data)/24
		w, err := s.Create(t.Context(), dir+"/f")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		writeTo(t, w, data, 0, at)
		victim := i % 4
		if dns := pipeline(c, w); len(dns) > 0 {
			victim = dns[i%len(dns)]
		}
		done := make(chan struct{})
		go func() { c.Kill(victim); close(done) }()
		writeTo(t, w, data, at, len(data))
		if err := w.Close(); err != nil {
			t.Fatalf("%d bytes, node %d killed: %v", at, victim, err)
		}
		<-done
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatalf("%d bytes, node %d killed: wrong bytes", at, victim)
		}
		wantListed(t, s, dir, "f")
		c.Restart(victim, true)
	}
}

// TestNetworkFaultsOfAWriter harms the way to the pipeline's first DataNode, in a small block and in a large one.
func TestNetworkFaultsOfAWriter(t *testing.T) {
	c := hdfstest.Shared(t)
	for name, harm := range map[string]func(*hdfstest.Proxy){
		"late":          func(p *hdfstest.Proxy) { p.Delay(300 * time.Millisecond) },
		"silent":        func(p *hdfstest.Proxy) { p.Swallow() },
		"refuses":       func(p *hdfstest.Proxy) { p.Down() },
		"resets":        func(p *hdfstest.Proxy) { p.Reset() },
		"cut in an ack": func(p *hdfstest.Proxy) { p.CutAfter(3) },
	} {
		for _, before := range []int{100_000, 6 << 20} {
			t.Run(fmt.Sprint(name, ", after ", before), func(t *testing.T) {
				t.Parallel()
				network := c.Network()
				proxies := map[string]*hdfstest.Proxy{}
				for _, d := range c.DataNodes() {
					proxies[d.Addr] = network.Proxy(d.Addr)
				}
				s, dir := writeOver(t, c, network.Dial)
				w, err := s.Create(t.Context(), dir+"/f")
				if err != nil {
					t.Fatal(err)
				}
				defer w.Abort()
				data := random(before+4<<20+3, 5)
				writeTo(t, w, data, 0, before)
				harm(proxies[w.(*writer).draft.now.targets[0].Node.Addr])
				writeTo(t, w, data, before, len(data))
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(c.Get(dir+"/f"), data) {
					t.Fatal("wrong bytes")
				}
			})
		}
	}
}

// writeOver is writeOn with blocks of 32 MiB, little patience and connections of one's own.
func writeOver(t *testing.T, c *hdfstest.Cluster, dial func(context.Context, string, string) (net.Conn, error)) (*Store, string) {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Open(c.URL(), Options{Conf: cfg.With("dfs.blocksize", "32m"), User: hdfstest.User, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.writes.patience = 2 * time.Second
	return s, c.Dir(t)
}

// hangUp is a connection that ends when the last packet of a block has been sent over it.
type hangUp struct {
	net.Conn
	once *sync.Once
}

func (h hangUp) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	if len(b) == 31 && b[3] == 4 && b[25] == 1 {
		h.once.Do(func() { h.Conn.Close() })
	}
	return n, err
}

// TestABlockIsClosedAgain: the answer to a block's last packet is lost, so that some DataNodes may have closed it.
func TestABlockIsClosedAgain(t *testing.T) {
	c := hdfstest.Shared(t)
	for _, n := range []int{1000, 6<<20 + 17} {
		var once sync.Once
		s, dir := writeOver(t, c, func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return hangUp{conn, &once}, err
		})
		data := random(n, 9)
		if err := writeFile(s, dir+"/f", data); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Get(dir+"/f"), data) {
			t.Fatal("wrong bytes")
		}
		calls := s.nn.Stats().Calls
		if calls["updatePipeline"]+calls["abandonBlock"] != 1 {
			t.Errorf("%d bytes: %v", n, calls)
		}
	}
}

// TestFailoverInMidWrite: the writer goes on with the NameNode that took over.
func TestFailoverInMidWrite(t *testing.T) {
	c := hdfstest.Start(t, hdfstest.Options{NameNodes: 2})
	s, dir := writeOn(t, c)
	w, err := s.Create(t.Context(), dir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	data := random(5<<20, 11)
	for i := range 5 {
		switch i {
		case 2:
			c.Failover(1)
		case 4:
			c.StopNameNode(1)
			c.Failover(0)
		}
		if _, err := w.Write(data[i<<20 : (i+1)<<20]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(storetest.Get(t, s, dir+"/f"), data) {
		t.Fatal("wrong bytes")
	}
}

// TestFullDataNodes: no DataNode has room for a block, here because the block is as large as 100 TiB.
func TestFullDataNodes(t *testing.T) {
	c := hdfstest.Shared(t)
	s, dir := writeOn(t, c, func(cfg *conf.Config) *conf.Config { return cfg.With("dfs.blocksize", "100t") })
	err := writeFile(s, dir+"/f", random(1000, 1))
	if !errors.Is(err, syscall.ENOSPC) || store.ClassOf(err) != store.Permanent {
		t.Fatal(err)
	}
	wantListed(t, s, dir)
}
