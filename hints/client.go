package hints

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/hints/hintspb"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
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
type Client struct{ conns *peer.Conns }

// NewClient returns a client. It connects to nothing.
func NewClient(o ClientOptions) *Client {
	return &Client{conns: peer.NewConns(peer.Options{Token: o.Token, TLS: o.TLS, Dial: o.Dial})}
}

// Announce sends a hint to the agent at addr and returns its reply. A refusing address fails at once, a
// silent one when ctx ends. Errors match [ErrInvalid], [ErrDenied], [ErrUnreachable] or the context's;
// an agent that does not know the service or the message gives a reply with [ReasonVersion]. Sending
// the same hint again is harmless.
func (c *Client) Announce(ctx context.Context, addr string, h Hint) (Reply, error) {
	if err := h.Validate(); err != nil {
		return Reply{}, err
	}
	m := encode(h)
	if size := proto.Size(m); size > MaxMessage {
		return Reply{}, fmt.Errorf("hints.Announce: %w: %d bytes, at most %d", ErrInvalid, size, MaxMessage)
	}
	conn, err := c.conns.Get(addr)
	if err != nil {
		return Reply{}, fmt.Errorf("hints.Announce: %w", err)
	}
	r, err := hintspb.NewHintsClient(conn).Announce(ctx, m)
	if status.Code(err) == codes.Unimplemented {
		return Refuse(ReasonVersion, err.Error()), nil
	}
	if err != nil {
		return Reply{}, fmt.Errorf("hints.Announce: agent %s: %w", addr, errors.Join(classOf(err), err))
	}
	return replyOf(r), nil
}

// Close closes the connections. Announcements that run fail.
func (c *Client) Close() error { return c.conns.Close() }

// replyOf makes a reply consistent, whatever the agent sent: a reason refuses.
func replyOf(m *hintspb.Reply) Reply {
	r := Reply{Accepted: m.Accepted && m.Reason == "", Reason: Reason(m.Reason), Detail: m.Detail}
	if !r.Accepted && !r.Reason.known() {
		r.Reason = ReasonVersion
	}
	return r
}
