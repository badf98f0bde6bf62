package hints

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/hints/hintspb"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// Handler takes hints. It is called concurrently.
type Handler interface {
	// Announce takes a hint that has been validated and whose sender may speak for the job. The
	// handler checks that the token's roots allow the paths in it. An error is a failure of the
	// agent; a hint that it does not want is a [Reply].
	Announce(ctx context.Context, h Hint, c auth.Claims) (Reply, error)
}

// Serve serves the Hints service on srv. Calls that keys refuse, hints that are not valid and forms
// that are not supported do not reach the handler.
func Serve(srv grpc.ServiceRegistrar, h Handler, keys auth.Keyring) {
	hintspb.RegisterHintsServer(srv, &server{handler: h, keys: keys})
}

type server struct {
	hintspb.UnimplementedHintsServer
	handler Handler
	keys    auth.Keyring
}

// Announce implements the generated service.
func (s *server) Announce(ctx context.Context, m *hintspb.Hint) (*hintspb.Reply, error) {
	claims, err := peer.Caller(ctx, s.keys, auth.RightHint)
	if err != nil {
		return nil, statusOf(err)
	}
	reply, err := s.take(ctx, m, claims)
	if err != nil {
		return nil, statusOf(err)
	}
	return &hintspb.Reply{Accepted: reply.Accepted, Reason: string(reply.Reason), Detail: reply.Detail}, nil
}

func (s *server) take(ctx context.Context, m *hintspb.Hint, claims auth.Claims) (Reply, error) {
	if m.Version < 1 || m.Version > ProtocolVersion {
		return Refuse(ReasonVersion, fmt.Sprintf("the hint has version %d, this agent speaks 1 to %d", m.Version, ProtocolVersion)), nil
	}
	h, err := decode(m)
	if err != nil {
		return Reply{}, err
	}
	if err := claims.ForJob(h.Job); err != nil {
		return Refuse(ReasonDenied, err.Error()), nil
	}
	return s.handler.Announce(ctx, h, claims)
}
