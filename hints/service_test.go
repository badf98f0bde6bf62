package hints_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/hintspb"
	"github.com/stepahead-io/stepahead/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type handler func(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error)

func (f handler) Announce(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	return f(ctx, h, c)
}

func accept(context.Context, hints.Hint, auth.Claims) (hints.Reply, error) {
	return hints.Accept(), nil
}

// serve runs an agent's hints service in memory and returns a client's options for it.
func serve(t *testing.T, h hints.Handler, keys auth.Keyring) hints.ClientOptions {
	lis := bufconn.Listen(1 << 20)
	srv := grpc.NewServer()
	hints.Serve(srv, h, keys)
	run(t, srv, lis)
	return hints.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }}
}

func run(t *testing.T, srv *grpc.Server, lis net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { srv.Stop(); <-done })
}

func announce(t *testing.T, o hints.ClientOptions, addr string, h hints.Hint) (hints.Reply, error) {
	t.Helper()
	c := hints.NewClient(o)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Announce(ctx, addr, h)
}

const here = "127.0.0.1:1"

func schedule() hints.Hint {
	plan := []byte(`{"ops":[],"plan":1}`)
	id := sha256.Sum256([]byte("photos"))
	return hints.Hint{
		ID: hints.NewID(), Job: "job", Run: hints.NewID(), TTL: time.Minute, Confidence: 1, Identity: id,
		Schedule: &hints.Schedule{
			DatasetURL: "/photos", Dataset: id, Spec: []byte(`{}`), FirstStep: 5,
			Fields: []hints.FieldPlan{{Field: "image", Plan: plan, Digest: sha256.Sum256(plan)}},
			Agents: []hints.Agent{{Node: "dn1", Addr: "127.0.0.1:4000"}},
		},
	}
}

