package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/agent/fetch/fetchpb"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/testdata"
)

// TestRefusedAddress: a dead agent costs no time, first and later.
func TestRefusedAddress(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close()
	c := client(t, fetch.ClientOptions{})
	for range 3 {
		begin := time.Now()
		_, err := fetched(t, c, lis.Addr().String(), ask(1))
		if fetch.ReasonOf(err) != fetch.ReasonUnreachable || time.Since(begin) > 5*time.Second {
			t.Fatalf("%v after %s", err, time.Since(begin))
		}
	}
}

// TestBlackHole is row 7 of the fault matrix: an address that accepts and never says a word.
func TestBlackHole(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	t.Run("silence", func(t *testing.T) {
		c := client(t, fetch.ClientOptions{Stall: 100 * time.Millisecond})
		_, err := fetched(t, c, lis.Addr().String(), ask(1))
		if !errors.Is(err, fetch.ErrStalled) || fetch.ReasonOf(err) != fetch.ReasonDeadline {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		c := client(t, fetch.ClientOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		err := c.Fetch(ctx, lis.Addr().String(), ask(1), heap, nil)
		if !errors.Is(err, context.DeadlineExceeded) || fetch.ReasonOf(err) != fetch.ReasonDeadline {
			t.Fatalf("got %v", err)
		}
	})
}

// hang sends one entry and then waits until the loader is gone.
func hang(first fetch.Payload) agentFunc {
	return func(ctx context.Context, _ auth.Claims, _ *fetch.Request, send func(int, fetch.Payload) error) error {
		if err := send(0, first); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestSilentInMidStream: what came before the silence is good; the rest is given up.
func TestSilentInMidStream(t *testing.T) {
	addr, o := inMemory(t, hang(tensor(noise(700<<10, 1))), auth.Insecure())
	o.Stall = 50 * time.Millisecond
	req := ask(2)
	req.Deadline = 50 * time.Millisecond
	got, err := fetched(t, client(t, o), addr, req)
	if !errors.Is(err, fetch.ErrStalled) || len(got) != 1 || got[0].Prepared == nil {
		t.Fatalf("%d answers, %v", len(got), err)
	}
}

// TestSlowCallerIsNoSilence: the time that the caller takes is not held against the agent.
func TestSlowCallerIsNoSilence(t *testing.T) {
	addr, o := inMemory(t, answers(tensor(noise(10, 1)), tensor(noise(10, 2))), auth.Insecure())
	o.Stall = time.Second // less, and a busy machine alone is a silence
	c := client(t, o)
	var answered int
	slow := func(int, fetch.Answer) {
		if answered++; answered == 1 {
			time.Sleep(2 * o.Stall) // the sleep is the input
		}
	}
	if err := c.Fetch(context.Background(), addr, ask(2), heap, slow); err != nil || answered != 2 {
		t.Fatalf("%d answers, %v", answered, err)
	}
}

// TestCancel: a loader that goes away ends the handler, and the payload is released once.
func TestCancel(t *testing.T) {
	for name, serve := range map[string]transport{"memory": inMemory, "tcp": overTCP} {
		t.Run(name, func(t *testing.T) {
			released := make([]atomic.Int32, 1)
			ended := make(chan error, 1)
			p := tensor(noise(64<<20, 1))
			p.Release = func() { released[0].Add(1) }
			h := agentFunc(func(_ context.Context, _ auth.Claims, _ *fetch.Request, send func(int, fetch.Payload) error) error {
				err := send(0, p)
				ended <- err
				return err
			})
			addr, o := serve(t, h, auth.Insecure())
			ctx, cancel := context.WithCancel(context.Background())
			alloc := func(_ int, _ bool, size int64) ([]byte, error) {
				cancel() // the first chunk has come, the others have not
				return make([]byte, size), nil
			}
			got := func(int, fetch.Answer) { t.Error("an entry that was cut short is handed out") }
			if err := client(t, o).Fetch(ctx, addr, ask(1), alloc, got); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("send succeeded although the loader was gone")
			}
			eventually(t, "the payload is released once", func() bool { runtime.GC(); return onceEach(t, released) })
		})
	}
}

// TestConnectionLostWhileSending: gRPC drops buffers of a broken connection without freeing them; they are
// released all the same.
func TestConnectionLostWhileSending(t *testing.T) {
	released := make([]atomic.Int32, 8)
	h := agentFunc(func(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
		for want := range req.Wants {
			p := tensor(noise(1<<20, byte(want)))
			i := req.Step*4 + int64(want)
			p.Release = func() { released[i].Add(1) }
			if err := send(want, p); err != nil {
				for rest := want + 1; rest < len(req.Wants); rest++ {
					released[req.Step*4+int64(rest)].Add(1) // never sent
				}
				return err
			}
		}
		return nil
	})
	addr, _ := overTCP(t, h, auth.Insecure())
	conn := plainConn(t, addr)
	for step := range int64(2) {
		m := plainRequest(4)
		m.Step = step
		stream, err := fetchpb.NewFetchClient(conn).Fetch(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil { // the agent is sending, and soon blocked by flow control
			t.Fatal(err)
		}
	}
	conn.Close()
	eventually(t, "every payload is released once", func() bool { runtime.GC(); return onceEach(t, released) })
}

// TestKilledAndRestarted is row 10 of the fault matrix: the same address serves again by itself.
func TestKilledAndRestarted(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	good := answers(tensor(noise(100, 1)), tensor(noise(100, 2)))
	reached := make(chan struct{})
	srv := start(t, lis, agentFunc(func(ctx context.Context, c auth.Claims, r *fetch.Request, send func(int, fetch.Payload) error) error {
		close(reached)
		return hang(tensor(noise(100, 1)))(ctx, c, r, send)
	}), auth.Insecure())
	c := client(t, fetch.ClientOptions{})
	go func() { <-reached; srv.Stop() }()
	if _, err := fetched(t, c, addr, ask(2)); fetch.ReasonOf(err) != fetch.ReasonUnreachable {
		t.Fatalf("killed: %v", err)
	}
	if lis, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	start(t, lis, good, auth.Insecure())
	eventually(t, "the restarted agent answers", func() bool {
		got, err := fetched(t, c, addr, ask(2))
		return err == nil && len(got) == 2
	})
}

// TestTokens: who may not ask is answered before the handler is reached.
func TestTokens(t *testing.T) {
	key, err := auth.NewKey("k1", noise(32, 1))
	if err != nil {
		t.Fatal(err)
	}
	other, err := auth.NewKey("k1", noise(32, 2))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	mint := func(k auth.Key, job string, rights []string, ttl time.Duration) string {
		token, err := auth.Mint(k, auth.Claims{Job: job, User: "u", Roots: []string{"/data"}, Rights: rights, Expires: time.Now().Add(ttl)})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	both := []string{auth.RightFetch, auth.RightHint}
	for name, c := range map[string]struct {
		token string
		want  fetch.Reason
	}{
		"good":          {mint(key, "job", both, time.Hour), fetch.ReasonNone},
		"missing":       {"", fetch.ReasonDenied},
		"nonsense":      {"nonsense", fetch.ReasonDenied},
		"expired":       {mint(key, "job", both, -time.Hour), fetch.ReasonDenied},
		"another job":   {mint(key, "other", both, time.Hour), fetch.ReasonDenied},
		"another key":   {mint(other, "job", both, time.Hour), fetch.ReasonDenied},
		"another right": {mint(key, "job", []string{auth.RightHint}, time.Hour), fetch.ReasonDenied},
	} {
		var claims auth.Claims
		h := agentFunc(func(ctx context.Context, c auth.Claims, r *fetch.Request, send func(int, fetch.Payload) error) error {
			claims = c
			return answers(tensor(noise(10, 1)))(ctx, c, r, send)
		})
		addr, o := overTCP(t, h, keys)
		o.Token = c.token
		_, err := fetched(t, client(t, o), addr, ask(1))
		if got := fetch.ReasonOf(err); got != c.want {
			t.Errorf("%s: reason %q of %v, want %q", name, got, err, c.want)
		}
		if reached := claims.Job != ""; reached != (c.want == fetch.ReasonNone) {
			t.Errorf("%s: handler reached: %t", name, reached)
		}
	}
}

// TestTokenStaysHere: no token and no request leave the host in the clear.
func TestTokenStaysHere(t *testing.T) {
	dialled := false
	o := fetch.ClientOptions{Token: "secret", Dial: func(context.Context, string) (net.Conn, error) {
		dialled = true
		return nil, io.EOF
	}}
	if _, err := fetched(t, client(t, o), "192.0.2.7:4000", ask(1)); err == nil || dialled {
		t.Fatalf("dialled: %t, %v", dialled, err)
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	if _, err := fetched(t, client(t, o), "192.0.2.7:4000", ask(1)); err == nil || !dialled {
		t.Fatalf("with TLS: dialled: %t, %v", dialled, err)
	}
}

// TestKeepAliveAgrees: in ten idle minutes the agent sends nobody away for pinging too often.
func TestKeepAliveAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 16)
		srv := grpc.NewServer(fetch.ServerOptions()...)
		fetch.Register(srv, "dn1", answers(fetch.Payload{Reason: fetch.ReasonUnknownJob}), auth.Insecure())
		go srv.Serve(lis)
		dials := 0
		c := fetch.NewClient(fetch.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			dials++
			return lis.DialContext(ctx)
		}})
		for range 30 { // with pauses that are shorter than what closes an idle connection
			if _, err := fetched(t, c, "127.0.0.1:1", ask(1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4*time.Minute + 13*time.Second)
		}
		if dials != 1 {
			t.Errorf("%d connections, want the first to last", dials)
		}
		c.Close()
		srv.Stop()
	})
}

// TestVanishingClients: clients that come and go leave nothing behind.
func TestVanishingClients(t *testing.T) {
	vanish(t, 40, 3)
}

func TestVanishingClientsLong(t *testing.T) {
	testdata.Soak(t)
	vanish(t, 500, 20)
}

func vanish(t *testing.T, clients, rounds int) {
	reached := make(chan struct{}, clients)
	addr, _ := overTCP(t, agentFunc(func(ctx context.Context, _ auth.Claims, _ *fetch.Request, _ func(int, fetch.Payload) error) error {
		reached <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}), auth.Insecure())
	before := runtime.NumGoroutine()
	for range rounds {
		for range clients {
			c := fetch.NewClient(fetch.ClientOptions{})
			ended := make(chan error, 1)
			go func() { ended <- c.Fetch(context.Background(), addr, ask(1), heap, nil) }()
			<-reached
			c.Close()
			if err := <-ended; fetch.ReasonOf(err) != fetch.ReasonUnreachable {
				t.Fatalf("got %v", err)
			}
		}
	}
	eventually(t, "goroutines return to their number", func() bool { return runtime.NumGoroutine() <= before })
}

// plainConn is a connection that knows nothing of our codec.
func plainConn(t testing.TB, addr string) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func plainRequest(wants int) *fetchpb.FetchRequest {
	m := &fetchpb.FetchRequest{
		Version: fetch.ProtocolVersion, Job: "job", Run: "run", Dataset: make([]byte, 32), MaxEntry: 1 << 30,
		Fields: []*fetchpb.Field{{Name: "image", PlanDigest: planDigest[:]}},
	}
	for range wants {
		m.Wants = append(m.Wants, &fetchpb.Want{})
	}
	return m
}

// TestPlainClient: any protobuf client can fetch.
func TestPlainClient(t *testing.T) {
	want := tensor(noise(600<<10, 1))
	addr, _ := overTCP(t, answers(want), auth.Insecure())
	stream, err := fetchpb.NewFetchClient(plainConn(t, addr)).Fetch(context.Background(), plainRequest(1))
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if (m.Head != nil) != (len(data) == 0) || m.Offset != uint64(len(data)) || m.Total != uint64(len(want.Data)) {
			t.Fatalf("chunk at %d of %d after %d bytes", m.Offset, m.Total, len(data))
		}
		data = append(data, m.Data...)
	}
	if !bytes.Equal(data, want.Data) {
		t.Error("bytes differ")
	}
}

