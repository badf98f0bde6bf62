package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// agent is one that answers as told, and remembers what it took.
type agent struct {
	mu     sync.Mutex
	answer hints.Reply
	took   []hints.Hint
	addr   string
	stop   func()
}

func (a *agent) Announce(_ context.Context, h hints.Hint, _ auth.Claims) (hints.Reply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answer.Accepted {
		a.took = append(a.took, h)
	}
	return a.answer, nil
}

func (a *agent) hints() []hints.Hint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.took
}

// cluster is a store with agents in its registry.
type cluster struct {
	t     testing.TB
	store store.Store
	mu    sync.Mutex
	errs  []error
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	s, _, err := dir.Open(t.TempDir(), dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &cluster{t: t, store: s}
}

// start runs an agent that gives an answer.
func (c *cluster) start(node string, answer hints.Reply) *agent {
	c.t.Helper()
	a := &agent{answer: answer}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(c.t, err)
	srv := grpc.NewServer()
	hints.Serve(srv, a, auth.Insecure())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(lis) }()
	a.stop = sync.OnceFunc(func() {
		srv.Stop()
		<-ended
	})
	c.t.Cleanup(a.stop)
	a.addr = lis.Addr().String()
	c.register(node, a.addr)
	return a
}

func (c *cluster) register(node, addr string) {
	c.t.Helper()
	must(c.t, hints.NewPublisher(store.Files{Store: c.store}, hints.DefaultRegistry).Publish(context.Background(),
		hints.Entry{Node: node, Addr: addr, Versions: map[string]int{"hints": 3}, TTL: 10 * time.Minute}))
}

// announcer is one whose pauses take no time; each calls paused.
func (c *cluster) announcer(paused func(n int), change func(*Options)) *Announcer {
	c.t.Helper()
	n := 0
	o := Options{
		Open: func(context.Context) (store.Store, error) { return c.store, nil }, Job: "job", Run: "run",
		Report: func(err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.errs = append(c.errs, err)
		},
	}
	o.testing.pause = func(ctx context.Context, _ time.Duration) error {
		n++
		if paused != nil {
			paused(n)
		}
		return ctx.Err()
	}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	must(c.t, err)
	c.t.Cleanup(a.Close)
	return a
}

func about(state hints.CheckpointState) hints.Hint {
	return hints.Hint{Checkpoint: &hints.Checkpoint{State: state, Path: "/ckpt/step-1", Step: 1}}
}

func flush(t testing.TB, a *Announcer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must(t, a.Flush(ctx))
}

// TestTells: a save is told to all agents, what is only to be kept to some; in order, each once.
func TestTells(t *testing.T) {
	c := newCluster(t)
	var agents []*agent
	for i := range 6 {
		agents = append(agents, c.start(fmt.Sprint("dn", i), hints.Accept()))
	}
	a := c.announcer(nil, nil)
	for _, state := range []hints.CheckpointState{hints.Saving, hints.EvaluationScheduled, hints.LossSpike, hints.Committed, hints.Deleted} {
		must(t, a.Say(about(state), nil))
	}
	must(t, a.Say(hints.Hint{Start: &hints.Start{Ranks: 8, RanksPerHost: 8}}, nil))
	flush(t, a)
	counts := map[string]int{}
	for _, agent := range agents {
		last := uint64(0)
		for _, h := range agent.hints() {
			if h.Job != "job" || h.Run != "run" || h.ID == "" || h.TTL != time.Hour || h.Confidence != 1 {
				t.Errorf("%+v", h)
			}
			if h.Start != nil {
				counts["start"]++
				continue
			}
			counts[h.Checkpoint.State.String()]++
			if h.Checkpoint.Sequence <= last {
				t.Errorf("%s has number %d, after %d", h.Checkpoint.State, h.Checkpoint.Sequence, last)
			}
			last = h.Checkpoint.Sequence
		}
	}
	want := "map[committed:6 deleted:6 evaluation-scheduled:3 loss-spike:3 saving:6 start:3]"
	if got := fmt.Sprint(counts); got != want || a.Stats() != (Stats{Told: 6}) {
		t.Errorf("%s, want %s; %+v", got, want, a.Stats())
	}
}

// TestRetries: an agent that is not there yet, or cannot keep it now, is asked again.
func TestRetries(t *testing.T) {
	c := newCluster(t)
	var first *agent
	a := c.announcer(func(n int) {
		switch n {
		case 2:
			first = c.start("dn1", hints.Refuse(hints.ReasonUnavailable, "full"))
		case 4:
			first.mu.Lock()
			first.answer = hints.Accept()
			first.mu.Unlock()
		}
	}, nil)
	must(t, a.Say(about(hints.Saving), nil))
	flush(t, a)
	if len(first.hints()) != 1 || a.Stats() != (Stats{Told: 1}) {
		t.Errorf("%v, %+v, %v", first.hints(), a.Stats(), c.errs)
	}
}

