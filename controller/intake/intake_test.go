package intake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
)

// patience bounds a wait that is expected to end.
const patience = 2 * time.Minute

// listener is an engine that keeps what it is told, as words.
type listener struct {
	mu   sync.Mutex
	told []string
	who  []string
	more chan struct{} // holds a token when something was told
	fail error
}

func newListener() *listener { return &listener{more: make(chan struct{}, 1)} }

func (l *listener) Tell(_ context.Context, who string, ev plan.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.told, l.who = append(l.told, words(ev)), append(l.who, who)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

func words(ev plan.Event) string {
	switch ev := ev.(type) {
	case plan.Hint:
		if c := ev.Record.Checkpoint; c != nil {
			return fmt.Sprintf("%s %s %s", ev.Record.Job, c.State, c.Path)
		}
		return fmt.Sprintf("%s starts %d", ev.Record.Job, ev.Record.Start.Ranks)
	case plan.FanOut:
		return fmt.Sprintf("%s/%s fanout %q %v", ev.Job, ev.Run, ev.Path, ev.Ended)
	case plan.Took:
		return fmt.Sprintf("%s/%s took %v for %d of %q", ev.Job, ev.Run, ev.Last, ev.Bytes, ev.Paths)
	case plan.JobEnded:
		return fmt.Sprintf("%s/%s ended", ev.Job, ev.Run)
	}
	return fmt.Sprintf("%T", ev)
}

// wait waits until so much was told, and returns it.
func (l *listener) wait(t testing.TB, n int) []string {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		told := slices.Clone(l.told)
		l.mu.Unlock()
		if len(told) >= n {
			return told
		}
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("told %q, want %d", told, n)
		}
	}
}

// quick is a clock on which waiting takes no time worth mentioning. It goes as others do: agents renew their entries by theirs.
type quick struct{ began time.Time }

func (c quick) Now() time.Duration { return time.Since(c.began) }

func (c quick) After(d time.Duration) <-chan time.Time { return time.After(d / 1000) }

// agents are what is heard, each a server at a loopback address with a ledger.
type fakeAgent struct {
	t      testing.TB
	ledger *relay.Ledger
	addr   string
	stop   func()
}