// TestAnotherVersion: a loader of another version gets the reason for every want, whatever else its
// request holds.
func TestAnotherVersion(t *testing.T) {
	addr, _ := overTCP(t, answers(), auth.Insecure())
	stream, err := fetchpb.NewFetchClient(plainConn(t, addr)).Fetch(context.Background(), &fetchpb.FetchRequest{Version: 2, Wants: []*fetchpb.Want{{}, {Field: 9}}})
	if err != nil {
		t.Fatal(err)
	}
	for want := range uint32(2) {
		m, err := stream.Recv()
		if err != nil || m.Index != want || m.Head.GetReason() != string(fetch.ReasonVersion) || m.Total != 0 {
			t.Fatalf("got %v, %v", m, err)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
}

// TestRequestsAreChecked: the agent does not trust a loader either.
func TestRequestsAreChecked(t *testing.T) {
	addr, _ := overTCP(t, answers(), auth.Insecure())
	conn := plainConn(t, addr)
	for name, change := range map[string]func(m *fetchpb.FetchRequest){
		"no job":       func(m *fetchpb.FetchRequest) { m.Job = "" },
		"no wants":     func(m *fetchpb.FetchRequest) { m.Wants = nil },
		"dataset":      func(m *fetchpb.FetchRequest) { m.Dataset = m.Dataset[:31] },
		"field index":  func(m *fetchpb.FetchRequest) { m.Wants[0].Field = 1 },
		"field twice":  func(m *fetchpb.FetchRequest) { m.Fields = append(m.Fields, m.Fields[0]) },
		"plan digest":  func(m *fetchpb.FetchRequest) { m.Fields[0].PlanDigest = nil },
		"many fields":  func(m *fetchpb.FetchRequest) { m.Fields = make([]*fetchpb.Field, 65) },
		"max entry":    func(m *fetchpb.FetchRequest) { m.MaxEntry = 0 },
		"long wait":    func(m *fetchpb.FetchRequest) { m.DeadlineUs = 1 << 62 },
		"negative run": func(m *fetchpb.FetchRequest) { m.Step = -1 },
	} {
		m := plainRequest(1)
		change(m)
		stream, err := fetchpb.NewFetchClient(conn).Fetch(context.Background(), m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// liar is an agent that speaks plain protobuf and says what it likes.
type liar struct {
	fetchpb.UnimplementedFetchServer
	chunks []*fetchpb.Chunk
}

func (l liar) Fetch(_ *fetchpb.FetchRequest, stream grpc.ServerStreamingServer[fetchpb.Chunk]) error {
	for _, m := range l.chunks {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// TestPlainAgent: our client reads what any protobuf server sends, and sees through one that lies.
func TestPlainAgent(t *testing.T) {
	p := tensor(noise(1000, 1))
	head := &fetchpb.Head{Kind: fetchpb.Kind_KIND_PREPARED, Node: "liar", Dtype: "uint8", Shape: []uint32{1000}, PlanDigest: planDigest[:], Crc32C: p.CRC}
	honest := []*fetchpb.Chunk{{Total: 1000, Head: head, Data: p.Data[:300]}, {Offset: 300, Total: 1000, Data: p.Data[300:]}}
	for name, c := range map[string]struct {
		chunks []*fetchpb.Chunk
		reason fetch.Reason // of the error
		first  fetch.Reason // of the answer
	}{
		"honest":       {honest, fetch.ReasonNone, fetch.ReasonNone},
		"flipped byte": {[]*fetchpb.Chunk{honest[0], {Offset: 300, Total: 1000, Data: noise(700, 9)}}, fetch.ReasonNone, fetch.ReasonCorrupt},
		"missing":      {honest[:1], fetch.ReasonCorrupt, ""},
		"doubled":      {append(honest, honest...), fetch.ReasonCorrupt, ""},
		"huge chunk":   {[]*fetchpb.Chunk{{Total: 3 << 20, Head: head, Data: noise(3<<20, 1)}}, fetch.ReasonCorrupt, ""},
		"huge header":  {[]*fetchpb.Chunk{{Total: 1, Head: &fetchpb.Head{Node: string(bytes.Repeat([]byte("n"), 2000))}, Data: []byte{1}}}, fetch.ReasonCorrupt, ""},
	} {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer()
		fetchpb.RegisterFetchServer(srv, liar{chunks: c.chunks})
		go srv.Serve(lis)
		t.Cleanup(srv.Stop)
		got, err := fetched(t, client(t, fetch.ClientOptions{}), lis.Addr().String(), ask(1))
		if fetch.ReasonOf(err) != c.reason || got[0].Reason != c.first {
			t.Errorf("%s: error %v, answer %+v", name, err, got[0])
		}
	}
}

// TestNoSuchService: a server that is no agent.
func TestNoSuchService(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	go srv.Serve(lis)
	t.Cleanup(srv.Stop)
	if _, err := fetched(t, client(t, fetch.ClientOptions{}), lis.Addr().String(), ask(1)); fetch.ReasonOf(err) != fetch.ReasonVersion {
		t.Errorf("got %v", err)
	}
}

// TestLargestSample: one prepared sample of 545 MB.
func TestLargestSample(t *testing.T) {
	testdata.Soak(t)
	p := tensor(noise(545_000_000, 3))
	addr, o := overTCP(t, answers(p), auth.Insecure())
	got, err := fetched(t, client(t, o), addr, ask(1))
	if err != nil || got[0].Prepared == nil || !bytes.Equal(got[0].Prepared.Data, p.Data) {
		t.Fatalf("got reason %q, %v", got[0].Reason, err)
	}
}
