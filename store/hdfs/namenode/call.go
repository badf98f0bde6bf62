package namenode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// ErrOutcomeUnknown marks the failure of a call that changes something and was sent: it may have taken place.
var ErrOutcomeUnknown = errors.New("it is not known whether the call took place")

// ErrGaveUp marks the failure of a call that was repeated for as long as Options say: whoever repeats it waits that long again.
var ErrGaveUp = errors.New("no NameNode could do it for as long as it was tried")

// gaveUp is an error that matches ErrGaveUp too.
type gaveUp struct{ error }

func (e gaveUp) Unwrap() error      { return e.error }
func (gaveUp) Is(target error) bool { return target == ErrGaveUp }

// kind says when a call may be sent twice.
type kind int

const (
	idempotent kind = iota
	// atMostOnce: a NameNode answers a repeated call, known by client and number, from its memory.
	atMostOnce
)

// failure is a failed attempt.
type failure struct {
	cause cause
	err   error
	sent  bool // the NameNode may have the call
}

// calling is one call on its way.
type calling struct {
	client  *Client
	method  string
	kind    kind
	request proto.Message
	id      int32
	history history
	tries   int
	sent    bool // in any attempt
	began   time.Time
	last    map[string]error // of each NameNode
}

// call makes one call, over as many attempts as it takes, and fills response.
func (c *Client) call(ctx context.Context, method string, k kind, request, response proto.Message) error {
	x := calling{client: c, method: method, kind: k, request: request, id: c.callID(), began: c.options.Clock.Now(), last: map[string]error{}}
	c.counters.count(func(s *Stats) { s.Calls[method]++ })
	err := x.run(ctx, response)
	if err != nil {
		c.counters.count(func(s *Stats) { s.Failures[method]++ })
		return fmt.Errorf("namenode.%s: %w", method, err)
	}
	return nil
}

func (x *calling) run(ctx context.Context, response proto.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		n, epoch := x.client.current()
		message, f := x.attempt(ctx, n)
		if f == nil {
			return parseAnswer(message, response)
		}
		x.tries++
		x.sent = x.sent || f.sent
		x.last[n.at.Addr] = f.err
		if err := x.ended(ctx, f); err != nil {
			return err
		}
		m := plan(f.cause, x.history, x.client.limits())
		x.history = x.history.add(f.cause, m)
		if m.giveUp {
			return x.giveUp(f)
		}
		x.client.counters.count(func(s *Stats) { s.Retries[f.cause.String()]++ })
		if m.other {
			x.client.failOver(epoch)
		}
		wait := time.Duration(float64(m.wait) * x.client.options.Jitter())
		if err := x.client.pause(ctx, wait); err != nil {
			return x.interrupted(err, f)
		}
	}
}

func (c *Client) limits() limits {
	o := c.options
	l := limits{nodes: len(c.nodes), rounds: o.Rounds, busy: o.BusyRetries, base: o.PauseBase, max: o.PauseMax}
	if !c.contact.Load() {
		l.rounds = min(o.FirstRounds, o.Rounds)
	}
	return l
}

