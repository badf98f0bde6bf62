package fetch

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// errRequest is a request that breaks a rule of the protocol.
var errRequest = errors.New("bad request")

// ErrStalled is an agent that was silent for longer than a fetch may wait.
var ErrStalled = errors.New("agent is silent")

// statusOf is how the server's errors cross the wire. None becomes Internal, which is what gRPC itself says
// of bytes that it cannot decode.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := auth.Code(err)
	switch {
	case errors.Is(err, errRequest):
		code = codes.InvalidArgument
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}

// ReasonOf returns the reason that an error of [Client.Fetch] gives to the wants it left unanswered.
func ReasonOf(err error) Reason {
	switch {
	case err == nil:
		return ReasonNone
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrIncomplete):
		return ReasonCorrupt
	case errors.Is(err, ErrStalled), errors.Is(err, context.DeadlineExceeded):
		return ReasonDeadline
	}
	switch code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return ReasonDenied
	case codes.DeadlineExceeded:
		return ReasonDeadline
	case codes.Unimplemented, codes.InvalidArgument:
		return ReasonVersion
	case codes.DataLoss, codes.Internal, codes.ResourceExhausted:
		return ReasonCorrupt
	}
	return ReasonUnreachable
}

// code finds the gRPC code in a wrapped error.
func code(err error) codes.Code {
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Code()
	}
	return codes.Unknown
}