func (a *fakeAgent) serve(addr string, s relay.Source) {
	lis, err := net.Listen("tcp", addr)
	must(a.t, err)
	srv, leaving := grpc.NewServer(), make(chan struct{})
	if s != nil {
		relay.Serve(srv, s, auth.Insecure(), leaving)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	a.addr = lis.Addr().String()
	a.stop = sync.OnceFunc(func() {
		close(leaving)
		srv.Stop()
		<-done
	})
	a.t.Cleanup(func() { a.stop() })
}

func newAgent(t testing.TB) *fakeAgent {
	t.Helper()
	a := &fakeAgent{t: t}
	a.open(filepath.Join(t.TempDir(), "ledger"))
	a.serve("127.0.0.1:0", a.ledger)
	return a
}

func (a *fakeAgent) open(file string) {
	l, err := relay.Open(relay.Options{File: file})
	must(a.t, err)
	a.ledger = l
	a.t.Cleanup(func() { must(a.t, l.Close()) })
}

func (a *fakeAgent) keeps(records ...relay.Record) {
	a.t.Helper()
	for _, r := range records {
		_, err := a.ledger.Append(a.t.Context(), r)
		must(a.t, err)
	}
}

func said(job, id string, kind any) relay.Record {
	r := relay.Record{ID: id, Job: job, Run: "run", TTLMS: 3_600_000, Confidence: 1, ReceivedMS: time.Now().UnixMilli()}
	switch kind := kind.(type) {
	case *relay.Checkpoint:
		r.Checkpoint = kind
	case *relay.Start:
		r.Start = kind
	case nil:
		r.Ended = true
	}
	return r
}

func committed(path string) *relay.Checkpoint {
	return &relay.Checkpoint{State: "committed", Path: path}
}

// running runs an intake until the test ends.
func running(t testing.TB, l *listener, st store.Store, change func(*Options)) *Intake {
	t.Helper()
	o := Options{Engine: l, Clock: quick{time.Now()}, Store: st, Report: func(err error) { t.Log(err) }}
	if change != nil {
		change(&o)
	}
	in, err := New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return in
}

func register(t testing.TB, st store.Store, node, addr string) {
	t.Helper()
	p := hints.NewPublisher(store.Files{Store: st}, hints.DefaultRegistry)
	must(t, p.Publish(t.Context(), hints.Entry{Node: node, Addr: addr, TTL: 10 * time.Minute, Versions: map[string]int{"hints": hints.ProtocolVersion}}))
}

// TestHearsAgents: what each agent keeps is told once, whoever says it and how often; agents come, die, come back at another address, and lose their ledger.
func TestHearsAgents(t *testing.T) {
	st, _ := folder(t, nil)
	a, b := newAgent(t), newAgent(t)
	a.keeps(said("j", "1", committed("/1")), said("j", "1", committed("/1")), said("j", "2", committed("/2")))
	register(t, st, "a", a.addr)
	l := newListener()
	in := running(t, l, st, nil)
	l.wait(t, 2)
	b.keeps(said("j", "2", committed("/2")), said("j", "3", committed("/3")))
	register(t, st, "b", b.addr)
	l.wait(t, 3)
	a.keeps(said("j", "4", committed("/4")))
	l.wait(t, 4)
	file := a.ledger.File()
	a.stop()
	must(t, a.ledger.Close())
	a.open(file)
	a.keeps(said("j", "5", committed("/5")))
	a.serve("127.0.0.1:0", a.ledger)
	register(t, st, "a", a.addr)
	l.wait(t, 5)
	b.stop() // and has lost its ledger when it comes back
	must(t, b.ledger.Close())
	b.open(filepath.Join(t.TempDir(), "another"))
	b.keeps(said("j", "6", committed("/6")))
	b.serve(b.addr, b.ledger)
	want := []string{"j committed /1", "j committed /2", "j committed /3", "j committed /4", "j committed /5", "j committed /6"}
	if got := l.wait(t, 6); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if !slices.Contains(l.who, "agent a") || !slices.Contains(l.who, "agent b") {
		t.Errorf("said by %q", l.who)
	}
	if s := in.Stats(); s.Told != 6 || s.Repeated < 2 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

// TestOlderAgents: one that hands nothing over does not keep others from being heard, and is asked again later.
func TestOlderAgents(t *testing.T) {
	st, _ := folder(t, nil)
	old := &fakeAgent{t: t}
	old.serve("127.0.0.1:0", nil)
	register(t, st, "a", old.addr)
	b := newAgent(t)
	b.keeps(said("j", "1", committed("/1")))
	register(t, st, "b", b.addr)
	l := newListener()
	running(t, l, st, nil)
	l.wait(t, 1)
	old.stop()
	old.open(filepath.Join(t.TempDir(), "ledger"))
	old.keeps(said("j", "2", committed("/2")))
	old.serve(old.addr, old.ledger)
	l.wait(t, 2)
}

// TestSilentAgents: why an agent does not answer is said, once for each time that it is silent, and not each time that it is asked.
func TestSilentAgents(t *testing.T) {
	st, _ := folder(t, nil)
	a := newAgent(t)
	a.keeps(said("j", "1", committed("/1")))
	a.stop()
	l, reports := newListener(), make(chan error, 100)
	running(t, l, st, func(o *Options) {
		o.Agents, o.Report = []string{"a=" + a.addr}, func(err error) { reports <- err }
	})
	silent := func() {
		t.Helper()
		select {
		case err := <-reports:
			if !errors.Is(err, hints.ErrUnreachable) || !strings.Contains(err.Error(), "agent a does not answer") || !strings.Contains(err.Error(), a.addr) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("nobody says why an agent is silent")
		}
	}
	silent()
	a.serve(a.addr, a.ledger)
	l.wait(t, 1)
	a.stop()
	silent()
	if n := len(reports); n > 0 {
		t.Errorf("%d more reports, such as %v", n, <-reports)
	}
}

// owned is a store whose registry files belong to whom a test says.
type owned struct {
	store.Store
	owner map[string]string
}

func (s owned) Stat(ctx context.Context, name string) (store.Info, error) {
	info, err := s.Store.Stat(ctx, name)
	info.Owner = s.of(name)
	return info, err
}

func (s owned) List(ctx context.Context, dir string) ([]store.Info, error) {
	infos, err := s.Store.List(ctx, dir)
	for i := range infos {
		infos[i].Owner = s.of(infos[i].Name)
	}
	return infos, err
}

func (s owned) of(name string) string {
	if owner, ok := s.owner[name]; ok {
		return owner
	}
	return "hdfs"
}

// TestForgedAgents: an agent that anybody may have registered is not believed, unless an operator gives its address.
func TestForgedAgents(t *testing.T) {
	st, _ := folder(t, nil)
	forged, good := newAgent(t), newAgent(t)
	register(t, st, "forged", forged.addr)
	register(t, st, "good", good.addr)
	forged.keeps(said("someone's", "1", committed("/secret")))
	good.keeps(said("j", "2", committed("/2")))
	theirs := owned{st, map[string]string{hints.EntryName(hints.DefaultRegistry, "forged"): "mallory"}}
	for _, given := range []bool{false, true} {
		l := newListener()
		var mu sync.Mutex
		var reports []string
		in := running(t, l, theirs, func(o *Options) {
			o.Report = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, err.Error())
			}
			if given {
				o.Agents = []string{"forged=" + forged.addr, good.addr}
			}
		})
		if given {
			l.wait(t, 2)
			continue
		}
		l.wait(t, 1)
		in.mu.Lock()
		if in.followed["forged"] != nil {
			t.Error("a forged agent is asked")
		}
		in.mu.Unlock()
		mu.Lock()
		if len(reports) != 1 || !strings.Contains(reports[0], "forged") {
			t.Errorf("reported: %q", reports)
		}
		mu.Unlock()
		if got := l.wait(t, 1); got[0] != "j committed /2" {
			t.Error(got)
		}
	}
}

