package datanode

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Options configure a Pool. The zero value is usable.
type Options struct {
	// Dial makes connections. What has a socket (syscall.Conn) is read through it, not by its method Read. Default: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ClientName is how DataNodes' logs call this client. Default "stepahead".
	ClientName string
	// Security says how connections are protected. Nil: not at all.
	Security Security
	// IdleFor is how long an unused connection is kept. DataNodes close theirs after 4 s. Default 3 s.
	IdleFor time.Duration
	// ConnectTimeout bounds dialling and the handshake together. Default 10 s.
	ConnectTimeout time.Duration
	// Stall is how long a DataNode may send nothing while bytes are due; the read then ends within 9/8 of it. Default 30 s.
	Stall time.Duration
	// MaxConns bounds the connections to one DataNode, used and idle. A read waits for one. Default 8. Pipelines are not
	// counted, nor do they wait: each has a connection for as long as its writer takes over a block, and who writes may be
	// waiting for what is to be read over another.
	MaxConns int
	// MaxTotal bounds the connections to all DataNodes. Default 256.
	MaxTotal int
	// Now tells the age of idle connections. Default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.ClientName == "" {
		o.ClientName = "stepahead"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.IdleFor, 3*time.Second)
	set(&o.ConnectTimeout, 10*time.Second)
	set(&o.Stall, 30*time.Second)
	if o.MaxConns <= 0 {
		o.MaxConns = 8
	}
	if o.MaxTotal <= 0 {
		o.MaxTotal = 256
	}
	return o
}

// Pool reads from DataNodes and keeps connections to them. It is safe for concurrent use.
type Pool struct {
	o        Options
	sessions sync.Pool // of *session
	counters counters

	mu      sync.Mutex
	nodes   map[string]*place // by address
	total   int               // connections to all, used and idle
	waiting []*waiter         // for a connection, first come first served
	busy    map[*slot]struct{}
	// pipelines is how many of busy are pipelines, which total leaves out.
	pipelines int
	sweeper   *time.Timer // nil: nothing is idle
	closed    bool
}

// place is what a Pool knows of the connections to one DataNode.
type place struct {
	open int     // used and idle
	idle []*conn // longest unused first
}

// slot is the right to one connection, and the connection if there is one.
type slot struct {
	addr string
	conn *conn
}

// waiter waits for a slot. Its channel holds one; it is closed if the pool is.
type waiter struct {
	addr  string
	grant chan *slot
}

// NewPool returns a Pool. It starts nothing.
func NewPool(o Options) *Pool {
	p := &Pool{o: o.withDefaults(), nodes: map[string]*place{}, busy: map[*slot]struct{}{}}
	p.sessions.New = func() any { return new(session) }
	return p
}

// Close closes all connections: reads in flight fail, later ones with ErrClosed.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	for _, w := range p.waiting {
		close(w.grant)
	}
	p.waiting = nil
	for _, at := range p.nodes {
		for _, c := range at.idle {
			c.Close()
		}
	}
	clear(p.nodes)
	for s := range p.busy {
		if s.conn != nil {
			s.conn.Close()
		}
	}
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	return nil
}

// lease waits for the right to a connection to addr.
func (p *Pool) lease(ctx context.Context, addr string) (*slot, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if s := p.grant(addr); s != nil {
		p.mu.Unlock()
		return s, nil
	}
	w := &waiter{addr, make(chan *slot, 1)}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case s, ok := <-w.grant:
		if !ok {
			return nil, ErrClosed
		}
		return s, nil
	case <-ctx.Done():
		p.leave(w)
		return nil, fmt.Errorf("waiting for a connection: %w", ctx.Err())
	}
}

// leave ends the waiting of w, and passes on what it was given just then.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	for i, x := range p.waiting {
		if x == w {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	select {
	case s, ok := <-w.grant:
		if ok {
			p.giveBack(s)
		}
	default:
	}
}

// grant returns a slot if one is free now. p.mu is held.
func (p *Pool) grant(addr string) *slot {
	at := p.nodes[addr]
	if at == nil {
		at = new(place)
		p.nodes[addr] = at
	}
	s := &slot{addr: addr}
	for len(at.idle) > 0 && s.conn == nil {
		last := len(at.idle) - 1
		c := at.idle[last]
		at.idle = at.idle[:last]
		if p.o.Now().Sub(c.idle) < p.o.IdleFor {
			s.conn = c
			continue
		}
		p.drop(at, c)
	}
	if s.conn == nil {
		if at.open >= p.o.MaxConns || p.total >= p.o.MaxTotal && !p.dropOldest() {
			return nil
		}
		at.open++
		p.total++
	}
	p.busy[s] = struct{}{}
	return s
}

// drop closes a connection that lay idle. p.mu is held.
func (p *Pool) drop(at *place, c *conn) {
	c.Close()
	at.open--
	p.total--
}

// dropOldest closes the connection that has been idle for longest, anywhere. p.mu is held.
func (p *Pool) dropOldest() bool {
	var oldest *place
	for _, at := range p.nodes {
		if len(at.idle) > 0 && (oldest == nil || at.idle[0].idle.Before(oldest.idle[0].idle)) {
			oldest = at
		}
	}
	if oldest == nil {
		return false
	}
	p.drop(oldest, oldest.idle[0])
	oldest.idle = oldest.idle[1:]
	return true
}

// giveBack ends a slot. Its connection, if it has one, must be ready for another request.
func (p *Pool) giveBack(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, s)
	if p.closed {
		if s.conn != nil {
			s.conn.Close()
		}
		return
	}
	at := p.nodes[s.addr]
	if s.conn == nil {
		at.open--
		p.total--
	} else {
		s.conn.idle, s.conn.reused = p.o.Now(), true
		at.idle = append(at.idle, s.conn)
	}
	p.serve()
	if at.open == 0 {
		delete(p.nodes, s.addr)
	}
	p.watch()
}

// serve gives slots to those who wait, as far as there are any. p.mu is held.
func (p *Pool) serve() {
	left := p.waiting[:0]
	for _, w := range p.waiting {
		if s := p.grant(w.addr); s != nil {
			w.grant <- s
		} else {
			left = append(left, w)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
}

// watch has the sweeper come when there is something idle. p.mu is held.
func (p *Pool) watch() {
	if p.sweeper != nil {
		return
	}
	for _, at := range p.nodes {
		if len(at.idle) > 0 {
			p.sweeper = time.AfterFunc(p.o.IdleFor, p.sweep)
			return
		}
	}
}

// sweep closes what has been idle for too long.
func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeper = nil
	if p.closed {
		return
	}
	now := p.o.Now()
	for addr, at := range p.nodes {
		for len(at.idle) > 0 && now.Sub(at.idle[0].idle) >= p.o.IdleFor {
			p.drop(at, at.idle[0])
			at.idle = at.idle[1:]
		}
		if at.open == 0 {
			delete(p.nodes, addr)
		}
	}
	p.watch()
}
