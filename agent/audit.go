package agent

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// refused writes the audit line of a hint or fetch that was refused as a whole.
func (a *Agent) refused(what, reason, detail, job, run string, c auth.Claims) {
	a.audit(what, reason, detail, zap.String("job", job), zap.String("run", run), zap.String("user", c.User), zap.String("key", c.KeyID))
}

// audit counts and logs a refusal.
func (a *Agent) audit(what, reason, detail string, who ...zap.Field) {
	label := reason
	if !slices.Contains(refusalReasons, reason) {
		label = "other"
	}
	a.metrics.refusals.WithLabelValues(label).Inc()
	a.o.Log.Warn("refused", append(who, zap.Bool("audit", true), zap.String("what", what), zap.String("reason", reason),
		zap.String("detail", detail), zap.Duration("at", a.now().Round(time.Millisecond)))...)
}

// auditCalls returns what sees the calls that are refused for their token before they come to the agent's
// own handlers.
func (a *Agent) auditCalls() []grpc.ServerOption {
	hint := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		handled := false
		reply, err := handle(context.WithValue(ctx, handledKey{}, &handled), req)
		if handled {
			return reply, err
		}
		// A token of another job is answered by a reply, every other one by a status.
		r, ok := reply.(interface {
			GetReason() string
			GetDetail() string
		})
		if ok && err == nil && r.GetReason() == string(hints.ReasonDenied) {
			a.auditCall(ctx, "hint", r.GetDetail())
		}
		a.auditStatus(ctx, "hint", err)
		return reply, err
	}
	read := func(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		err := handle(srv, stream)
		what := "fetch"
		if call.FullMethod == relay.Method {
			what = "relay"
		}
		a.auditStatus(stream.Context(), what, err)
		return err
	}
	return []grpc.ServerOption{grpc.UnaryInterceptor(hint), grpc.StreamInterceptor(read)}
}

// handledKey is the context's key of a *bool: whether a hint has come to Announce, which writes audit lines
// of its own.
type handledKey struct{}

func markHandled(ctx context.Context) {
	if handled, ok := ctx.Value(handledKey{}).(*bool); ok {
		*handled = true
	}
}

func (a *Agent) auditStatus(ctx context.Context, what string, err error) {
	if s := status.Convert(err); s.Code() == codes.Unauthenticated || s.Code() == codes.PermissionDenied {
		a.auditCall(ctx, what, s.Message())
	}
}

// auditCall writes the audit line of a call whose token was refused. What such a caller says about himself
// is not believed, so the line has his address. detail comes from package auth, which never names a token.
func (a *Agent) auditCall(ctx context.Context, what, detail string) {
	a.audit(what, string(hints.ReasonDenied), detail, zap.String("peer", readerOf(ctx)))
}
