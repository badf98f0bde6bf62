package hints

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// What an announcement fails with. A hint that was not wanted is a [Reply] instead.
var (
	// ErrDenied is an agent that refuses the token.
	ErrDenied = errors.New("agent refuses the token")
	// ErrUnreachable is an agent that cannot be reached, or was lost before it answered.
	ErrUnreachable = errors.New("agent is unreachable")
)

// statusOf is how the server's errors cross the wire.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := auth.Code(err)
	switch {
	case errors.Is(err, ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}

// classOf is what the client makes of a status; nil if it has no class of its own.
func classOf(err error) error {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return ErrDenied
	case codes.Unavailable:
		return ErrUnreachable
	case codes.InvalidArgument:
		return ErrInvalid
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	}
	return nil
}
