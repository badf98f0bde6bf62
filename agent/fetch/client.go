package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// ClientOptions configure a [Client]. The zero value is usable against agents on this host.
type ClientOptions struct {
	// Token is sent with every call. Default none.
	Token string
	// TLS secures the connections. Default nil: plain text, to loopback addresses only.
	TLS *tls.Config
	// MaxEntry bounds one entry, in bytes. Default 1 GiB.
	MaxEntry int64
	// Stall is how long an agent may be silent beyond the request's deadline. Default 5 s.
	Stall time.Duration
	// Dial opens a connection. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Client fetches from agents over one connection each, made when first needed and again when lost.
// It is safe for concurrent use.
type Client struct {
	conns    *peer.Conns
	maxEntry int64
	stall    time.Duration
	call     []grpc.CallOption
}

// NewClient returns a client. It connects to nothing.
func NewClient(o ClientOptions) *Client {
	c := &Client{
		conns: peer.NewConns(peer.Options{
			Token: o.Token, TLS: o.TLS, Dial: o.Dial,
			Extra: []grpc.DialOption{
				experimental.WithBufferPool(&frames{}), grpc.WithReadBufferSize(socketBuffer),
				grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
			},
		}),
		maxEntry: o.MaxEntry,
		stall:    o.Stall,
		call:     []grpc.CallOption{grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(maxChunk + maxHeader)},
	}
	if c.maxEntry <= 0 {
		c.maxEntry = 1 << 30
	}
	if c.stall <= 0 {
		c.stall = 5 * time.Second
	}
	return c
}

// Fetch asks the agent at addr for the entries of req.
//
// got is called once for a want, as soon as all its bytes have come and their CRC is right; what is
// wrong with one entry alone is its [ReasonCorrupt]. alloc and got are called by the goroutine that
// called Fetch, one at a time, until Fetch returns. nil means that every want was answered; an error
// means that the wants which got has not seen will not come, and [ReasonOf] says why. Memory that
// alloc gave for those holds no promise.
//
// A refusing address fails at once. A silent one fails [ClientOptions.Stall] after the request's
// deadline, counted from the last message, with [ErrStalled], or when ctx ends.
func (c *Client) Fetch(ctx context.Context, addr string, req *Request, alloc Alloc, got func(want int, a Answer)) error {
	if len(req.Wants) == 0 {
		return nil
	}
	m, err := encodeRequest(req, c.maxEntry)
	if err != nil {
		return err
	}
	conn, err := c.conns.Get(addr)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := req.Deadline + c.stall
	watch := time.AfterFunc(silence, func() { cancel(ErrStalled) })
	defer watch.Stop()
	stream, err := fetchpb.NewFetchClient(conn).Fetch(ctx, m, c.call...)
	if err == nil {
		quiet := func(f func() error) error {
			watch.Reset(silence)
			defer watch.Stop()
			return f()
		}
		err = receive(stream, newAssembly(req, c.maxEntry, alloc, got), quiet)
	}
	if err != nil {
		return failure(ctx, addr, err)
	}
	return nil
}

// Close closes the connections. Fetches that run fail.
func (c *Client) Close() error { return c.conns.Close() }

// receive feeds a stream to an assembly until it ends. What waits for the agent runs inside wait; what
// waits for the caller does not.
func receive(stream grpc.ClientStream, a *assembly, wait func(func() error) error) error {
	var in inbound
	next := func() error { return stream.RecvMsg(&in) }
	for {
		err := wait(next)
		if errors.Is(err, io.EOF) {
			return a.end()
		}
		if err != nil {
			return err
		}
		err = a.accept(&in)
		in.message.Free()
		if err != nil {
			return err
		}
	}
}

// failure says what happened: our own decision to give up, before what gRPC made of it.
func failure(ctx context.Context, addr string, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrProtocol) {
		return fmt.Errorf("fetch: agent %s: %w: %w", addr, cause, err)
	}
	return fmt.Errorf("fetch: agent %s: %w", addr, err)
}
