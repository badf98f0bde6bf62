package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// caller is who asks, and what he may.
//
//	right    sees                          revokes       drains, sweeps
//	operate  all under the token's roots   the same      with the root "/"
//	view     all under the token's roots   nothing       no
//	hint     the token's job's, there      the same      no
type caller struct {
	claims auth.Claims
	addr   string
}

// from returns who makes a call, if he may see anything.
func (s *Service) from(ctx context.Context) (caller, error) {
	claims, err := auth.FromContext(ctx, s.o.Keys)
	if err != nil {
		return caller{}, err
	}
	c := caller{claims: claims}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		c.addr = p.Addr.String()
	}
	if !c.everybodys() && !claims.Has(auth.RightHint) {
		return caller{}, fmt.Errorf("service: %w: one of %s, %s and %s is needed: mint one with --rights", auth.ErrRight, auth.RightOperate, auth.RightView, auth.RightHint)
	}
	return c, nil
}

// everybodys tells whether he sees what is there for other jobs too.
func (c caller) everybodys() bool {
	return c.claims.Has(auth.RightOperate) || c.claims.Has(auth.RightView)
}

// whole tells whether he sees all there is.
func (c caller) whole() bool { return c.everybodys() && c.claims.Covers("/") == nil }

// sees tells whether he sees what is there for a job at a path.
func (c caller) sees(path, job string) bool {
	return c.claims.Covers(path) == nil && (c.everybodys() || job == c.claims.Job)
}

// isAll tells whether jobs are there, and none is another than the caller's.
func (c caller) isAll(jobs []string) bool { return len(jobs) == 1 && jobs[0] == c.claims.Job }

// may returns nil if he may take back what is there for a job at a path, which he sees.
func (c caller) may(path, job string) error {
	switch {
	case c.claims.Has(auth.RightOperate):
		return c.claims.Covers(path)
	case !c.claims.Has(auth.RightHint):
		return c.claims.Allows(auth.RightOperate, path)
	case job != c.claims.Job:
		return fmt.Errorf("%w: it is of %q, and that is of %q: %s is needed", auth.ErrJob, c.claims.Job, job, auth.RightOperate)
	}
	return c.claims.Covers(path)
}

// mayOperate returns nil if he may change what the controller does.
func (c caller) mayOperate() error { return c.claims.Allows(auth.RightOperate, "/") }

// valid returns a context that ends when his token does.
func (c caller) valid(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.claims.Expires.IsZero() { // no keys
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, c.claims.Expires)
}

// String is how the audit log names him.
func (c caller) String() string {
	if c.claims.User == "" { // no keys
		return "somebody at " + c.addr
	}
	return c.claims.User
}

// bound narrows a revocation to what he may take back.
func (c caller) bound(r plan.Revoke) plan.Revoke {
	if c.claims.Covers("/") != nil {
		r.Roots = c.claims.Roots
	}
	if !c.claims.Has(auth.RightOperate) {
		r.Job = c.claims.Job
	}
	return r
}

var (
	errNotFound = errors.New("not found")
	errInvalid  = errors.New("invalid request")
	errTooMuch  = errors.New("too much at once")
	// errForgotten: what was asked for is done, but not remembered.
	errForgotten = errors.New("it is done, but after a restart of the controller it is not known any more: make room on the disk of its journal, and say it again")
)

// statusOf is how errors cross the wire.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := auth.Code(err)
	for _, c := range []struct {
		is   error
		code codes.Code
	}{
		{errStandby, codes.FailedPrecondition}, {errNotFound, codes.NotFound}, {errInvalid, codes.InvalidArgument}, {errTooMuch, codes.ResourceExhausted}, {fs.ErrClosed, codes.Unavailable},
		{context.DeadlineExceeded, codes.DeadlineExceeded}, {context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	return status.Error(code, err.Error())
}

// unary and stream give errors their codes, and write down who was refused.
func (s *Service) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	reply, err := handle(ctx, req)
	return reply, s.refuse(ctx, info.FullMethod, err)
}

func (s *Service) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return s.refuse(stream.Context(), info.FullMethod, handle(srv, stream))
}

// refuse counts and logs what the rights of the caller do not allow. What he says about himself is believed only if his token is good.
func (s *Service) refuse(ctx context.Context, method string, err error) error {
	err = statusOf(err)
	code := status.Code(err)
	if code != codes.Unauthenticated && code != codes.PermissionDenied {
		return err
	}
	s.metrics.refusals.WithLabelValues(code.String()).Inc()
	fields := []zap.Field{zap.Bool("audit", true), zap.String("what", method), zap.String("detail", status.Convert(err).Message())}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		fields = append(fields, zap.String("peer", p.Addr.String()))
	}
	if c, err := auth.FromContext(ctx, s.o.Keys); err == nil {
		fields = append(fields, zap.String("user", c.User), zap.String("job", c.Job), zap.String("key", c.KeyID))
	}
	s.o.Log.Warn("refused", fields...)
	return err
}
