package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/hintspb"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// ErrUnsupported is an agent that hands nothing over: it is older than the service, or keeps nothing.
var ErrUnsupported = errors.New("the agent hands nothing over")

// Cursor is how far a reader is in a ledger: the number of a record, and the id of its hint. The zero value is the beginning.
type Cursor struct {
	Number uint64
	ID     string
}

// Handed is a record as an agent handed it over. Age is how long ago the agent took the hint, by the agent's own clock.
type Handed struct {
	Record Record
	Age    time.Duration
}

// Client asks agents for what they keep, over one connection each. It is safe for concurrent use.
type Client struct{ conns *peer.Conns }

// NewClient returns a client. It connects to nothing.
func NewClient(o hints.ClientOptions) *Client {
	const overhead = 1 << 10 // of a message beside the record
	return &Client{conns: peer.NewConns(peer.Options{
		Token: o.Token, TLS: o.TLS, Dial: o.Dial,
		Extra: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxLine + overhead))},
	})}
}

// Records calls each with the records of the agent at addr that come after a cursor and were not taken longer than maxAge ago (0: whenever they were), in
// the order of their numbers; numbers begin anew where the
// agent has another ledger than the cursor is of. It returns nil when all were handed over; if following is not nil, what is added later is handed over
// too, until the agent, ctx or each ends it with an error, and following is called once the agent has let the caller in. Errors match [ErrUnsupported], [ErrDamaged], [ErrVersion], hints.ErrDenied, hints.ErrUnreachable, or are the context's or each's.
func (c *Client) Records(ctx context.Context, addr string, after Cursor, maxAge time.Duration, following func(), each func(Handed) error) error {
	conn, err := c.conns.Get(addr)
	if err != nil {
		return fmt.Errorf("relay.Records: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := hintspb.NewRelayClient(conn).Records(ctx, &hintspb.RecordsRequest{After: after.Number, Id: after.ID, Follow: following != nil, MaxAgeMs: maxAge.Milliseconds()})
	if err == nil && following != nil {
		if _, err = stream.Header(); err == nil {
			following()
		}
	}
	for err == nil {
		var m *hintspb.Relayed
		if m, err = stream.Recv(); err != nil {
			break
		}
		var h Handed
		if h, err = handed(m); err == nil {
			err = each(h)
		}
		if err != nil {
			return fmt.Errorf("relay.Records: agent %s: record %d: %w", addr, m.Number, err)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("relay.Records: agent %s: %w", addr, errors.Join(classOf(err), err))
}

// Close closes the connections. Calls that run fail.
func (c *Client) Close() error { return c.conns.Close() }

func handed(m *hintspb.Relayed) (Handed, error) {
	var r Record
	if err := json.Unmarshal(m.Record, &r); err != nil {
		return Handed{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if r.Version != Version {
		return Handed{}, fmt.Errorf("%w: a record of version %d, this program reads %d", ErrVersion, r.Version, Version)
	}
	if r.Number != m.Number {
		return Handed{}, fmt.Errorf("%w: it says that it is record %d", ErrDamaged, r.Number)
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return Handed{r, time.Duration(max(0, min(m.AgeMs, most))) * time.Millisecond}, nil
}

// classOf is what the client makes of a status; nil if it has no class of its own.
func classOf(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented:
		return ErrUnsupported
	case codes.Unauthenticated, codes.PermissionDenied:
		return hints.ErrDenied
	case codes.Unavailable, codes.ResourceExhausted:
		return hints.ErrUnreachable
	case codes.DataLoss:
		return ErrDamaged
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	}
	return nil
}
