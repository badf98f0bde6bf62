package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

// run moves `parts` parts from one end of a connection to the other and returns the bytes that arrived.
type run func(ctx context.Context, parts int) (int64, error)

// sample is one measurement.
type sample struct {
	GBps     float64 // 10^9 bytes a second
	CPUPerGB float64 // CPU seconds of both ends, user and system, for 10^9 bytes
}

// measure times one run.
func measure(f run, parts int) (sample, error) {
	begin, cpu := time.Now(), cpuTime()
	n, err := f(context.Background(), parts)
	if err != nil {
		return sample{}, err
	}
	gb := float64(n) / 1e9
	return sample{GBps: gb / time.Since(begin).Seconds(), CPUPerGB: (cpuTime() - cpu).Seconds() / gb}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ours is the tensor wire as loader and agent use it: the agent sends from the memory in which the tensor
// lies, the loader gets it, CRC checked, in memory of its own.
func ours(part []byte) (run, func(), error) {
	payload := fetch.Payload{
		Spec: transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{len(part)}}, Data: part,
		CRC: crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli)), Release: func() {},
	}
	srv := grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(srv, "bench", sender{payload}, auth.Insecure())
	addr, err := listen(srv)
	if err != nil {
		return nil, nil, err
	}
	c := fetch.NewClient(fetch.ClientOptions{})
	memory := make([]byte, 16<<20) // as much as two batches of 64 crops, used in turn
	next := 0
	alloc := func(_ int, _ bool, size int64) ([]byte, error) {
		if next+int(size) > len(memory) {
			next = 0
		}
		next += int(size)
		return memory[next-int(size) : next], nil
	}
	f := func(ctx context.Context, parts int) (n int64, err error) {
		req := &fetch.Request{Job: "bench", Run: "1", PlanDigests: map[string][32]byte{"image": {}}, Wants: make([]fetch.Want, parts)}
		for i := range req.Wants {
			req.Wants[i].Field = "image"
		}
		err = c.Fetch(ctx, addr, req, alloc, func(_ int, a fetch.Answer) {
			if a.Prepared != nil {
				n += int64(len(a.Prepared.Data))
			}
		})
		return n, err
	}
	return f, func() { c.Close(); srv.Stop() }, nil
}

type sender struct{ payload fetch.Payload }

func (s sender) Fetch(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	for want := range req.Wants {
		if err := send(want, s.payload); err != nil {
			return err
		}
	}
	return nil
}

// peer is what one writes without a codec of one's own: a stream of messages with a `bytes` field, here
// the smallest there is. Nothing is checked or copied beyond what protobuf and gRPC do.
func peer(part []byte) (run, func(), error) {
	desc := grpc.StreamDesc{StreamName: "Bytes", ServerStreams: true}
	desc.Handler = func(_ any, stream grpc.ServerStream) error {
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
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{ServiceName: "peer", Streams: []grpc.StreamDesc{desc}}, nil)
	addr, err := listen(srv)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	f := func(ctx context.Context, parts int) (int64, error) {
		stream, err := conn.NewStream(ctx, &desc, "/peer/Bytes")
		if err != nil {
			return 0, err
		}
		if err := errors.Join(stream.SendMsg(wrapperspb.Int64(int64(parts))), stream.CloseSend()); err != nil {
			return 0, err
		}
		return count(stream)
	}
	return f, func() { conn.Close(); srv.Stop() }, nil
}

func count(stream grpc.ClientStream) (n int64, err error) {
	for {
		var m wrapperspb.BytesValue
		if err := stream.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		n += int64(len(m.Value))
	}
}

func listen(srv *grpc.Server) (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wire: %w", err)
	}
	go srv.Serve(lis) // ends with srv.Stop
	return lis.Addr().String(), nil
}
