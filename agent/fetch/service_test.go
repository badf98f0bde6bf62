package fetch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var planDigest = sha256.Sum256([]byte("plan"))

// agentFunc is a handler made of a function.
type agentFunc func(ctx context.Context, c auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error

func (f agentFunc) Fetch(ctx context.Context, c auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	return f(ctx, c, req, send)
}

// answers is a handler that sends these payloads, want by want.
func answers(payloads ...fetch.Payload) agentFunc {
	return func(_ context.Context, _ auth.Claims, _ *fetch.Request, send func(int, fetch.Payload) error) error {
		for want, p := range payloads {
			if err := send(want, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// serve runs an agent on a transport and returns its address and how to dial it.
type transport func(t testing.TB, h fetch.Handler, keys auth.Keyring) (addr string, o fetch.ClientOptions)

func inMemory(t testing.TB, h fetch.Handler, keys auth.Keyring) (string, fetch.ClientOptions) {
	lis := bufconn.Listen(1 << 20)
	start(t, lis, h, keys)
	return "127.0.0.1:1", fetch.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }}
}

func overTCP(t testing.TB, h fetch.Handler, keys auth.Keyring) (string, fetch.ClientOptions) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	start(t, lis, h, keys)
	return lis.Addr().String(), fetch.ClientOptions{}
}

func start(t testing.TB, lis net.Listener, h fetch.Handler, keys auth.Keyring) *grpc.Server {
	srv := grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(srv, "dn1", h, keys)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { srv.Stop(); <-done })
	return srv
}

func client(t testing.TB, o fetch.ClientOptions) *fetch.Client {
	c := fetch.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func ask(wants int) *fetch.Request {
	r := &fetch.Request{Job: "job", Run: "run", Step: 3, Progress: 2, Generation: 1, PlanDigests: map[string][32]byte{"image": planDigest}}
	for i := range wants {
		r.Wants = append(r.Wants, fetch.Want{Sample: uint64(i), Epoch: 1, Field: "image"})
	}
	return r
}

// fetched runs a fetch and collects its answers.
func fetched(t testing.TB, c *fetch.Client, addr string, req *fetch.Request) (map[int]fetch.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := map[int]fetch.Answer{}
	err := c.Fetch(ctx, addr, req, heap, func(want int, a fetch.Answer) {
		if _, again := got[want]; again {
			t.Errorf("want %d is answered twice", want)
		}
		got[want] = a
	})
	return got, err
}

func heap(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil }

func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i*7) ^ seed
	}
	return b
}

func tensor(data []byte) fetch.Payload {
	return fetch.Payload{
		Spec: transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{len(data), 1, 1}}, Data: data,
		CRC: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), PlanDigest: planDigest,
		LeadTime: 2 * time.Second, PrepareCPU: 5 * time.Millisecond,
	}
}

func rawBytes(data []byte, r fetch.Reason) fetch.Payload {
	p := tensor(data)
	return fetch.Payload{Raw: true, Data: data, Reason: r, CRC: p.CRC}
}

// TestEveryKindOfAnswer sends entries of all kinds and of sizes around the edges of a chunk.
func TestEveryKindOfAnswer(t *testing.T) {
	var want []fetch.Payload
	for i, size := range []int{1, 1000, 1024, 1025, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3<<20 + 7} {
		want = append(want, tensor(noise(size, byte(i))), rawBytes(noise(size, byte(i)), fetch.ReasonCPU))
	}
	want = append(want, rawBytes(nil, fetch.ReasonPoison), fetch.Payload{Reason: fetch.ReasonUnknownJob})
	for name, serve := range map[string]transport{"memory": inMemory, "tcp": overTCP} {
		t.Run(name, func(t *testing.T) {
			count := make([]atomic.Int32, len(want))
			sent := make([]fetch.Payload, len(want))
			for i, p := range want {
				p.Release = func() { count[i].Add(1) }
				sent[i] = p
			}
			addr, o := serve(t, answers(sent...), auth.Insecure())
			got, err := fetched(t, client(t, o), addr, ask(len(want)))
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range want {
				check(t, i, got[i], p)
			}
			eventually(t, "every payload is released once", func() bool { return onceEach(t, count) })
		})
	}
}

func check(t *testing.T, want int, a fetch.Answer, p fetch.Payload) {
	t.Helper()
	switch {
	case a.Node != "dn1" || a.Reason != p.Reason || a.LeadTime != p.LeadTime || a.PrepareCPU != p.PrepareCPU:
		t.Errorf("want %d: got node %q, reason %q, %s, %s", want, a.Node, a.Reason, a.LeadTime, a.PrepareCPU)
	case p.Raw && (a.Raw == nil || a.Prepared != nil || !bytes.Equal(a.Raw, p.Data)):
		t.Errorf("want %d: raw bytes differ", want)
	case !p.Raw && p.Reason == "" && (a.Prepared == nil || !bytes.Equal(a.Prepared.Data, p.Data) || fmt.Sprint(a.Prepared.Spec) != fmt.Sprint(p.Spec)):
		t.Errorf("want %d: tensor differs", want)
	case !p.Raw && p.Reason != "" && (a.Raw != nil || a.Prepared != nil):
		t.Errorf("want %d: bytes came with %q", want, a.Reason)
	}
}

