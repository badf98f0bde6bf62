package namenode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

var (
	errIdle     = errors.New("connection closed because nobody used it")
	errGone     = errors.New("connection is closed")
	errNoAnswer = errors.New("no answer in time")
)

// conn is one connection to a NameNode, shared by all calls. One goroutine writes, one reads; they end when
// the connection fails, is idle for long, or the client is closed.
type conn struct {
	raw     *counted
	n       *node
	in      *bufio.Reader  // frames, unprotected
	mech    sasl.Mechanism // protects what is written; nil: nothing does
	opening []byte         // goes out with the first call, in one piece
	out     chan *request
	done    chan struct{} // closed once err is set

	mu      sync.Mutex
	pending map[int32]*request
	err     error
	used    time.Time // when a call last began or ended
	served  bool      // an answer came
}

// request is one attempt at a call.
type request struct {
	id     int32
	frame  []byte
	answer chan answer // of one
}

// answer is what came back: a successful message, or a *RemoteError.
type answer struct {
	message []byte
	err     error
}

// register makes room for a request's answer. It fails when the connection is closed.
func (c *conn) register(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return errGone
	}
	c.pending[r.id] = r
	c.used = c.n.client.options.Clock.Now()
	return nil
}

func (c *conn) forget(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[r.id] == r {
		delete(c.pending, r.id)
	}
	c.used = c.n.client.options.Clock.Now()
}

// roundTrip sends a request and waits for its answer, for at most timeout, and for at most grace after ctx has ended. sent says that the NameNode may
// have it. A context that ends leaves the connection usable: the late answer is thrown away.
func (c *conn) roundTrip(ctx context.Context, r *request, timeout, grace time.Duration) (message []byte, sent bool, err error) {
	if err := c.register(r); err != nil {
		return nil, false, err
	}
	defer c.forget(r)
	clock := c.n.client.options.Clock
	start := clock.Now()
	late := clock.After(timeout)
	select {
	case c.out <- r:
	case <-c.done:
		return nil, false, errGone
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-late:
		c.fail(errNoAnswer)
		return nil, false, errNoAnswer
	}
	select {
	case a := <-r.answer:
		return a.message, true, a.err
	case <-ctx.Done():
		return c.afterEnd(ctx, r, grace)
	case <-late:
		c.failIfSilentSince(start)
		return nil, true, errNoAnswer
	case <-c.done:
	}
	select {
	case a := <-r.answer: // it came just before the end
		return a.message, true, a.err
	default:
		return nil, true, c.reason()
	}
}

// afterEnd waits for the answer to a request whose context has ended.
func (c *conn) afterEnd(ctx context.Context, r *request, grace time.Duration) (message []byte, sent bool, err error) {
	if grace > 0 {
		select {
		case a := <-r.answer:
			return a.message, true, a.err
		case <-c.n.client.options.Clock.After(grace):
		case <-c.done:
		}
	}
	return nil, true, ctx.Err()
}

// failIfSilentSince gives up a connection on which nothing has come since then: its peer is gone or hangs.
// Otherwise only one call is slow.
func (c *conn) failIfSilentSince(start time.Time) {
	if !c.raw.heard().After(start) {
		c.fail(errNoAnswer)
	}
}

func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// stale reports whether the connection had served before it failed.
func (c *conn) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served
}

// fail ends the connection, once.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	c.raw.Close()
}

// failIfIdle closes a connection that no call has used for d.
func (c *conn) failIfIdle(now time.Time, d time.Duration) bool {
	c.mu.Lock()
	idle := len(c.pending) == 0 && now.Sub(c.used) >= d
	if idle && c.err == nil {
		c.err = errIdle
		close(c.done)
		c.raw.Close()
	}
	c.mu.Unlock()
	return idle
}

// wantsPing reports whether calls wait and nothing has come for d.
func (c *conn) wantsPing(now time.Time, d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > 0 && now.Sub(c.raw.heard()) >= d
}

// maxBatch bounds what is written in one piece, in bytes, when many calls wait.
const maxBatch = 64 << 10

// write sends what calls hand over, until the connection ends.
func (c *conn) write() {
	o := c.n.client.options
	period := min(o.IdleTimeout, o.PingInterval) / 2
	tick := o.Clock.After(period)
	for {
		select {
		case r := <-c.out:
			if err := c.send(c.batch(r)); err != nil {
				c.fail(err)
			}
		case <-tick:
			if c.failIfIdle(o.Clock.Now(), o.IdleTimeout) {
				return
			}
			if err := c.ping(o.Clock.Now(), o.PingInterval); err != nil {
				c.fail(err)
			}
			tick = o.Clock.After(period)
		case <-c.done:
			return
		}
	}
}

