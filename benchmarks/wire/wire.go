package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

// A wire is a way from one end of a connection to the other, ready to be measured.
type wire struct {
	// move carries so many parts and returns the bytes that arrived.
	move func(ctx context.Context, parts int) (int64, error)
	stop func()
}

// wires are the ways that are compared, ours first. part is what each of them sends again and again.
var wires = []struct {
	name string
	open func(part []byte) (*wire, error)
}{
	{"stepahead", ours}, {"protobuf bytes", protobufDelivered}, {"protobuf bytes, dropped", protobufBare}, {"TCP alone", tcp},
}

// opener returns what opens the wire of a name, or nil.
func opener(name string) func(part []byte) (*wire, error) {
	for _, w := range wires {
		if w.name == name {
			return w.open
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCRC is a part that arrived with a CRC which is not its own.
var errCRC = errors.New("wrong CRC")

// batch is the memory that parts are delivered to, as much as two batches of 64 crops, used in turn. It is
// mapped outside Go's heap, as the loader's is.
type batch struct {
	memory []byte
	next   int
}

func newBatch() (*batch, error) {
	memory, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("wire: map a batch: %w", err)
	}
	return &batch{memory: memory}, nil
}

// free unmaps it. Nothing may use it afterwards.
func (b *batch) free() { _ = unix.Munmap(b.memory) }

func (b *batch) take(size int) []byte {
	if b.next+size > len(b.memory) {
		b.next = 0
	}
	b.next += size
	return b.memory[b.next-size : b.next]
}

// ours is the tensor wire as loader and agent use it: the agent sends from the memory in which the tensor
// lies, the loader gets it, CRC checked, in memory of its own.
func ours(part []byte) (*wire, error) {
	to, err := newBatch()
	if err != nil {
		return nil, err
	}
	srv := grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(srv, "bench", sender{part}, auth.Insecure())
	lis, err := listen()
	if err != nil {
		return nil, err
	}
	go srv.Serve(fetch.Listener(lis)) // ends with srv.Stop
	c := fetch.NewClient(fetch.ClientOptions{})
	alloc := func(_ int, _ bool, size int64) ([]byte, error) { return to.take(int(size)), nil }
	move := func(ctx context.Context, parts int) (n int64, err error) {
		req := &fetch.Request{Job: "bench", Run: "1", PlanDigests: map[string][32]byte{"image": {}}, Wants: make([]fetch.Want, parts)}
		for i := range req.Wants {
			req.Wants[i].Field = "image"
		}
		err = c.Fetch(ctx, lis.Addr().String(), req, alloc, func(_ int, a fetch.Answer) {
			if a.Prepared != nil {
				n += int64(len(a.Prepared.Data))
			}
		})
		return n, err
	}
	return &wire{move, func() { c.Close(); srv.Stop(); to.free() }}, nil
}

type sender struct{ part []byte }

// Fetch implements fetch.Handler. The CRC of a tensor is known since it was made.
func (s sender) Fetch(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	p := fetch.Payload{
		Spec: transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{len(s.part)}}, Data: s.part,
		CRC: crc32.Checksum(s.part, castagnoli), Release: func() {},
	}
	for want := range req.Wants {
		if err := send(want, p); err != nil {
			return err
		}
	}
	return nil
}

// protobufDelivered is what one writes without a codec of one's own, to the same end as ours: every part
// is checked and copied to its place in the batch.
func protobufDelivered(part []byte) (*wire, error) {
	to, err := newBatch()
	if err != nil {
		return nil, err
	}
	crc := crc32.Checksum(part, castagnoli)
	w, err := protobuf(part, func(data []byte) error {
		if crc32.Checksum(data, castagnoli) != crc {
			return errCRC
		}
		copy(to.take(len(data)), data)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &wire{w.move, func() { w.stop(); to.free() }}, nil
}

// protobufBare drops what it gets: nothing is checked or copied beyond what protobuf and gRPC do.
func protobufBare(part []byte) (*wire, error) {
	return protobuf(part, func([]byte) error { return nil })
}

// protobuf is a stream of messages with a `bytes` field and nothing else, with gRPC's own settings.
func protobuf(part []byte, got func([]byte) error) (*wire, error) {
	desc := grpc.StreamDesc{StreamName: "Bytes", ServerStreams: true}
	desc.Handler = func(_ any, stream grpc.ServerStream) error { return sendBytes(stream, part) }
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{ServiceName: "peer", Streams: []grpc.StreamDesc{desc}}, nil)
	lis, err := listen()
	if err != nil {
		return nil, err
	}
	go srv.Serve(lis) // ends with srv.Stop
	conn, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	move := func(ctx context.Context, parts int) (int64, error) {
		stream, err := conn.NewStream(ctx, &desc, "/peer/Bytes")
		if err != nil {
			return 0, err
		}
		if err := errors.Join(stream.SendMsg(wrapperspb.Int64(int64(parts))), stream.CloseSend()); err != nil {
			return 0, err
		}
		return receiveBytes(stream, got)
	}
	return &wire{move, func() { conn.Close(); srv.Stop() }}, nil
}

func sendBytes(stream grpc.ServerStream, part []byte) error {
	var parts wrapperspb.Int64Value
	if err := stream.RecvMsg(&parts); err != nil {
		return err
	}
	for range parts.Value {
		if err := stream.SendMsg(&wrapperspb.BytesValue{Value: part}); err != nil {
			return err
		}
	}
	return nil
}

func receiveBytes(stream grpc.ClientStream, got func([]byte) error) (n int64, err error) {
	for {
		var m wrapperspb.BytesValue
		if err := stream.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		if err := got(m.Value); err != nil {
			return n, err
		}
		n += int64(len(m.Value))
	}
}

func listen() (net.Listener, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	return lis, nil
}
