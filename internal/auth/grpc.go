package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

const (
	header = "authorization"
	scheme = "Bearer "
)

// perRPC sends a token with each call. The token is kept in a closure, as a Key's secret is.
type perRPC struct {
	header func() string
	tls    bool
}

func (p perRPC) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if p.tls {
		info, _ := credentials.RequestInfoFromContext(ctx)
		if err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity); err != nil {
			return nil, fmt.Errorf("auth.PerRPC: a token is sent over TLS only: %w", err)
		}
	}
	return map[string]string{header: p.header()}, nil
}

func (p perRPC) RequireTransportSecurity() bool { return p.tls }

// PerRPC sends the token with every call, and refuses connections without TLS.
func PerRPC(token string) credentials.PerRPCCredentials {
	return perRPC{header: func() string { return scheme + token }, tls: true}
}

// PerRPCLoopback is PerRPC that accepts connections without TLS. The caller has checked with Loopback that
// they do not leave the machine.
func PerRPCLoopback(token string) credentials.PerRPCCredentials {
	return perRPC{header: func() string { return scheme + token }}
}

// Loopback reports whether connections to a host:port address stay on this machine. Names are not looked up:
// of these, only "localhost" does.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// FromContext returns the verified claims of the gRPC call that a server is answering. Exactly one header
// "authorization: Bearer TOKEN" must be there, unless the keyring is Insecure. Errors are those of Verify.
func FromContext(ctx context.Context, keys Keyring) (Claims, error) {
	if keys.insecure {
		return anybody(), nil
	}
	values := metadata.ValueFromIncomingContext(ctx, header)
	if len(values) != 1 {
		return Claims{}, fmt.Errorf("auth.FromContext: %w: %d authorization headers: send one token (token= or STEPAHEAD_TOKEN)", ErrToken, len(values))
	}
	token, ok := cutScheme(values[0])
	if !ok {
		return Claims{}, fmt.Errorf("auth.FromContext: %w: the authorization header is not of the form: Bearer TOKEN", ErrToken)
	}
	return Verify(keys, token, time.Now())
}

// cutScheme ignores the case of "Bearer", as HTTP does.
func cutScheme(value string) (string, bool) {
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	return value[len(scheme):], true
}

// Code is the gRPC status code of an error of this package: Unauthenticated if nobody knows who asks,
// PermissionDenied if he may not, else Unknown.
func Code(err error) codes.Code {
	for _, target := range []error{ErrToken, ErrSignature, ErrExpired} {
		if errors.Is(err, target) {
			return codes.Unauthenticated
		}
	}
	for _, target := range []error{ErrRight, ErrRoot, ErrJob} {
		if errors.Is(err, target) {
			return codes.PermissionDenied
		}
	}
	return codes.Unknown
}

// anybody are the claims that an Insecure keyring gives to everybody.
func anybody() Claims {
	return Claims{Roots: []string{"/"}, Rights: rights(), anyJob: true}
}
