// Package peer knows how loader and agent keep a connection: one for each address, with the token where
// it is safe, keep-alive settings that agree on both sides, and who the caller is.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// Why no connection is made.
var (
	ErrInsecure = errors.New("plain text leaves this host")
	ErrClosed   = errors.New("connections are closed")
)

// The keep-alive of both sides. A server sends a client away that pings more often than minPing, so
// clientPing must stay above it; gRPC itself raises a client's interval to 10 s.
const (
	clientPing  = 15 * time.Second
	serverPing  = 30 * time.Second
	minPing     = 5 * time.Second
	pingTimeout = 5 * time.Second
)

const (
	// connectTimeout bounds one attempt. gRPC's default of 20 s is longer than a step may wait.
	connectTimeout = 2 * time.Second
	// idleTimeout closes a connection that nothing uses, so that the addresses of agents that are gone
	// for good are not dialled for ever.
	idleTimeout = 5 * time.Minute
	// maxStreams bounds the calls that one connection has running; a client waits with the others.
	maxStreams = 1024
)

// reconnect is quick because a restarted agent is worth having back, and a fetch in between fails at
// once anyway.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// Options configure [Conns]. The zero value dials loopback addresses in plain text without a token.
type Options struct {
	// Token is sent with every call.
	Token string
	// TLS secures the connections. Nil: plain text, to loopback addresses only.
	TLS *tls.Config
	// Dial opens a connection. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Extra is added to the options of every connection.
	Extra []grpc.DialOption
}

// Conns holds one connection for each address. It is safe for concurrent use.
type Conns struct {
	o      Options
	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

// NewConns returns no connections.
func NewConns(o Options) *Conns {
	return &Conns{o: o, conns: make(map[string]*grpc.ClientConn)}
}

// Get returns the connection to a host:port address. It does not wait for it: calls on it fail at once
// while the address refuses, and connect again by themselves.
func (c *Conns) Get(addr string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("peer.Get %s: %w", addr, ErrClosed)
	}
	if conn, ok := c.conns[addr]; ok {
		return conn, nil
	}
	opts, err := c.dialOptions(addr)
	if err != nil {
		return nil, err
	}
	// passthrough: an address is dialled as it stands, no resolver and no proxy in between.
	conn, err := grpc.NewClient("passthrough:///"+addr, opts...)
	if err != nil {
		return nil, fmt.Errorf("peer.Get %s: %w", addr, err)
	}
	c.conns[addr] = conn
	return conn, nil
}

// Close closes every connection; calls that run on them fail. A second Close does nothing.
func (c *Conns) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	c.conns, c.closed = nil, true
	return errors.Join(errs...)
}

func (c *Conns) dialOptions(addr string) ([]grpc.DialOption, error) {
	opts := []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: clientPing, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithIdleTimeout(idleTimeout),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
	}
	if c.o.Dial != nil {
		opts = append(opts, grpc.WithContextDialer(c.o.Dial))
	}
	secure, err := c.security(addr)
	return slices.Concat(opts, c.o.Extra, secure), err
}

// security keeps tokens and tensors from crossing a network in the clear.
func (c *Conns) security(addr string) ([]grpc.DialOption, error) {
	var opts []grpc.DialOption
	var token credentials.PerRPCCredentials
	switch {
	case c.o.TLS != nil:
		opts = append(opts, grpc.WithTransportCredentials(credentials.NewTLS(c.o.TLS)))
		token = auth.PerRPC(c.o.Token)
	case auth.Loopback(addr):
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
		token = auth.PerRPCLoopback(c.o.Token)
	default:
		return nil, fmt.Errorf("peer.Get %s: not a loopback address, and no TLS: %w: give the authority of the agents' certificates (ca=, STEPAHEAD_CA), or use an agent on this host", addr, ErrInsecure)
	}
	if c.o.Token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(token))
	}
	return opts, nil
}

// ServerOptions returns the server's half of the keep-alive, by which clients that vanish without a word are
// noticed and their goroutines end, and bounds on what one connection may ask for.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPing, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.MaxConcurrentStreams(maxStreams),
	}
}

// Caller returns the claims of the gRPC call that a server is answering, which carry the right. Errors are
// those of package auth.
func Caller(ctx context.Context, keys auth.Keyring, right string) (auth.Claims, error) {
	claims, err := auth.FromContext(ctx, keys)
	if err != nil {
		return auth.Claims{}, err
	}
	if !slices.Contains(claims.Rights, right) {
		return auth.Claims{}, fmt.Errorf("peer.Caller: %w: %s is needed: mint one with --rights %s", auth.ErrRight, right, right)
	}
	return claims, nil
}