// remote is a store whose files are not on this host: entries of the registry that are written again are taken for the same.
type remote struct{ store.Store }

// TestMoved: an agent that was started again listens elsewhere, and is told.
func TestMoved(t *testing.T) {
	c := newCluster(t)
	c.store = remote{c.store}
	before := c.start("dn1", hints.Accept())
	a := c.announcer(nil, nil)
	must(t, a.Say(about(hints.Saving), nil))
	flush(t, a)
	before.stop()
	after := c.start("dn1", hints.Accept())
	must(t, a.Say(about(hints.Committed), nil))
	flush(t, a)
	if len(before.hints()) != 1 || len(after.hints()) != 1 || a.Stats() != (Stats{Told: 2}) {
		t.Errorf("%v, %v, %+v, %v", before.hints(), after.hints(), a.Stats(), c.errs)
	}
}

// TestNotTold: what nobody takes is reported, and the next hint is sent all the same.
func TestNotTold(t *testing.T) {
	c := newCluster(t)
	a := c.announcer(nil, nil)
	must(t, a.Say(about(hints.Saving), nil))
	flush(t, a)
	if a.Stats() != (Stats{Lost: 1}) || !errors.Is(c.errs[0], ErrLost) || !strings.Contains(c.errs[0].Error(), "saving of /ckpt/step-1") || !strings.Contains(c.errs[0].Error(), "no agents") {
		t.Errorf("%+v, %v", a.Stats(), c.errs)
	}
	refusing := c.start("dn1", hints.Refuse(hints.ReasonDenied, "not yours"))
	must(t, a.Say(about(hints.Saving), nil))
	flush(t, a)
	if a.Stats() != (Stats{Lost: 1, Refused: 1}) || !errors.Is(c.errs[1], ErrRefused) || !strings.Contains(c.errs[1].Error(), "not yours") {
		t.Errorf("%+v, %v", a.Stats(), c.errs)
	}
	c.register("dn2", "127.0.0.1:1") // does not answer: it might take it later
	a = c.announcer(nil, nil)        // with a list of agents that is not of before
	must(t, a.Say(about(hints.Committed), nil))
	flush(t, a)
	if a.Stats() != (Stats{Lost: 1}) {
		t.Errorf("%+v, %v", a.Stats(), c.errs)
	}
	refusing.mu.Lock()
	refusing.answer = hints.Accept()
	refusing.mu.Unlock()
	must(t, a.Say(about(hints.Deleted), nil))
	flush(t, a)
	if a.Stats() != (Stats{Lost: 1, Told: 1}) {
		t.Errorf("%+v, %v", a.Stats(), c.errs)
	}
}

// TestCompletes: what is looked up before a hint is sent is in it, and what cannot be looked up is not sent.
func TestCompletes(t *testing.T) {
	c := newCluster(t)
	taker := c.start("dn1", hints.Accept())
	a := c.announcer(nil, nil)
	must(t, a.Say(about(hints.Committed), func(_ context.Context, h *hints.Hint) error {
		h.Checkpoint.Layout = "dcp"
		return nil
	}))
	must(t, a.Say(about(hints.Committed), func(context.Context, *hints.Hint) error { return fs.ErrNotExist }))
	must(t, a.Say(about(hints.Committed), func(_ context.Context, h *hints.Hint) error {
		h.Checkpoint.Urgency = 2
		return nil
	}))
	flush(t, a)
	if got := taker.hints(); len(got) != 1 || got[0].Checkpoint.Layout != "dcp" || a.Stats() != (Stats{Told: 1, Lost: 2}) {
		t.Errorf("%+v, %+v", got, a.Stats())
	}
	if !errors.Is(c.errs[0], fs.ErrNotExist) || !errors.Is(c.errs[1], hints.ErrInvalid) {
		t.Errorf("%v", c.errs)
	}
}

// TestFits: what has more files than a message has room for is told all the same.
func TestFits(t *testing.T) {
	c := newCluster(t)
	taker := c.start("dn1", hints.Accept())
	a := c.announcer(nil, nil)
	name := func(i int) string { return fmt.Sprintf("%0200d", i) }
	committed, start := about(hints.Committed), hints.Hint{Start: &hints.Start{Ranks: 8, RanksPerHost: 8}}
	for i := range hints.MaxFiles {
		committed.Checkpoint.Files = append(committed.Checkpoint.Files, hints.CheckpointFile{Name: name(i), Size: 1})
		start.Start.Files = append(start.Start.Files, hints.HotFile{Path: name(i), Readers: 8})
	}
	must(t, a.Say(committed, nil))
	must(t, a.Say(start, nil))
	flush(t, a)
	got := taker.hints()
	if len(got) != 2 || a.Stats() != (Stats{Told: 2}) {
		t.Fatalf("%d hints, %+v, %v", len(got), a.Stats(), c.errs)
	}
	if n := len(got[0].Checkpoint.Files); n != 0 {
		t.Errorf("%d files of a checkpoint, whose list is whole or none", n)
	}
	files := got[1].Start.Files
	if n := len(files); n < hints.MaxMessage/220 || n >= hints.MaxFiles || files[n-1].Path != name(n-1) {
		t.Errorf("%d files of a start", n)
	}
	if len(start.Start.Files) != hints.MaxFiles {
		t.Error("the caller's hint is changed")
	}
}

