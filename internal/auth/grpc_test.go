package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func incoming(values ...string) context.Context {
	md := metadata.MD{}
	md.Append("authorization", values...)
	return metadata.NewIncomingContext(context.Background(), md)
}

func liveToken(t testing.TB, key auth.Key) string {
	t.Helper()
	c := claims()
	c.Expires = time.Now().Add(time.Hour)
	token, err := auth.Mint(key, c)
	must(t, err)
	return token
}

func TestFromContext(t *testing.T) {
	key := newKey(t, "k1", counting())
	keys, token := ring(t, key), liveToken(t, key)
	for name, c := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"good":        {incoming("Bearer " + token), nil},
		"lower case":  {incoming("bearer " + token), nil},
		"no metadata": {context.Background(), auth.ErrToken},
		"no header":   {incoming(), auth.ErrToken},
		"two headers": {incoming("Bearer "+token, "Bearer "+token), auth.ErrToken},
		"no scheme":   {incoming(token), auth.ErrToken},
		"basic":       {incoming("Basic " + token), auth.ErrToken},
		"two spaces":  {incoming("Bearer  " + token), auth.ErrToken},
		"empty":       {incoming(""), auth.ErrToken},
		"only scheme": {incoming("Bearer "), auth.ErrToken},
	} {
		got, err := auth.FromContext(c.ctx, keys)
		if !errors.Is(err, c.want) || err == nil && got.Job != "resnet-7" {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the token shows in %v", name, err)
		}
		if c.want != nil && auth.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: code %s", name, auth.Code(err))
		}
	}
	if _, err := auth.FromContext(context.Background(), auth.Keyring{}); !errors.Is(err, auth.ErrToken) {
		t.Errorf("the zero keyring: %v", err)
	}
	if c, err := auth.FromContext(context.Background(), auth.Insecure()); err != nil || c.Allows(auth.RightFetch, "/") != nil {
		t.Errorf("the insecure keyring: %v", err)
	}
}

func TestCode(t *testing.T) {
	for err, want := range map[error]codes.Code{
		auth.ErrToken: codes.Unauthenticated, auth.ErrSignature: codes.Unauthenticated, auth.ErrExpired: codes.Unauthenticated,
		auth.ErrRight: codes.PermissionDenied, auth.ErrRoot: codes.PermissionDenied, auth.ErrJob: codes.PermissionDenied, errors.New("x"): codes.Unknown,
	} {
		if got := auth.Code(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:0": true, "127.8.9.1:80": true, "[::1]:80": true, "localhost:80": true, "LocalHost:80": true, "[::ffff:127.0.0.1]:80": true,
		"0.0.0.0:80": false, "[::]:80": false, ":80": false, "10.0.0.1:80": false, "128.0.0.1:80": false, "localhost.evil.org:80": false,
		"127.0.0.1.evil.org:80": false, "example.org:80": false, "127.0.0.1": false, "": false, "2130706433:80": false, "0177.0.0.1:80": false,
	} {
		if got := auth.Loopback(addr); got != want {
			t.Errorf("%q: %v, want %v", addr, got, want)
		}
	}
}

// guarded is a server whose calls need a token.
type guarded struct {
	grpc_health_v1.UnimplementedHealthServer
	keys auth.Keyring
}

func (g guarded) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	c, err := auth.FromContext(ctx, g.keys)
	if err != nil {
		return nil, status.Error(auth.Code(err), err.Error())
	}
	if err := c.ForJob("resnet-7"); err != nil {
		return nil, status.Error(auth.Code(err), err.Error())
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

// call makes one call over a connection in memory, with TLS or without.
func call(t *testing.T, keys auth.Keyring, overTLS bool, creds credentials.PerRPCCredentials) error {
	t.Helper()
	server, client := insecure.NewCredentials(), insecure.NewCredentials()
	if overTLS {
		server, client = tlsPair(t)
	}
	srv := grpc.NewServer(grpc.Creds(server))
	grpc_health_v1.RegisterHealthServer(srv, guarded{keys: keys})
	listener := bufconn.Listen(1 << 16)
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(listener) }()
	defer func() { srv.Stop(); <-done }()
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(client),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}
	if creds != nil {
		options = append(options, grpc.WithPerRPCCredentials(creds))
	}
	conn, err := grpc.NewClient("passthrough:agent", options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func tlsPair(t *testing.T) (server, client credentials.TransportCredentials) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"agent"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server = credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	return server, credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "agent"})
}

func TestCalls(t *testing.T) {
	key := newKey(t, "k1", counting())
	keys, token := ring(t, key), liveToken(t, key)
	forged := liveToken(t, newKey(t, "k1", make([]byte, 32)))
	for name, c := range map[string]struct {
		tls   bool
		creds credentials.PerRPCCredentials
		want  codes.Code
	}{
		"TLS":                  {true, auth.PerRPC(token), codes.OK},
		"loopback":             {false, auth.PerRPCLoopback(token), codes.OK},
		"loopback's over TLS":  {true, auth.PerRPCLoopback(token), codes.OK},
		"no token":             {false, nil, codes.Unauthenticated},
		"forged":               {true, auth.PerRPC(forged), codes.Unauthenticated},
		"the token without it": {false, auth.PerRPC(token), codes.Unknown}, // refused by the client: checked below
	} {
		err := call(t, keys, c.tls, c.creds)
		if c.want == codes.Unknown {
			if err == nil || strings.Contains(err.Error(), token) {
				t.Errorf("%s: a token was sent in the clear: %v", name, err)
			}
			continue
		}
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
