package fetch

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/auth/peer"
)

// Handler answers fetches. It is called concurrently.
type Handler interface {
	// Fetch calls send once for every want, in any order, and returns. Calls of send must not overlap.
	// send returns an error when the loader is gone or the payload is not what [Payload] says; the
	// handler then returns it. The request has been validated, and c carries the right to fetch for
	// its job; whether it may read the dataset is the handler's to check.
	Fetch(ctx context.Context, c auth.Claims, req *Request, send func(want int, p Payload) error) error
}

// Register serves the Fetch service of a node on srv, which must have been made with
// [ServerOptions]. Calls that keys refuse do not reach the handler; requests of another protocol
// version are answered with [ReasonVersion].
func Register(srv grpc.ServiceRegistrar, node string, h Handler, keys auth.Keyring) {
	fetchpb.RegisterFetchServer(srv, &server{node: node, handler: h, keys: keys})
}

// ServerOptions returns what a gRPC server needs to serve fetches: the codec, which treats all other
// messages as the default codec does, and keep-alive settings that agree with the client's.
func ServerOptions() []grpc.ServerOption {
	return append(peer.ServerOptions(), grpc.ForceServerCodecV2(newCodec()), grpc.WriteBufferSize(socketBuffer))
}

type server struct {
	fetchpb.UnimplementedFetchServer
	node    string
	handler Handler
	keys    auth.Keyring
}

// Fetch implements the generated service.
func (s *server) Fetch(m *fetchpb.FetchRequest, stream grpc.ServerStreamingServer[fetchpb.Chunk]) error {
	out := &sending{stream: stream, node: s.node, answered: make([]bool, len(m.Wants)), maxEntry: m.MaxEntry}
	claims, err := peer.Caller(stream.Context(), s.keys, auth.RightFetch)
	if err != nil {
		return statusOf(err)
	}
	if m.Version != ProtocolVersion {
		return statusOf(out.refuse(ReasonVersion))
	}
	req, err := decodeRequest(m)
	if err != nil {
		return statusOf(fmt.Errorf("%w: %w", errRequest, err))
	}
	if err := claims.ForJob(req.Job); err != nil {
		return statusOf(err)
	}
	if err := s.handler.Fetch(stream.Context(), claims, req, out.send); err != nil {
		return statusOf(err)
	}
	return statusOf(out.complete())
}

// sending is the server's side of one fetch.
type sending struct {
	stream   grpc.ServerStream
	node     string
	maxEntry int64
	answered []bool
}

// send sends one entry. It takes the payload over: Release is called whatever happens.
func (s *sending) send(want int, p Payload) error {
	l := newLease(p.Release)
	defer l.drop()
	if want < 0 || want >= len(s.answered) {
		return fmt.Errorf("fetch: send of want %d, %d were asked for", want, len(s.answered))
	}
	if s.answered[want] {
		return fmt.Errorf("fetch: second send of want %d", want)
	}
	s.answered[want] = true
	if int64(len(p.Data)) > s.maxEntry {
		p = Payload{Reason: ReasonMemory}
	}
	head, err := headOf(p, s.node)
	if err != nil {
		return fmt.Errorf("fetch: want %d: %w", want, err)
	}
	return s.chunks(uint32(want), head, p.Data, l)
}

// chunks sends an entry piece by piece. SendMsg waits for the loader's flow control, so that little more
// than one piece of each stream is queued.
func (s *sending) chunks(want uint32, head *fetchpb.Head, data []byte, l *lease) error {
	for off := 0; ; {
		end := min(off+chunkSize, len(data))
		out := &outbound{
			header: &fetchpb.Chunk{Index: want, Offset: uint64(off), Total: uint64(len(data)), Head: head},
			data:   l.buffer(data[off:end]),
		}
		if err := s.stream.SendMsg(out); err != nil {
			return err
		}
		if off, head = end, nil; off == len(data) {
			return nil
		}
	}
}

// refuse answers every want of a request that has not been checked with a reason alone.
func (s *sending) refuse(r Reason) error {
	if len(s.answered) > maxWants {
		return fmt.Errorf("%w: %d wants: at most %d", errRequest, len(s.answered), maxWants)
	}
	for want := range s.answered {
		if err := s.send(want, Payload{Reason: r}); err != nil {
			return err
		}
	}
	return nil
}

// complete returns nil if every want was answered.
func (s *sending) complete() error {
	for want, ok := range s.answered {
		if !ok {
			return fmt.Errorf("fetch: the handler left want %d of %d unanswered", want, len(s.answered))
		}
	}
	return nil
}

// headOf returns the head of a payload's entry.
func headOf(p Payload, node string) (*fetchpb.Head, error) {
	h := &fetchpb.Head{
		Reason: string(p.Reason), Node: node, Crc32C: p.CRC,
		LeadUs: p.LeadTime.Microseconds(), PrepareCpuUs: p.PrepareCPU.Microseconds(),
	}
	switch {
	case p.Reason != ReasonNone && !p.Reason.fromAgent():
		return nil, fmt.Errorf("reason %q is not an agent's", p.Reason)
	case p.Raw && p.Reason == ReasonNone:
		return nil, fmt.Errorf("raw bytes need a reason")
	case p.Raw:
		h.Kind = fetchpb.Kind_KIND_RAW
	case p.Reason != ReasonNone:
		if len(p.Data) > 0 {
			return nil, fmt.Errorf("reason %q with %d bytes that are not raw", p.Reason, len(p.Data))
		}
		h.Kind = fetchpb.Kind_KIND_NONE
	default:
		return h, describe(h, p)
	}
	return h, nil
}

// describe completes the head of a prepared entry.
func describe(h *fetchpb.Head, p Payload) error {
	if size, ok := tensorSize(p.Spec); !ok || size != uint64(len(p.Data)) {
		return fmt.Errorf("tensor %s %v with %d bytes", p.Spec.Dtype, p.Spec.Shape, len(p.Data))
	}
	h.Kind = fetchpb.Kind_KIND_PREPARED
	h.PlanDigest = p.PlanDigest[:]
	h.Dtype = string(p.Spec.Dtype)
	for _, d := range p.Spec.Shape {
		h.Shape = append(h.Shape, uint32(d))
	}
	return nil
}
