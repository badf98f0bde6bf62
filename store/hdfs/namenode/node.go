package namenode

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// node is one NameNode: its connection, and what it is known to lack.
type node struct {
	client *Client
	at     conf.NameNode

	mu      sync.Mutex
	live    *conn
	dialing *dialing
	lacks   map[string]time.Time // methods, and when to ask again
}

// dialing is a connection that is being opened, for all who wait for it.
type dialing struct {
	done chan struct{}
	conn *conn
	err  error
}

// connection returns the open connection, or waits for a new one. Opening goes on when ctx ends, for others.
func (n *node) connection(ctx context.Context) (*conn, error) {
	d, c, err := n.join()
	if c != nil || err != nil {
		return c, err
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the open connection, or the opening that is under way, which it starts if need be.
func (n *node) join() (*dialing, *conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil && n.live.reason() == nil {
		return nil, n.live, nil
	}
	if n.dialing == nil {
		d := &dialing{done: make(chan struct{})}
		if !n.client.start(func() { n.open(d) }) {
			return nil, nil, errClosed
		}
		n.dialing = d
	}
	return n.dialing, nil, nil
}

func (n *node) open(d *dialing) {
	d.conn, d.err = n.dial()
	n.mu.Lock()
	n.dialing = nil
	n.live = d.conn
	n.mu.Unlock()
	if d.conn != nil {
		started := n.client.start(d.conn.read) && n.client.start(d.conn.write)
		if !started {
			d.conn.fail(errClosed)
		}
	}
	close(d.done)
}

// dial opens and authenticates a connection.
func (n *node) dial() (*conn, error) {
	o := n.client.options
	ctx, cancel := context.WithTimeout(n.client.ctx, o.ConnectTimeout)
	defer cancel()
	socket, err := o.Dial(ctx, "tcp", n.at.Addr)
	if err != nil {
		return nil, err
	}
	n.client.counters.count(func(s *Stats) { s.Connections++ })
	raw := &counted{Conn: socket, client: n.client}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := n.greet(raw)
	if !stop() {
		err = fmt.Errorf("the NameNode did not finish the handshake within %v: %w", o.ConnectTimeout, ctx.Err())
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// greet says who calls. Without security that goes out with the first call: a refusal then comes as an
// answer, not as a reset.
func (n *node) greet(raw *counted) (*conn, error) {
	o := n.client.options
	r := bufio.NewReaderSize(raw, 64<<10)
	if o.Auth == nil {
		frame, err := connectionContext(n.client.id, n.client.protocol, o.User, o.RealUser)
		return newConn(raw, r, n, agreement{}, append(opening(false), frame...)), err
	}
	if _, err := raw.Write(opening(true)); err != nil {
		return nil, err
	}
	a, err := exchange{r, raw, n}.run()
	if err != nil {
		return nil, err
	}
	effective, real := o.User, o.RealUser
	switch a.method {
	case "TOKEN":
		effective, real = "", ""
	case "KERBEROS":
		effective, _ = o.Auth.ContextUser()
		real = ""
	}
	frame, err := connectionContext(n.client.id, n.client.protocol, effective, real)
	if err != nil {
		return nil, err
	}
	return newConn(raw, r, n, a, frame), nil
}

// forgetLacks is how long a NameNode is not asked again for a method that it lacks: it may be upgraded.
const forgetLacks = 10 * time.Minute

func (n *node) lacking(method string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	until, ok := n.lacks[method]
	return ok && n.client.options.Clock.Now().Before(until)
}

func (n *node) setLacking(method string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lacks[method] = n.client.options.Clock.Now().Add(forgetLacks)
}

func (n *node) close() {
	n.mu.Lock()
	c := n.live
	n.mu.Unlock()
	if c != nil {
		c.fail(errClosed)
	}
}
