package peer

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/stepahead-io/stepahead/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSettingsAgree: a client may never ping more often than a server allows.
func TestSettingsAgree(t *testing.T) {
	if clientPing <= minPing || clientPing < 10e9 {
		t.Errorf("client pings every %s, the server allows %s and gRPC 10s", clientPing, minPing)
	}
}

func TestOneConnectionAnAddress(t *testing.T) {
	c := NewConns(Options{})
	a, err := c.Get("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Get("127.0.0.1:1"); err != nil || again != a {
		t.Errorf("a second connection: %v", err)
	}
	if other, err := c.Get("localhost:2"); err != nil || other == a {
		t.Errorf("the same connection for another address: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if _, err := c.Get("127.0.0.1:1"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPlainTextStaysHere(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:1", "example.org:1", "localhost.example.org:1", "", "127.0.0.1"} {
		for _, token := range []string{"", "secret"} {
			if _, err := NewConns(Options{Token: token}).Get(addr); !errors.Is(err, ErrInsecure) {
				t.Errorf("%q with token %q: %v", addr, token, err)
			}
		}
	}
}

// TestExtraOptions reach the connection.
func TestExtraOptions(t *testing.T) {
	reached := false
	c := NewConns(Options{Extra: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		reached = true
		return nil, errors.New("no")
	})}})
	defer c.Close()
	conn, err := c.Get("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(context.Background(), "/a/b", nil, nil); err == nil || !reached {
		t.Errorf("reached: %t, %v", reached, err)
	}
}

func TestCaller(t *testing.T) {
	if c, err := Caller(context.Background(), auth.Insecure(), auth.RightHint); err != nil || c.ForJob("any") != nil {
		t.Errorf("without keys: %v", err)
	}
	if _, err := Caller(context.Background(), auth.Insecure(), "fly"); !errors.Is(err, auth.ErrRight) {
		t.Errorf("a right that nobody has: %v", err)
	}
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer x"))
	if _, err := Caller(ctx, auth.Keyring{}, auth.RightHint); err == nil {
		t.Error("an empty keyring lets a caller in")
	}
}