func TestAnnounce(t *testing.T) {
	want := schedule()
	var got hints.Hint
	o := serve(t, handler(func(_ context.Context, h hints.Hint, _ auth.Claims) (hints.Reply, error) {
		got = h
		return hints.Refuse(hints.ReasonIdentity, "another dataset.json"), nil
	}), auth.Insecure())
	r, err := announce(t, o, here, want)
	if err != nil || r != hints.Refuse(hints.ReasonIdentity, "another dataset.json") {
		t.Fatalf("got %+v, %v", r, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if r, err := announce(t, serve(t, handler(accept), auth.Insecure()), here, want); err != nil || !r.Accepted {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestWindow: both kinds of hint that carry one reach the handler.
func TestWindow(t *testing.T) {
	window := &hints.Window{Epoch: 1, FirstStep: 3, Steps: [][]hints.WindowSample{{{Sample: 4}}}}
	h := schedule()
	h.Schedule.Spec, h.Schedule.Window = nil, window
	more := h
	more.ID, more.Schedule, more.Window = hints.NewID(), nil, window
	var got []*hints.Window
	o := serve(t, handler(func(_ context.Context, h hints.Hint, _ auth.Claims) (hints.Reply, error) {
		if h.Schedule != nil {
			got = append(got, h.Schedule.Window)
		} else {
			got = append(got, h.Window)
		}
		return hints.Accept(), nil
	}), auth.Insecure())
	for _, h := range []hints.Hint{h, more} {
		if r, err := announce(t, o, here, h); err != nil || !r.Accepted {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	if !reflect.DeepEqual(got, []*hints.Window{window, window}) {
		t.Errorf("got %+v", got)
	}
}

// TestLargestSchedule: a job on thousands of nodes fits; what does not is refused before it is sent.
func TestLargestSchedule(t *testing.T) {
	h := schedule()
	h.Schedule.Agents = nil
	for range 10_000 {
		h.Schedule.Agents = append(h.Schedule.Agents, hints.Agent{Node: hints.NewID() + hints.NewID(), Addr: strings.Repeat("h", 250) + ":65535"})
	}
	o := serve(t, handler(accept), auth.Insecure())
	if r, err := announce(t, o, here, h); err != nil || !r.Accepted {
		t.Errorf("got %+v, %v", r, err)
	}
	for range 5_000 {
		h.Schedule.Agents = append(h.Schedule.Agents, hints.Agent{Node: hints.NewID() + hints.NewID(), Addr: strings.Repeat("h", 250) + ":65535"})
	}
	if _, err := announce(t, o, here, h); !errors.Is(err, hints.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestServerTrustsNobody: what a client of ours would not send is refused all the same.
func TestServerTrustsNobody(t *testing.T) {
	o := serve(t, handler(func(context.Context, hints.Hint, auth.Claims) (hints.Reply, error) {
		t.Error("the handler was reached")
		return hints.Accept(), nil
	}), auth.Insecure())
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithContextDialer(o.Dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, m := range map[string]*hintspb.Hint{
		"empty":     {Version: 1},
		"identity":  {Version: 1, Id: "i", Job: "j", Run: "r", TtlMs: 1000, Confidence: 1, Identity: make([]byte, 31), Kind: &hintspb.Hint_Close{}},
		"long ttl":  {Version: 1, Id: "i", Job: "j", Run: "r", TtlMs: 1 << 62, Confidence: 1, Identity: make([]byte, 32), Kind: &hintspb.Hint_Close{}},
		"no fields": {Version: 1, Id: "i", Job: "j", Run: "r", TtlMs: 1000, Confidence: 1, Identity: make([]byte, 32), Kind: &hintspb.Hint_Schedule{}},
	} {
		if _, err := hintspb.NewHintsClient(conn).Announce(context.Background(), m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, version := range []uint32{0, hints.ProtocolVersion + 1} {
		r, err := hintspb.NewHintsClient(conn).Announce(context.Background(), &hintspb.Hint{Version: version})
		if err != nil || r.Accepted || r.Reason != string(hints.ReasonVersion) {
			t.Errorf("version %d: got %v, %v", version, r, err)
		}
	}
	huge := &hintspb.Hint{Version: 1, Identity: make([]byte, hints.MaxMessage+1)}
	if _, err := hintspb.NewHintsClient(conn).Announce(context.Background(), huge); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("huge message: got %v", err)
	}
}

// oddAgent says what it likes.
type oddAgent struct {
	hintspb.UnimplementedHintsServer
	reply *hintspb.Reply
}

func (a oddAgent) Announce(context.Context, *hintspb.Hint) (*hintspb.Reply, error) {
	return a.reply, nil
}

// TestOddReplies: the client makes sense of any agent.
func TestOddReplies(t *testing.T) {
	for name, c := range map[string]struct {
		reply *hintspb.Reply
		want  hints.Reply
	}{
		"new reason":            {&hintspb.Reply{Reason: "moon-phase"}, hints.Refuse(hints.ReasonVersion, "")},
		"no reason":             {&hintspb.Reply{}, hints.Refuse(hints.ReasonVersion, "")},
		"accepted, with reason": {&hintspb.Reply{Accepted: true, Reason: "denied"}, hints.Refuse(hints.ReasonDenied, "")},
	} {
		lis := bufconn.Listen(1 << 16)
		srv := grpc.NewServer()
		hintspb.RegisterHintsServer(srv, oddAgent{reply: c.reply})
		run(t, srv, lis)
		o := hints.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }}
		if r, err := announce(t, o, here, schedule()); err != nil || r != c.want {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	lis := bufconn.Listen(1 << 16)
	run(t, grpc.NewServer(), lis)
	o := hints.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }}
	if r, err := announce(t, o, here, schedule()); err != nil || r.Reason != hints.ReasonVersion {
		t.Errorf("a server without the service: %+v, %v", r, err)
	}
}

func TestErrorsOfAnnounce(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := announce(t, hints.ClientOptions{}, lis.Addr().String(), schedule()); !errors.Is(err, hints.ErrUnreachable) || time.Since(begin) > 5*time.Second {
		t.Errorf("dead agent: %v after %s", err, time.Since(begin))
	}
	if _, err := announce(t, hints.ClientOptions{}, "192.0.2.1:1", schedule()); err == nil {
		t.Error("plain text to another host is allowed")
	}
	if _, err := announce(t, hints.ClientOptions{}, here, hints.Hint{}); !errors.Is(err, hints.ErrInvalid) {
		t.Errorf("empty hint: %v", err)
	}
	o := serve(t, handler(func(ctx context.Context, _ hints.Hint, _ auth.Claims) (hints.Reply, error) {
		<-ctx.Done()
		return hints.Reply{}, ctx.Err()
	}), auth.Insecure())
	c := hints.NewClient(o)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Announce(ctx, here, schedule()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent agent: %v", err)
	}
	failing := serve(t, handler(func(context.Context, hints.Hint, auth.Claims) (hints.Reply, error) {
		return hints.Reply{}, errors.New("out of luck")
	}), auth.Insecure())
	if _, err := announce(t, failing, here, schedule()); err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("failing agent: %v", err)
	}
}

func TestTokens(t *testing.T) {
	key, err := auth.NewKey("k1", []byte(strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	mint := func(job, right string, ttl time.Duration) string {
		token, err := auth.Mint(key, auth.Claims{Job: job, User: "u", Roots: []string{"/"}, Rights: []string{right}, Expires: time.Now().Add(ttl)})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	o := serve(t, handler(accept), keys)
	for name, token := range map[string]string{
		"missing": "", "nonsense": "x", "expired": mint("job", auth.RightHint, -time.Hour), "another right": mint("job", auth.RightFetch, time.Hour),
	} {
		o.Token = token
		if _, err := announce(t, o, here, schedule()); !errors.Is(err, hints.ErrDenied) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	o.Token = mint("other", auth.RightHint, time.Hour)
	if r, err := announce(t, o, here, schedule()); err != nil || r.Reason != hints.ReasonDenied {
		t.Errorf("another job: got %+v, %v", r, err)
	}
	o.Token = mint("job", auth.RightHint, time.Hour)
	if r, err := announce(t, o, here, schedule()); err != nil || !r.Accepted {
		t.Errorf("good token: got %+v, %v", r, err)
	}
}
