package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
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
type Client struct{ o ClientOptions }

// NewClient returns a client. It connects to nothing.
func NewClient(o ClientOptions) *Client { return &Client{o: o} }

// Fetch asks the agent at addr.
func (c *Client) Fetch(ctx context.Context, addr string, req *Request, alloc Alloc, got func(want int, a Answer)) error {
	return errors.ErrUnsupported
}

// Close closes the connections.
func (c *Client) Close() error { return nil }

// ReasonOf returns the reason that an error of [Client.Fetch] gives to the wants it left unanswered.
func ReasonOf(err error) Reason { return ReasonUnreachable }
