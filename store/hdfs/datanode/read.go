package datanode

import (
	"context"
	"fmt"
)

// Read fills parts, which are sorted by Off and do not overlap, with bytes of the replica that node holds. What lies
// between two parts is read too, verified and thrown away.
//
// n is how many bytes of the block from parts[0].Off on were read and verified in order, those between parts included;
// without an error that is up to the end of the last part. After an error the parts' bytes below parts[0].Off+n are
// final, and another replica may go on there; what the parts hold behind is undefined, and may be bytes that failed
// verification. The parts' memory belongs to the call until it returns, so two calls never share it.
//
// Errors are *NodeError and match one of the kinds of this package, or ctx.Err(). A read on a connection that had lain
// idle and turns out to be closed is tried once more on a fresh one. When ctx ends the connection is closed and Read
// returns at once.
func (p *Pool) Read(ctx context.Context, node Node, b Block, parts []Part) (n int64, err error) {
	const op = "Read"
	to, err := newLanding(parts)
	if err != nil {
		return 0, fmt.Errorf("datanode.%s %s: %w", op, b.Name(), err)
	}
	if to.start == to.end {
		return 0, nil
	}
	var got outcome
	err = p.with(ctx, node, b, func(c *conn) (o outcome, err error) {
		s := p.sessions.Get().(*session)
		defer p.recycle(s)
		got, err = s.read(ctx, c, p.o.ClientName, b, to)
		if s.way.table == nil {
			p.counters.unverified.Add(got.n)
		}
		return got, err
	})
	p.counters.delivered.Add(got.n)
	if err != nil {
		err = &NodeError{Node: node, Block: b.Name(), Op: op, Err: err}
	}
	return got.n, err
}

// recycle keeps a session's memory for another read, unless one large packet made it large.
func (p *Pool) recycle(s *session) {
	s.to, s.flight.pieces = landing{}, nil
	clear(s.flight.memory[:])
	if len(s.in.buf) <= bufferSize {
		p.sessions.Put(s)
	}
}

// with runs an operation on a connection to node: on one that lies idle, and once more on a fresh one if that turns out
// to be closed, which is nobody's fault.
func (p *Pool) with(ctx context.Context, node Node, b Block, run func(*conn) (outcome, error)) error {
	s, err := p.lease(ctx, node.Addr)
	if err != nil {
		return err
	}
	defer p.giveBack(s)
	if s.conn != nil {
		p.counters.reused.Add(1)
		o, err := p.attempt(ctx, s, run)
		if err == nil || o.answered || !lost(err) || ctx.Err() != nil {
			return err
		}
		p.counters.stale.Add(1)
	}
	c, err := p.connect(ctx, node, b)
	if err != nil {
		return err
	}
	if !p.settle(s, c) {
		return ErrClosed
	}
	_, err = p.attempt(ctx, s, run)
	return err
}

// settle puts a fresh connection into a slot, so that Close finds it.
func (p *Pool) settle(s *slot, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	s.conn = c
	return true
}

func (p *Pool) unsettle(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.conn = nil
}

// attempt runs an operation on the slot's connection, which it takes out of the slot and closes unless it can be used
// again. The end of ctx closes it too, and with it whatever the operation waits for.
func (p *Pool) attempt(ctx context.Context, s *slot, run func(*conn) (outcome, error)) (outcome, error) {
	c := s.conn
	c.wire = 0
	stop := context.AfterFunc(ctx, c.abort)
	o, err := run(c)
	p.counters.wire.Add(c.wire)
	if undisturbed := stop(); !undisturbed || !o.clean {
		c.abort()
		p.unsettle(s)
	}
	return o, err
}