// TestEndsFirst: what is lost because the process ends says so, and why it was not told before.
func TestEndsFirst(t *testing.T) {
	c := newCluster(t)
	paused := make(chan struct{})
	a := c.announcer(nil, func(o *Options) {
		o.testing.pause = func(ctx context.Context, _ time.Duration) error {
			close(paused)
			<-ctx.Done()
			return ctx.Err()
		}
	})
	must(t, a.Say(about(hints.Saving), nil))
	<-paused
	must(t, a.Say(about(hints.Committed), func(ctx context.Context, _ *hints.Hint) error { return ctx.Err() }))
	a.Close()
	for n, want := range []string{"the process ended first; before that: no agents found", "not told: the process ended first"} {
		if len(c.errs) != 2 || !errors.Is(c.errs[n], ErrLost) || !strings.Contains(c.errs[n].Error(), want) || strings.Contains(c.errs[n].Error(), "canceled") {
			t.Errorf("%v, want %q", c.errs, want)
		}
	}
}

// TestNeverWaits: with a store that does not answer, saying takes no time, Flush ends when it must, and Close too; what was not sent is lost.
func TestNeverWaits(t *testing.T) {
	c := newCluster(t)
	asked := make(chan struct{}, 1)
	var a *Announcer
	reported := atomic.Int64{}
	a = c.announcer(nil, func(o *Options) {
		o.Report = func(error) {
			reported.Add(1)
			_ = a.Stats() // it may ask
		}
		o.Open = func(ctx context.Context) (store.Store, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	must(t, a.Say(about(hints.Saving), nil))
	<-asked
	const more = mostWaiting + 10
	for range more {
		must(t, a.Say(about(hints.Saving), nil))
	}
	if got := a.Stats().Lost; got != 10 {
		t.Errorf("%d are lost, the oldest 10 were to be", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	a.Close()
	if a.Stats() != (Stats{Lost: more + 1}) || reported.Load() != more+1 {
		t.Errorf("%+v, %d are reported", a.Stats(), reported.Load())
	}
	if err := a.Say(about(hints.Saving), nil); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	must(t, a.Flush(t.Context()))
	a.Close()
}

func TestRefusesOptions(t *testing.T) {
	open := func(context.Context) (store.Store, error) { return nil, fs.ErrInvalid }
	for name, o := range map[string]Options{
		"nothing":  {},
		"no run":   {Open: open, Job: "j"},
		"a token":  {Open: open, Job: "j", Run: "r", Token: "x"},
		"an agent": {Open: open, Job: "j", Run: "r", Agents: []string{"dn1"}},
	} {
		if a, err := New(o); err == nil {
			a.Close()
			t.Errorf("%s is taken", name)
		}
	}
	a := newCluster(t).announcer(nil, nil)
	if err := a.Say(hints.Hint{}, nil); !errors.Is(err, hints.ErrInvalid) {
		t.Errorf("no kind: %v", err)
	}
}

// TestAgo: a hint says how long ago it was said, whenever it is told.
func TestAgo(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	now := time.Now()
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	var a *agent
	an := c.announcer(func(n int) { // nobody is there at first
		pass(7 * time.Second)
		if n == 2 {
			a = c.start("dn1", hints.Accept())
		}
	}, func(o *Options) {
		o.testing.now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}
	})
	must(t, an.Say(about(hints.Committed), func(context.Context, *hints.Hint) error {
		pass(3 * time.Second)
		return nil
	}))
	flush(t, an)
	must(t, an.Say(about(hints.Deleted), nil))
	flush(t, an)
	took := a.hints()
	if len(took) != 2 || took[0].Checkpoint.Ago != 17*time.Second || took[1].Checkpoint.Ago != 0 {
		t.Fatalf("took %+v", took)
	}
}

// TestAgoFar: how long it takes to find the agents counts as well.
func TestAgoFar(t *testing.T) {
	c := newCluster(t)
	a := c.start("dn1", hints.Accept())
	var passed atomic.Int64
	began := time.Now()
	an := c.announcer(nil, func(o *Options) {
		o.testing.now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
		open := o.Open
		o.Open = func(ctx context.Context) (store.Store, error) {
			passed.Add(int64(4 * time.Second))
			return open(ctx)
		}
	})
	must(t, an.Say(about(hints.EvaluationOpened), nil))
	flush(t, an)
	if took := a.hints(); len(took) != 1 || took[0].Checkpoint.Ago != 4*time.Second {
		t.Fatalf("took %+v", took)
	}
}
