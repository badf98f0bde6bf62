package hints

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// ClientOptions configure a [Client]. The zero value is usable against agents on this host.
type ClientOptions struct {
	// Token is sent with every call. Default none.
	Token string
	// TLS secures the connections. Default nil: plain text, to loopback addresses only.
	TLS *tls.Config
	// Dial opens a connection. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Client announces hints to agents over one connection each, made when first needed and again when
// lost. It is safe for concurrent use.
type Client struct{ o ClientOptions }

// NewClient returns a client. It connects to nothing.
func NewClient(o ClientOptions) *Client { return &Client{o: o} }

// Announce sends a hint to the agent at addr.
func (c *Client) Announce(ctx context.Context, addr string, h Hint) (Reply, error) {
	return Reply{}, errors.ErrUnsupported
}

// Close closes the connections.
func (c *Client) Close() error { return nil }
