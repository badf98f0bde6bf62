package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/hints/hintspb"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// Method is the full name of the call that reads a ledger.
const Method = hintspb.Relay_Records_FullMethodName

// mostReaders bounds the calls that read a ledger at once: each has two files open and reads both from the beginning once.
const mostReaders = 8

// Source is what is handed over: a [Ledger].
type Source interface {
	// File is the ledger's path.
	File() string
	// Last returns the number of the last record that is durable, and a channel that is closed when there is a later one.
	Last() (number uint64, changed <-chan struct{})
	// Age is how long ago a record was taken.
	Age(r Record) time.Duration
}

// Serve serves the Relay service on srv: what the source has, to callers with the right auth.RightRelay. A record whose paths the caller's token does
// not cover is left out. Calls end when leaving is closed, and when the token has expired.
func Serve(srv grpc.ServiceRegistrar, s Source, keys auth.Keyring, leaving <-chan struct{}) {
	hintspb.RegisterRelayServer(srv, &server{source: s, keys: keys, leaving: leaving, readers: make(chan struct{}, mostReaders)})
}

type server struct {
	hintspb.UnimplementedRelayServer
	source  Source
	keys    auth.Keyring
	leaving <-chan struct{}
	readers chan struct{}
}

// Records implements the generated service.
func (s *server) Records(req *hintspb.RecordsRequest, stream grpc.ServerStreamingServer[hintspb.Relayed]) error {
	claims, err := peer.Caller(stream.Context(), s.keys, auth.RightRelay)
	if err != nil {
		return status.Error(auth.Code(err), err.Error())
	}
	select {
	case s.readers <- struct{}{}:
	default:
		return status.Errorf(codes.ResourceExhausted, "%d calls read the ledger already", mostReaders)
	}
	defer func() { <-s.readers }()
	tail, err := s.begin(req)
	if err != nil {
		return statusOf(err)
	}
	defer func() { _ = tail.Close() }() // it was only read
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	var expired <-chan time.Time
	if !claims.Expires.IsZero() { // there are keys
		timer := time.NewTimer(time.Until(claims.Expires))
		defer timer.Stop()
		expired = timer.C
	}
	for {
		last, changed := s.source.Last()
		err := tail.Read(last, func(r Record) error { return s.send(stream, claims, req.MaxAgeMs, r) })
		if err != nil {
			return statusOf(err)
		}
		if !req.Follow {
			return nil
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-expired:
			return status.Error(auth.Code(auth.ErrExpired), auth.ErrExpired.Error())
		case <-s.leaving:
			return status.Error(codes.Unavailable, "agent is stopping")
		}
	}
}

// begin returns what reads on from where the caller is, or from the beginning, if that is a place in another ledger.
func (s *server) begin(req *hintspb.RecordsRequest) (*Tail, error) {
	last, _ := s.source.Last()
	if req.After > last {
		return NewTail(s.source.File(), 0), nil
	}
	other := false
	if req.After > 0 {
		found := errors.New("found")
		err := Read(s.source.File(), req.After-1, func(r Record) error {
			other = r.Number == req.After && r.ID != req.Id
			return found
		})
		if err != nil && !errors.Is(err, found) {
			return nil, err
		}
	}
	if other {
		return NewTail(s.source.File(), 0), nil
	}
	return NewTail(s.source.File(), req.After), nil
}

// send sends one record, if the caller wants and may see it.
func (s *server) send(stream grpc.ServerStreamingServer[hintspb.Relayed], claims auth.Claims, maxAge int64, r Record) error {
	age := s.source.Age(r).Milliseconds()
	if maxAge > 0 && age > maxAge {
		return nil
	}
	for _, path := range r.Paths() {
		if claims.Allows(auth.RightRelay, path) != nil {
			return nil
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return stream.Send(&hintspb.Relayed{Number: r.Number, AgeMs: age, Record: text})
}

// statusOf is how errors cross the wire.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrVersion):
		code = codes.DataLoss
	}
	return status.Error(code, fmt.Sprintf("the ledger cannot be read: %v", cmp.Or(pathless(err), err)))
}

// pathless is an error of the file system without the file's name, which is no business of callers.
func pathless(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return nil
}
