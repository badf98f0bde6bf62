package hints

import (
	"context"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// Handler takes hints. It is called concurrently.
type Handler interface {
	// Announce takes a hint that has been validated and whose sender may give hints for the job. The
	// handler checks that the token's roots allow the paths in it. An error is a failure of the
	// agent; a hint that it does not want is a [Reply].
	Announce(ctx context.Context, h Hint, c auth.Claims) (Reply, error)
}

// Serve serves the Hints service on srv. Calls that keys refuse, hints that are not valid and forms
// that are not supported do not reach the handler.
func Serve(srv *grpc.Server, h Handler, keys auth.Keyring) {}
