package peer

import (
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// ErrOpen: the address would be open to everybody.
var ErrOpen = errors.New("it would be open to everybody")

// stopTime is how long calls that run may take to end when a server stops.
const stopTime = 2 * time.Second

// MayServe refuses to serve other hosts without TLS, or whoever asks.
func MayServe(addr net.Addr, tls bool, keys auth.Keyring) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || tls && keys.Verifies() {
		return nil
	}
	return fmt.Errorf("%s can be reached from other hosts: that takes TLS and keys: %w", addr, ErrOpen)
}

// Stop lets the calls that run end, for a while.
func Stop(srv *grpc.Server) {
	timer := time.AfterFunc(stopTime, srv.Stop)
	defer timer.Stop()
	srv.GracefulStop()
}
