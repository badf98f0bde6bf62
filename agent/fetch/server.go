package fetch

import (
	"context"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// Handler answers fetches. It is called concurrently.
type Handler interface {
	// Fetch calls send once for every want, in any order, and returns. Calls of send must not overlap.
	// send returns an error when the loader is gone; the handler then returns it. The request and c
	// have been checked: the caller is who it says, and may fetch for the job.
	Fetch(ctx context.Context, c auth.Claims, req *Request, send func(want int, p Payload) error) error
}

// Register serves the Fetch service of a node on srv, which must have been made with
// [ServerOptions]. Calls that keys refuse do not reach the handler.
func Register(srv *grpc.Server, node string, h Handler, keys auth.Keyring) {}

// ServerOptions returns what a gRPC server needs to serve fetches: the codec, which treats all other
// messages as the default codec does, and keep-alive settings that agree with the client's.
func ServerOptions() []grpc.ServerOption { return nil }