// onceEach fails at once for a payload that was released twice.
func onceEach(t testing.TB, count []atomic.Int32) bool {
	all := true
	for i := range count {
		switch n := count[i].Load(); {
		case n > 1:
			t.Fatalf("payload %d was released %d times", i, n)
		case n == 0:
			all = false
		}
	}
	return all
}

// eventually polls: what it waits for happens on goroutines of gRPC.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestRequestArrives: the handler sees what the loader asked for.
func TestRequestArrives(t *testing.T) {
	want := ask(2)
	want.Dataset, want.Deadline = [32]byte{4, 2}, 1500*time.Millisecond
	want.PlanDigests["depth"] = [32]byte{9}
	want.Wants[1].Field = "depth"
	var got *fetch.Request
	h := agentFunc(func(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
		got = req
		return answers(fetch.Payload{Reason: fetch.ReasonIdentity}, fetch.Payload{Reason: fetch.ReasonIdentity})(nil, auth.Claims{}, nil, send)
	})
	addr, o := inMemory(t, h, auth.Insecure())
	o.MaxEntry = 12345
	if _, err := fetched(t, client(t, o), addr, want); err != nil {
		t.Fatal(err)
	}
	want.MaxEntry = 12345
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestManyAtOnce: one client, one connection, many fetches.
func TestManyAtOnce(t *testing.T) {
	payload := tensor(noise(300<<10, 1))
	addr, o := overTCP(t, answers(payload, payload), auth.Insecure())
	c := client(t, o)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := fetched(t, c, addr, ask(2))
			if err != nil || len(got) != 2 || !bytes.Equal(got[1].Prepared.Data, payload.Data) {
				t.Errorf("%d answers, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

// TestOversize: an entry that the loader does not take comes as a reason, and costs no other.
func TestOversize(t *testing.T) {
	addr, o := inMemory(t, answers(tensor(noise(5000, 1)), tensor(noise(4000, 2))), auth.Insecure())
	o.MaxEntry = 4096
	got, err := fetched(t, client(t, o), addr, ask(2))
	if err != nil || got[0].Reason != fetch.ReasonMemory || got[1].Prepared == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// TestHandlerMistakes: a handler's bug ends the fetch and still releases what it gave.
func TestHandlerMistakes(t *testing.T) {
	good := tensor(noise(2000, 1))
	short := tensor(noise(2000, 1))
	short.Spec.Shape = []int{1, 1, 1}
	for name, c := range map[string]struct {
		want int
		p    fetch.Payload
	}{
		"index":              {7, good},
		"negative index":     {-1, good},
		"sent twice":         {0, good},
		"shape":              {1, short},
		"raw without reason": {1, fetch.Payload{Raw: true, Data: good.Data}},
		"bytes with none":    {1, fetch.Payload{Data: good.Data, Reason: fetch.ReasonIdentity}},
		"loader's reason":    {1, rawBytes(good.Data, fetch.ReasonCorrupt)},
	} {
		var released atomic.Int32
		h := agentFunc(func(_ context.Context, _ auth.Claims, _ *fetch.Request, send func(int, fetch.Payload) error) error {
			if err := send(0, good); err != nil {
				return err
			}
			c.p.Release = func() { released.Add(1) }
			return send(c.want, c.p)
		})
		addr, o := inMemory(t, h, auth.Insecure())
		got, err := fetched(t, client(t, o), addr, ask(2))
		if err == nil || fetch.ReasonOf(err) != fetch.ReasonUnreachable || got[0].Prepared == nil {
			t.Errorf("%s: error %v, %d answers", name, err, len(got))
		}
		if released.Load() != 1 {
			t.Errorf("%s: released %d times", name, released.Load())
		}
	}
	addr, o := inMemory(t, answers(good), auth.Insecure())
	if _, err := fetched(t, client(t, o), addr, ask(2)); err == nil {
		t.Error("a want left unanswered is no error")
	}
}

// TestBadRequests are refused before they are sent.
func TestBadRequests(t *testing.T) {
	c := client(t, fetch.ClientOptions{})
	for name, change := range map[string]func(r *fetch.Request){
		"no job":            func(r *fetch.Request) { r.Job = "" },
		"long run":          func(r *fetch.Request) { r.Run = string(noise(300, 1)) },
		"negative step":     func(r *fetch.Request) { r.Step = -1 },
		"negative progress": func(r *fetch.Request) { r.Progress = -1 },
		"negative deadline": func(r *fetch.Request) { r.Deadline = -1 * time.Second },
		"field unknown":     func(r *fetch.Request) { r.Wants[0].Field = "sound" },
		"too many":          func(r *fetch.Request) { r.Wants = make([]fetch.Want, 1<<16+1) },
	} {
		req := ask(1)
		change(req)
		if _, err := fetched(t, c, "127.0.0.1:1", req); err == nil || fetch.ReasonOf(err) == fetch.ReasonNone {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fetched(t, c, "127.0.0.1:1", ask(0)); err != nil {
		t.Errorf("nothing wanted: %v", err)
	}
	if _, err := fetched(t, c, "192.0.2.1:1", ask(1)); err == nil {
		t.Error("plain text to another host is allowed")
	}
}
