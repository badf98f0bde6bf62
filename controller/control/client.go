package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// What a call fails with.
var (
	// ErrDenied: the token does not allow it, or is none.
	ErrDenied = errors.New("the controller refuses that")
	// ErrUnreachable: nobody answers at the address, or the connection was lost.
	ErrUnreachable = errors.New("the controller does not answer")
	// ErrNotFound: there is no such thing, or it is not the caller's to see.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the controller cannot make sense of it.
	ErrInvalid = errors.New("the controller does not take that")
	// ErrStandby: another controller is the one to ask.
	ErrStandby = errors.New("it is a standby")
)

// ClientOptions configure a [Client].
type ClientOptions struct {
	// Token is sent with every call.
	Token string
	// TLS secures the connection. Nil: plain text, to loopback addresses only.
	TLS *tls.Config
}

// Client asks one controller. It is safe for concurrent use.
type Client struct {
	conns *peer.Conns
	addr  string
}

// mostReply bounds a reply, in bytes: 100,000 placements, or 10,000 timelines, are far more than the 4 MiB that gRPC takes by itself. What was taken back in bulk must
// not look as if it had failed.
const mostReply = 1 << 30

// NewClient returns a client of the controller at host:port. It connects to nothing yet.
func NewClient(addr string, o ClientOptions) *Client {
	large := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostReply))
	return &Client{conns: peer.NewConns(peer.Options{Token: o.Token, TLS: o.TLS, Extra: []grpc.DialOption{large}}), addr: addr}
}

// Close closes the connection. Calls that run fail.
func (c *Client) Close() error { return c.conns.Close() }

// call makes one call, and gives its error a class.
func call[Reply any](c *Client, f func(controllerpb.ControlClient) (Reply, error)) (Reply, error) {
	var none Reply
	conn, err := c.conns.Get(c.addr)
	if err != nil {
		return none, err
	}
	reply, err := f(controllerpb.NewControlClient(conn))
	if err != nil {
		return none, c.failed(err)
	}
	return reply, nil
}

// failed gives an error that came over the wire a class.
func (c *Client) failed(err error) error {
	s := status.Convert(err)
	for code, class := range map[codes.Code]error{
		codes.Unauthenticated: ErrDenied, codes.PermissionDenied: ErrDenied, codes.Unavailable: ErrUnreachable, codes.NotFound: ErrNotFound,
		codes.InvalidArgument: ErrInvalid, codes.FailedPrecondition: ErrStandby, codes.Unimplemented: ErrInvalid,
		codes.DeadlineExceeded: context.DeadlineExceeded, codes.Canceled: context.Canceled,
	} {
		if s.Code() == code {
			return fmt.Errorf("controller %s: %w: %s", c.addr, class, strings.TrimPrefix(s.Message(), class.Error()+": "))
		}
	}
	return fmt.Errorf("controller %s: %s", c.addr, s.Message())
}

// Status returns how the controller fares. A standby answers too.
func (c *Client) Status(ctx context.Context) (Status, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.StatusReply, error) {
		return p.Status(ctx, &controllerpb.StatusRequest{})
	})
	if err != nil {
		return Status{}, err
	}
	return decodeStatus(m), nil
}

// Ranking returns what there is, what waits and what is refused; at most so many of each, 0: 1,000.
func (c *Client) Ranking(ctx context.Context, most int) (Ranking, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.RankingReply, error) {
		return p.Ranking(ctx, &controllerpb.RankingRequest{Most: int64(most)})
	})
	if err != nil {
		return Ranking{}, err
	}
	return decodeRanking(m), nil
}

// Why returns what is decided on a path, or, where path is "", on the path of a placement.
func (c *Client) Why(ctx context.Context, id plan.ID, path string) (Why, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.WhyReply, error) {
		return p.Why(ctx, &controllerpb.WhyRequest{Id: uint64(id), Path: path})
	})
	if err != nil {
		return Why{}, err
	}
	return decodeWhy(m), nil
}

// Revocation names what is taken back: a placement, all of a path, or all that the caller may take back.
type Revocation struct {
	ID   plan.ID
	Path string
	All  bool
	// Why goes into the audit log.
	Why    string
	DryRun bool
}

// Revoke takes placements back and returns them as they were before. They are undone soon, and not made again while they are asked for.
func (c *Client) Revoke(ctx context.Context, r Revocation) ([]plan.Standing, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.RevokeReply, error) {
		return p.Revoke(ctx, &controllerpb.RevokeRequest{Id: uint64(r.ID), Path: r.Path, All: r.All, Why: r.Why, DryRun: r.DryRun})
	})
	if err != nil {
		return nil, err
	}
	return decodeStandings(m.Standings), nil
}

// Drain lets nothing new begin, or lets it again. It returns what it was before.
func (c *Client) Drain(ctx context.Context, on, dryRun bool) (was bool, err error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.DrainReply, error) {
		return p.Drain(ctx, &controllerpb.DrainRequest{Off: !on, DryRun: dryRun})
	})
	if err != nil {
		return false, err
	}
	return m.Was, nil
}

// Sweep undoes what was left behind by others; with all, the controller's own placements are revoked as well. Stores that do not answer are no error: the result has
// them.
func (c *Client) Sweep(ctx context.Context, all, dryRun bool) (SweepResult, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.SweepReply, error) {
		return p.Sweep(ctx, &controllerpb.SweepRequest{All: all, DryRun: dryRun})
	})
	if err != nil {
		return SweepResult{}, err
	}
	return decodeSweepResult(m), nil
}

// AuditQuery says which lines of the audit log are wanted.
type AuditQuery struct {
	// After is a line's number; SinceMS a time in milliseconds since 1970.
	After   uint64
	SinceMS int64
	// Job and Path, where they are set, narrow it down: Path to itself and what lies below.
	Job, Path string
	// Follow goes on with the lines that come.
	Follow bool
}

// Audit calls each with lines of the audit log, the oldest first. With Follow it returns when ctx ends or the controller does.
func (c *Client) Audit(ctx context.Context, q AuditQuery, each func(audit.Line) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := call(c, func(p controllerpb.ControlClient) (controllerpb.Control_AuditClient, error) {
		return p.Audit(ctx, &controllerpb.AuditRequest{After: q.After, SinceMs: q.SinceMS, Job: q.Job, Path: q.Path, Follow: q.Follow})
	})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.failed(err)
		}
		if err := each(decodeLine(m)); err != nil {
			return err
		}
	}
}