// TestGivenAgents: one that is given by name and address is heard while the registry cannot be read.
func TestGivenAgents(t *testing.T) {
	st, _ := folder(t, nil)
	a := newAgent(t)
	a.keeps(said("j", "1", committed("/1")))
	l := newListener()
	running(t, l, unlisted{st}, func(o *Options) { o.Agents = []string{"a=" + a.addr, "127.0.0.1:9"} })
	l.wait(t, 1)
}

// unlisted is a store whose folders cannot be listed.
type unlisted struct{ store.Store }

func (unlisted) List(context.Context, string) ([]store.Info, error) { return nil, store.ErrUnavailable }

// TestReadsLedgers: a ledger's file is followed while an agent adds to it.
func TestReadsLedgers(t *testing.T) {
	st, _ := folder(t, nil)
	a := &fakeAgent{t: t}
	file := filepath.Join(t.TempDir(), "ledger")
	l := newListener()
	old := said("j", "old", committed("/old"))
	old.ReceivedMS -= hints.MaxTTL.Milliseconds()
	future := said("j", "future", committed("/future"))
	future.ReceivedMS += time.Hour.Milliseconds()
	in := running(t, l, st, func(o *Options) { o.Ledgers, o.Agents = []string{file}, []string{} })
	a.open(file)
	a.keeps(old, said("j", "1", committed("/1")), future)
	l.wait(t, 2)
	a.keeps(said("j", "2", nil))
	want := []string{"j committed /1", "j committed /future", "j/run ended"}
	if got := l.wait(t, 3); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if s := in.Stats(); s.Expired != 1 {
		t.Errorf("%+v", s)
	}
}

