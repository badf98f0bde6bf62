package loader

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

// readyAgent has every tensor ready: what is left is the wire and the loader's own work.
type readyAgent struct {
	spec   transform.TensorSpec
	plan   [32]byte
	pixels []byte
	crc    uint32
}

func (a *readyAgent) Announce(context.Context, hints.Hint, auth.Claims) (hints.Reply, error) {
	return hints.Accept(), nil
}

func (a *readyAgent) Fetch(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	for i := range req.Wants {
		p := fetch.Payload{Spec: a.spec, Data: a.pixels, CRC: a.crc, PlanDigest: a.plan, LeadTime: time.Second}
		if err := send(i, p); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkNextPrepared is the cost of a step of 64 crops of 224 x 224 that agents have ready, over
// loopback TCP with both ends in this process: raw pixels, and normalised to float32.
func BenchmarkNextPrepared(b *testing.B) {
	const crop = `{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[224,224]}`
	for name, ops := range map[string]string{
		"uint8":   crop,
		"float32": crop + `,{"op":"Normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}`,
	} {
		b.Run(name, func(b *testing.B) { benchmarkPrepared(b, plan(b, ops)) })
	}
}

func benchmarkPrepared(b *testing.B, p *transform.Plan) {
	k := newKit(b, 256, 256, nil)
	half, _ := p.Cut()
	spec, _ := half.Fixed()
	a := &readyAgent{spec: spec, plan: half.Digest(), pixels: make([]byte, spec.Bytes())}
	a.crc = binfmt.CRC32C(0, a.pixels)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	srv := grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(srv, "any", a, auth.Insecure())
	hints.Serve(srv, a, auth.Insecure())
	go srv.Serve(lis)
	defer srv.Stop()

	o := k.options(b)
	o.Plans["image"], o.GlobalBatch, o.CanaryEvery = p, 64, 1<<60
	o.URL, o.Job, o.Run = "/data", "job", "run"
	for _, n := range kitNodes {
		o.Agents = append(o.Agents, n+"="+lis.Addr().String())
	}
	l, err := Open(b.Context(), o)
	must(b, err)
	defer l.Close()
	waitUntil(b, func() bool { return l.Stats().Hints["schedule"] == int64(len(kitNodes)) })
	next := func() {
		batch, err := l.Next(b.Context())
		if err == io.EOF {
			batch, err = l.Next(b.Context())
		}
		must(b, err)
		batch.Release()
	}
	for range 8 {
		next()
	}
	before := l.Stats()
	b.SetBytes(64 * spec.Bytes())
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	after := l.Stats()
	b.ReportMetric(float64(after.Prepared-before.Prepared)/float64(64*(after.Steps-before.Steps)), "prepared/part")
}