// batch collects the frames of r and of what else waits.
func (c *conn) batch(r *request) []byte {
	buf := append(c.opening, r.frame...)
	c.opening = nil
	for len(buf) < maxBatch {
		select {
		case r := <-c.out:
			buf = append(buf, r.frame...)
		default:
			return buf
		}
	}
	return buf
}

func (c *conn) ping(now time.Time, silence time.Duration) error {
	if c.opening != nil || !c.wantsPing(now, silence) {
		return nil // nothing may come before the opening
	}
	frame, err := appendFrame(nil, header(callPing, c.n.client.id))
	if err != nil {
		return err
	}
	return c.send(frame)
}

func (c *conn) send(plain []byte) error {
	if c.mech != nil {
		var err error
		if plain, err = wrap(c.mech, plain); err != nil {
			return err
		}
	}
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.n.client.options.ConnectTimeout)); err != nil {
		return err
	}
	_, err := c.raw.Write(plain)
	return err
}

// read hands answers to the calls that wait for them, until the connection ends.
func (c *conn) read() {
	for {
		frame, err := readFrame(c.in, c.n.client.options.MaxAnswer)
		if err == nil {
			err = c.deliver(frame)
		}
		var large tooLarge
		switch {
		case errors.As(err, &large):
			err = c.refuse(large)
		case err == io.EOF:
			err = fmt.Errorf("the NameNode closed the connection: %w", io.EOF)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// refuse gives the error to the call whose answer is too large, if its header can be read; the other calls only
// lose the connection.
func (c *conn) refuse(large tooLarge) error {
	c.raw.SetReadDeadline(time.Now().Add(time.Second)) // the connection ends anyway
	start, _ := c.in.Peek(1 << 10)                     // more than any header of a success
	var head hproto.RpcResponseHeader
	if _, err := takeMessage(start, &head); err != nil {
		return large
	}
	r := c.take(int32(head.GetCallId()))
	if r == nil {
		return large
	}
	r.answer <- answer{err: large}
	return fmt.Errorf("the connection was closed because of another call: %w", io.EOF)
}

// deliver gives an answer to its call. An error is fatal for the connection.
func (c *conn) deliver(frame []byte) error {
	var head hproto.RpcResponseHeader
	rest, err := takeMessage(frame, &head)
	if err != nil {
		return err
	}
	c.n.client.saw(&head)
	a, fatal := c.answer(&head, rest)
	r := c.take(int32(head.GetCallId()))
	if r != nil {
		r.answer <- a
	}
	switch {
	case fatal && r != nil:
		return fmt.Errorf("the connection was closed because of another call: %w", io.EOF)
	case fatal:
		return a.err
	}
	return nil
}

// answer takes an answer apart; fatal means that the connection is of no more use.
func (c *conn) answer(head *hproto.RpcResponseHeader, rest []byte) (a answer, fatal bool) {
	if head.GetStatus() != hproto.RpcResponseHeader_SUCCESS {
		e := newRemoteError(head, c.n.at.Addr, "")
		return answer{err: e}, head.GetStatus() == hproto.RpcResponseHeader_FATAL
	}
	message, rest, err := cut(rest)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes after an answer", errProtocol, len(rest))
	}
	if err != nil {
		return answer{err: err}, true
	}
	return answer{message: message}, false
}

func (c *conn) take(id int32) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = true
	r := c.pending[id]
	delete(c.pending, id)
	return r
}

// counted counts the bytes of a connection, and knows when some last came.
type counted struct {
	net.Conn
	client *Client
	last   atomic.Int64 // Unix nanoseconds of the client's clock
}

func (c *counted) heard() time.Time { return time.Unix(0, c.last.Load()) }

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.last.Store(c.client.options.Clock.Now().UnixNano())
	c.client.counters.count(func(s *Stats) { s.BytesReceived += int64(n) })
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.client.counters.count(func(s *Stats) { s.BytesSent += int64(n) })
	return n, err
}

// newConn makes a connection of what was opened and agreed. Nothing runs yet.
func newConn(raw *counted, r *bufio.Reader, n *node, a agreement, opening []byte) *conn {
	now := n.client.options.Clock.Now()
	raw.last.CompareAndSwap(0, now.UnixNano())
	c := &conn{
		raw: raw, n: n, in: r, opening: opening, out: make(chan *request), done: make(chan struct{}),
		pending: map[int32]*request{}, used: now,
	}
	if a.wrapped() {
		c.mech = a.mech
		limit := n.client.options.MaxAnswer + maxSaslMessage // protection adds some bytes
		c.in = bufio.NewReader(&unwrapper{r: r, n: n, mech: a.mech, limit: limit})
	}
	return c
}