// TestWatches: what a job does not say of its checkpoints is noticed in its folder.
func TestWatches(t *testing.T) {
	const whole = "\x02\x00\x00\x00\x00\x00\x00\x00{}"
	st, root := folder(t, map[string]string{"runs/7b/step-1/model.safetensors": whole})
	l := newListener()
	running(t, l, st, func(o *Options) { o.Agents, o.Watched = []string{}, []Watched{{"/runs/7b", "7b"}} })
	l.wait(t, 1)
	write(t, filepath.Join(root, "runs/7b/step-2/model.safetensors"), whole)
	l.wait(t, 2)
	must(t, os.RemoveAll(filepath.Join(root, "runs/7b/step-1")))
	want := []string{"7b committed /runs/7b/step-1", "7b committed /runs/7b/step-2", "7b deleted /runs/7b/step-1"}
	if got := l.wait(t, 3); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestOneJobCannotDrownOthers: what a job says beyond its rate is not heard; others are, and it is reported once.
func TestOneJobCannotDrownOthers(t *testing.T) {
	st, _ := folder(t, nil)
	l := newListener()
	reports := 0
	in, err := New(Options{Engine: l, Clock: still{}, Store: st, Report: func(error) { reports++ }})
	must(t, err)
	for i := range 3 * jobBurst {
		must(t, in.take(t.Context(), "x", said("loud", fmt.Sprint(i), committed("/1")), 0))
	}
	must(t, in.take(t.Context(), "x", said("quiet", "1", committed("/1")), 0))
	if got := l.wait(t, 1); len(got) != jobBurst+1 || got[jobBurst] != "quiet committed /1" || reports != 1 {
		t.Errorf("%d told, the last %q, %d reports", len(got), got[len(got)-1], reports)
	}
	if s := in.Stats(); s.Dropped != 2*jobBurst {
		t.Errorf("%+v", s)
	}
}

// TestThousandTimes: the same hint, from many agents at once, is told once and costs the job nothing.
func TestThousandTimes(t *testing.T) {
	st, _ := folder(t, nil)
	l := newListener()
	in, err := New(Options{Engine: l, Clock: still{}, Store: st})
	must(t, err)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range 100 {
				if err := in.take(t.Context(), "x", said("j", "1", committed("/1")), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if s := in.Stats(); len(l.wait(t, 1)) != 1 || s.Told != 1 || s.Repeated != 999 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

// still is a clock that stands.
type still struct{}

func (still) Now() time.Duration                   { return time.Hour }
func (still) After(time.Duration) <-chan time.Time { return nil }

// TestEnds: Run ends when the engine takes nothing any more.
func TestEnds(t *testing.T) {
	st, _ := folder(t, nil)
	gone := errors.New("gone")
	for name, change := range map[string]func(*Options){
		"agent": func(o *Options) {
			a := newAgent(t)
			a.keeps(said("j", "1", committed("/1")))
			o.Agents = []string{"a=" + a.addr}
		},
		"ledger": func(o *Options) {
			a := newAgent(t)
			a.keeps(said("j", "1", committed("/1")))
			o.Ledgers = []string{a.ledger.File()}
		},
	} {
		o := Options{Engine: &listener{fail: gone}, Clock: quick{time.Now()}, Store: st, Agents: []string{}}
		change(&o)
		in, err := New(o)
		must(t, err)
		if err := in.Run(t.Context()); !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusesOptions(t *testing.T) {
	st, _ := folder(t, nil)
	for name, change := range map[string]func(*Options){
		"no engine":  func(o *Options) { o.Engine = nil },
		"no store":   func(o *Options) { o.Store = nil },
		"no clock":   func(o *Options) { o.Clock = nil },
		"an address": func(o *Options) { o.Agents = []string{"nowhere"} },
		"a folder":   func(o *Options) { o.Watched = []Watched{{"relative", "j"}} },
		"no job":     func(o *Options) { o.Watched = []Watched{{"/runs", ""}} },
	} {
		o := Options{Engine: newListener(), Clock: still{}, Store: st}
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