// parseAnswer parses an answer's message. One that cannot be parsed is not asked for again: it would come again.
func parseAnswer(message []byte, response proto.Message) error {
	if err := proto.Unmarshal(message, response); err != nil {
		return fmt.Errorf("%w: %s: %w", errProtocol, response.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// attempt sends the call to one NameNode.
func (x *calling) attempt(ctx context.Context, n *node) ([]byte, *failure) {
	if n.lacking(x.method) {
		e := &RemoteError{Class: noSuchMethod, Message: "known from an earlier call", NameNode: n.at.Addr, Method: x.method}
		return nil, &failure{cause: causeAnswer, err: e}
	}
	frame, err := x.frame()
	if err != nil {
		return nil, &failure{cause: causeAnswer, err: err}
	}
	c, err := n.connection(ctx)
	if err != nil {
		return nil, &failure{cause: causeOf(err, causeUnreachable), err: x.named(err)}
	}
	message, sent, err := c.roundTrip(ctx, &request{id: x.id, frame: frame, answer: make(chan answer, 1)}, x.client.options.CallTimeout, x.grace())
	if err == nil {
		return message, nil
	}
	return nil, x.failed(n, c, sent, err)
}

// graceOfChanges is for how long the answer to a call that changes something is waited for after its context has ended. A NameNode
// does not work in the order in which it was asked: who would remove at once what a call may have made, might remove it before it is made.
const graceOfChanges = 5 * time.Second

func (x *calling) grace() time.Duration {
	if x.kind == atMostOnce {
		return graceOfChanges
	}
	return 0
}

// failed says what a failed round trip means.
func (x *calling) failed(n *node, c *conn, sent bool, err error) *failure {
	otherwise := causeBroken
	switch {
	case errors.Is(err, errNoAnswer):
		otherwise = causeSilent
	case errors.Is(err, errGone), errors.Is(err, errIdle):
		otherwise = causeStale
	case c.stale():
		otherwise = causeStale
	}
	f := &failure{cause: causeOf(err, otherwise), err: x.named(err), sent: sent}
	var remote *RemoteError
	if errors.As(err, &remote) {
		f.sent = false // it was answered
		if remote.noSuchMethod() {
			n.setLacking(x.method)
		}
	}
	return f
}

// named gives an answer the name of the call it belongs to.
func (x *calling) named(err error) error {
	var remote *RemoteError
	if errors.As(err, &remote) && remote.Method == "" {
		named := *remote
		named.Method = x.method
		return &named
	}
	return err
}

// causeOf tells what an error means for the next attempt: otherwise, unless it is an answer.
func causeOf(err error, otherwise cause) cause {
	var remote *RemoteError
	if errors.As(err, &remote) {
		return remote.cause()
	}
	if networkError(err) {
		return otherwise
	}
	return causeAnswer // protocol errors, refused credentials: the same would come again
}

func networkError(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, errGone) || errors.Is(err, errIdle) || errors.Is(err, errNoAnswer) || store.ClassOf(err) == store.Retryable
}

// frame makes the bytes of the next attempt.
func (x *calling) frame() ([]byte, error) {
	c := x.client
	head := header(x.id, c.id)
	head.RetryCount = proto.Int32(int32(x.tries))
	head.CallerContext = &hproto.RpcCallerContext{Context: &c.options.Context}
	if id := c.stateID.Load(); id != 0 {
		head.StateId = &id
	}
	head.RouterFederatedState = c.routerState()
	return appendFrame(nil, head, &hproto.RequestHeader{
		MethodName:                 &x.method,
		DeclaringClassProtocolName: &c.protocol,
		ClientProtocolVersion:      proto.Uint64(1),
	}, x.request)
}

// ended returns the error of a call whose context or client has ended; nil: it may go on.
func (x *calling) ended(ctx context.Context, f *failure) error {
	if err := ctx.Err(); err != nil {
		return x.interrupted(err, f)
	}
	if x.client.ctx.Err() != nil {
		return x.interrupted(errClosed, f)
	}
	return nil
}

func (x *calling) interrupted(err error, f *failure) error {
	if f.err != nil && !errors.Is(f.err, err) {
		err = fmt.Errorf("%w (after %d attempts, the last: %v)", err, x.tries, f.err)
	}
	return x.outcome(err)
}

// outcome adds what is not known about a call that was sent and got no answer.
func (x *calling) outcome(err error) error {
	if x.sent && x.kind == atMostOnce {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// giveUp makes the error of a call for which nothing more is tried.
func (x *calling) giveUp(f *failure) error {
	if f.cause == causeAnswer {
		return f.err
	}
	if f.cause == causeBusy {
		return gaveUp{fmt.Errorf("%d attempts: %w", x.tries, f.err)}
	}
	err := fmt.Errorf("no NameNode of %s answers (%d attempts in %v): %w", x.client.options.Cluster.Name, x.tries,
		x.client.options.Clock.Now().Sub(x.began).Round(time.Millisecond), store.ErrUnavailable)
	for _, n := range x.client.nodes {
		if last := x.last[n.at.Addr]; last != nil {
			err = fmt.Errorf("%w; %s: %w", err, n.at.Addr, last)
		}
	}
	return gaveUp{x.outcome(err)}
}
