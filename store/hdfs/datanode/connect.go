package datanode

import (
	"context"
	"errors"
	"fmt"
)

// connect makes a connection and agrees with the node how it is protected. A data encryption key that the node does not
// know is replaced once: the node may have restarted, or the key grown old.
func (p *Pool) connect(ctx context.Context, node Node, b Block) (*conn, error) {
	want, err := p.protection(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtection, err)
	}
	c, err := p.dial(ctx, node, b, want)
	if !errors.Is(err, ErrKey) {
		return c, err
	}
	p.o.Security.KeyRefused(want.Key)
	if want, err = p.protection(ctx, node); err != nil {
		return nil, fmt.Errorf("%w: another data encryption key: %w", ErrProtection, err)
	}
	return p.dial(ctx, node, b, want)
}

// dial connects and shakes hands within the time for both.
func (p *Pool) dial(ctx context.Context, node Node, b Block, want Protection) (c *conn, err error) {
	within, cancel := context.WithTimeout(ctx, p.o.ConnectTimeout)
	defer cancel()
	raw, err := p.o.Dial(within, "tcp", node.Addr)
	if err != nil {
		return nil, p.unconnected(ctx, within, err)
	}
	p.counters.opened.Add(1)
	c = newConn(raw, p.o.Stall)
	if want.Mode == None {
		return c, nil
	}
	stop := context.AfterFunc(within, c.abort)
	err = shake(within, c, want, b)
	p.counters.wire.Add(c.wire)
	if !stop() && err == nil {
		err = within.Err()
	}
	if err != nil {
		c.abort()
		return nil, p.unconnected(ctx, within, err)
	}
	return c, nil
}

// unconnected is the error of a dial that failed: the caller's context, our own limit, or what happened.
func (p *Pool) unconnected(ctx, within context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("connecting: %w", ctx.Err())
	case within.Err() != nil:
		return fmt.Errorf("%w: not connected after %v", ErrConnect, p.o.ConnectTimeout)
	case errors.Is(err, ErrKey), errors.Is(err, ErrToken), errors.Is(err, ErrConnect), errors.Is(err, ErrProtocol), errors.Is(err, ErrProtection):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrConnect, err)
	}
}
