package hdfs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
)

// over makes a store use a network.
func over(n *hdfstest.Network) func(*hdfs.Options) {
	return func(o *hdfs.Options) { o.Dial = n.Dial }
}

// One DataNode, read first, is harmed by its network; two others hold the same.
func TestFaultOneNetwork(t *testing.T) {
	c := hdfstest.Shared(t)
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(41, 1<<20)
	putReported(c, path, data, 3)
	first := c.DataNodes()[0]
	for name, harm := range map[string]func(*hdfstest.Proxy){
		"1 KB a second":     func(p *hdfstest.Proxy) { p.Slow(1) },
		"a second late":     func(p *hdfstest.Proxy) { p.Delay(time.Second) },
		"silent":            func(p *hdfstest.Proxy) { p.Swallow() },
		"refuses":           func(p *hdfstest.Proxy) { p.Down() },
		"resets":            func(p *hdfstest.Proxy) { p.Reset() },
		"cut in the answer": func(p *hdfstest.Proxy) { p.CutAfter(3) },
		"cut in a packet":   func(p *hdfstest.Proxy) { p.CutAfter(100_001) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := c.Network()
			proxy := network.Proxy(first.Addr)
			s := faulty(t, c, func(o *hdfs.Options) { o.Dial, o.Node = network.Dial, first.UUID })
			f := openFile(t, s, path)
			harm(proxy)
			if err := tryRead(t, f, data, 0, len(data)); err != nil {
				t.Fatal(err)
			}
			proxy.Heal()
			if name == "refuses" {
				proxy.Up()
			}
			mustRead(t, f, data)
		})
	}
}

// Everything is cut for five seconds, the NameNode's network too: reads wait, and go on.
func TestFaultCutForFiveSeconds(t *testing.T) {
	t.Parallel()
	c := hdfstest.Shared(t)
	path := c.Dir(t) + "/f"
	data := hdfstest.Bytes(43, 3<<20)
	putReported(c, path, data, 3)
	network := c.Network()
	proxies := []*hdfstest.Proxy{network.Proxy(c.NameNodes()[0].Addr)}
	for _, dn := range c.DataNodes() {
		proxies = append(proxies, network.Proxy(dn.Addr))
	}
	f := openFile(t, faulty(t, c, over(network)), path)
	mustRead(t, f, data)
	for _, p := range proxies {
		p.Delay(5 * time.Second)
	}
	start := time.Now()
	for off := 0; off < len(data); off += 1 << 20 {
		if err := tryRead(t, f, data, off, 1000); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		for _, p := range proxies {
			p.Heal()
		}
	}
	mustRead(t, f, data)
}

// The NameNode's connection ends after so many bytes: calls are repeated or fail as something to try again.
func TestFaultNameNodeNetwork(t *testing.T) {
	t.Parallel()
	c := hdfstest.Shared(t)
	dir := c.Dir(t)
	data := hdfstest.Bytes(44, 10_000)
	c.Put(dir+"/f", data, 3, 0)
	for _, bytes := range []int64{0, 1, 3, 4, 5, 20, 60, 120, 300, 700} {
		network := c.Network()
		proxy := network.Proxy(c.NameNodes()[0].Addr)
		s := faulty(t, c, over(network))
		proxy.CutAfter(bytes)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if infos, err := s.List(ctx, dir); err == nil && len(infos) != 1 {
			t.Errorf("cut after %d bytes: listed %v", bytes, infos)
		} else if err != nil {
			wantClass(t, err, store.Retryable, store.ClassUnknown)
		}
		cancel()
		proxy.Heal()
		mustRead(t, openFile(t, s, dir+"/f"), data)
	}
}
