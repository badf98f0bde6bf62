package hdfs

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// dialer opens connections.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// wires are the connections of one stream. The HDFS client that uses them knows neither contexts nor time limits, so they
// do: each read and write has a deadline, and all end with the stream.
type wires struct {
	ctx  context.Context // the stream's
	dial dialer

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
	err   error // why the first connection to a DataNode failed
}

// errEnded: the stream was given up.
var errEnded = errors.New("the stream has ended")

func newWires(ctx context.Context, dial dialer) *wires {
	return &wires{ctx: ctx, dial: dial, open: map[net.Conn]struct{}{}}
}

// end closes all connections, and those that are still opened.
func (w *wires) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

// failure is why a connection to a DataNode failed, or nil.
func (w *wires) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// dialer returns how connections are opened whose reads and writes may take patience each. Those to DataNodes are quiet.
func (w *wires) dialer(patience time.Duration, quiet bool) dialer {
	return func(_ context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(w.ctx, min(patience, 20*time.Second))
		defer cancel()
		c, err := w.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ended {
			c.Close()
			return nil, errEnded
		}
		w.open[c] = struct{}{}
		return &boundConn{Conn: c, wires: w, patience: patience, quiet: quiet}, nil
	}
}

// boundConn is one connection.
//
// A quiet one swallows what it can no longer send. The client's block writer frees its goroutines only after writes that
// succeed, and learns of failures from answers, not from writes: so writes succeed, reads fail, and failure tells.
type boundConn struct {
	net.Conn
	wires    *wires
	patience time.Duration
	quiet    bool
}

func (c *boundConn) Read(p []byte) (int, error) {
	c.Conn.SetReadDeadline(time.Now().Add(c.patience))
	n, err := c.Conn.Read(p)
	if err != nil {
		c.broke(err)
	}
	return n, err
}

func (c *boundConn) Write(p []byte) (int, error) {
	c.Conn.SetWriteDeadline(time.Now().Add(c.patience))
	n, err := c.Conn.Write(p)
	if err != nil {
		c.broke(err)
		if c.quiet {
			return len(p), nil
		}
	}
	return n, err
}

// broke notes an error and ends the connection, so that nobody waits at its other half.
func (c *boundConn) broke(err error) {
	c.Conn.Close()
	c.wires.mu.Lock()
	defer c.wires.mu.Unlock()
	if c.quiet && c.wires.err == nil {
		c.wires.err = err
	}
}

func (c *boundConn) Close() error {
	c.wires.mu.Lock()
	delete(c.wires.open, c.Conn)
	c.wires.mu.Unlock()
	return c.Conn.Close()
}

// The client's deadlines are none: each read and write has its own.
func (c *boundConn) SetDeadline(time.Time) error      { return nil }
func (c *boundConn) SetReadDeadline(time.Time) error  { return nil }
func (c *boundConn) SetWriteDeadline(time.Time) error { return nil }
