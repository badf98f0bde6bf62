package hdfstest

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// A Network stands between one client and a cluster. Its Dial goes through the proxies that a test puts before some
// addresses, and directly to all others.
type Network struct {
	t       testing.TB
	mu      sync.Mutex
	proxies map[string]*Proxy
}

// Network returns a network without proxies.
func (c *Cluster) Network() *Network { return &Network{t: c.t, proxies: map[string]*Proxy{}} }

// Dial connects as net.Dialer does.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	if p := n.proxies[addr]; p != nil {
		addr = p.proxy.Listen
	}
	n.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// A Proxy carries the connections to one address, and harms them as it is told. It is Shopify's toxiproxy.
type Proxy struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// Proxy puts a proxy before an address (that of a DataNode or a NameNode), until the end of the test.
func (n *Network) Proxy(addr string) *Proxy {
	n.t.Helper()
	nop := zerolog.Nop()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), nop)
	p := &Proxy{n.t, toxiproxy.NewProxy(server, addr, "127.0.0.1:0", addr)}
	p.Up()
	n.t.Cleanup(p.Down)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proxies[addr] = p
	return p
}

// Down ends all connections and refuses new ones.
func (p *Proxy) Down() { p.proxy.Stop() }

// Up takes connections again.
func (p *Proxy) Up() {
	p.t.Helper()
	if err := p.proxy.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// Slow lets through so many KB a second towards the client.
func (p *Proxy) Slow(kilobytes int) {
	p.t.Helper()
	p.add("bandwidth", "downstream", map[string]any{"rate": kilobytes})
}

// Delay holds all that is sent, in both directions, for a time, as a cut that TCP survives does.
func (p *Proxy) Delay(d time.Duration) {
	p.t.Helper()
	for _, stream := range []string{"upstream", "downstream"} {
		p.add("latency", stream, map[string]any{"latency": d.Milliseconds()})
	}
}

// Swallow lets nothing through in either direction and keeps connections open: the other side is silent.
func (p *Proxy) Swallow() {
	p.t.Helper()
	for _, stream := range []string{"upstream", "downstream"} {
		p.add("timeout", stream, map[string]any{"timeout": 0})
	}
}

// CutAfter ends each connection after so many bytes of what the other side sends.
func (p *Proxy) CutAfter(bytes int64) {
	p.t.Helper()
	p.add("limit_data", "downstream", map[string]any{"bytes": bytes})
}

// Reset resets each connection (RST) when the client sends something.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.add("reset_peer", "upstream", map[string]any{"timeout": 0})
}

// Heal takes all harm away.
func (p *Proxy) Heal() { p.proxy.Toxics.ResetToxics(context.Background()) }

func (p *Proxy) add(kind, stream string, attributes map[string]any) {
	p.t.Helper()
	toxic, err := json.Marshal(map[string]any{"type": kind, "stream": stream, "attributes": attributes})
	if err == nil {
		_, err = p.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic)))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
