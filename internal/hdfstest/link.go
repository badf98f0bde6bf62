package hdfstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Link is a long way between a client and a cluster: all connections together get so many bytes a second in each
// direction, and every byte takes half of the round trip. It stands in for a network between datacentres, which no proxy per
// connection does: the rate is that of the whole, and what waits for its turn does not wait for the delay, too.
type Link struct {
	delay    time.Duration // one way
	down, up lane
	stop     context.CancelFunc
	done     context.Context
	running  sync.WaitGroup

	mu       sync.Mutex
	proxies  map[string]string // by the address that is dialled
	nameNode string            // whose answers are about the link's DataNodes, if any, see far.go
	failed   error
}

// lane is one direction of a Link.
type lane struct {
	perSecond float64
	mu        sync.Mutex
	free      time.Time // when all that came before has passed
}

// What a Link holds of one connection, on its way: up to window bytes, as TCP's window does, in pieces of at most linkPiece.
const (
	linkPiece = 256 << 10
	window    = 16 << 20
)

// Link returns a link that ends with the test.
func (c *Cluster) Link(rtt time.Duration, bytesPerSecond int64) *Link {
	l := newLink(rtt, bytesPerSecond)
	c.t.Cleanup(func() { l.end(c.t) })
	return l
}

func newLink(rtt time.Duration, bytesPerSecond int64) *Link {
	l := &Link{delay: rtt / 2, proxies: map[string]string{}}
	l.down.perSecond, l.up.perSecond = float64(bytesPerSecond), float64(bytesPerSecond)
	l.done, l.stop = context.WithCancel(context.Background())
	return l
}

func (l *Link) end(t testing.TB) {
	if err := l.Close(); err != nil {
		t.Errorf("hdfstest: the link: %v", err)
	}
}

// Close ends all connections over the link. Its error is what went wrong with them before.
func (l *Link) Close() error {
	l.stop()
	l.running.Wait()
	return l.failed
}

// Dial connects over the link, as net.Dialer does.
func (l *Link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	at, err := l.proxy(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, at)
}

// proxy returns the address of the proxy before an address.
func (l *Link) proxy(addr string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.proxies[addr]; at != "" {
		return at, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(l.done, func() { listener.Close() })
	l.running.Go(func() { l.serve(listener, addr) })
	l.proxies[addr] = listener.Addr().String()
	return l.proxies[addr], nil
}

func (l *Link) serve(listener net.Listener, addr string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			l.note(err)
			return
		}
		l.running.Go(func() { l.carry(client, addr) })
	}
}

// carry connects a client with an address until either ends or the link does.
func (l *Link) carry(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return // the client sees a connection that ends
	}
	defer server.Close()
	stop := context.AfterFunc(l.done, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	answers := server
	if addr == l.nameNode {
		answers = &renaming{Conn: server, link: l}
	}
	var both sync.WaitGroup
	both.Go(func() { l.pass(server, client, &l.up) })
	both.Go(func() { l.pass(client, answers, &l.down) })
	both.Wait()
}

// parcel is what is on its way.
type parcel struct {
	data []byte
	due  time.Time
}

// pass carries what src sends to dst.
func (l *Link) pass(dst, src net.Conn, way *lane) {
	parcels := make(chan parcel, window/linkPiece)
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for p := range parcels {
			time.Sleep(time.Until(p.due))
			if _, err := dst.Write(p.data); err != nil {
				src.Close() // reading ends, and with it the parcels
			}
		}
		_ = dst.(*net.TCPConn).CloseWrite()
	})
	for data := make([]byte, linkPiece); ; {
		n, err := src.Read(data)
		if n > 0 {
			sent := way.send(time.Now(), n)
			parcels <- parcel{bytes.Clone(data[:n]), sent.Add(l.delay)}
			time.Sleep(time.Until(sent) - linkSlack)
		}
		if err != nil {
			break
		}
	}
	close(parcels)
	arriving.Wait()
}

// linkSlack is how far ahead of its turn a connection may book the next piece, as a router's queue holds some. On a busy
// machine timers are late by about as much.
const linkSlack = 20 * time.Millisecond

// linkCredit is for how long a link that nobody used may be used faster: what a late timer has missed is not lost.
const linkCredit = 10 * time.Millisecond

// send books n bytes behind all that came before, and returns when the last of them has gone.
func (w *lane) send(now time.Time, n int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if idle := now.Add(-linkCredit); w.free.Before(idle) {
		w.free = idle
	}
	w.free = w.free.Add(time.Duration(float64(n) / w.perSecond * float64(time.Second)))
	if w.free.Before(now) {
		return now
	}
	return w.free
}

func (l *Link) note(err error) {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, err)
}
