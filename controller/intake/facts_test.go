package intake

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

// listing is a store with nodes.
type listing struct {
	store.Store
	nodes []store.Node
	err   error
}

func (l *listing) Nodes(context.Context) ([]store.Node, error) { return l.nodes, l.err }

// keeper is an engine that keeps events.
type keeper struct {
	mu     sync.Mutex
	events []plan.Event
}

func (k *keeper) Tell(_ context.Context, _ string, ev plan.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, ev)
	return nil
}

// take returns what was told since.
func (k *keeper) take() []plan.Event {
	all := k.events
	k.events = nil
	return all
}

// hands is a clock that a test moves.
type hands struct{ now atomic.Int64 }

func (h *hands) Now() time.Duration { return time.Duration(h.now.Add(1)) }

func (h *hands) pass(d time.Duration) { h.now.Add(int64(d)) }

func (h *hands) After(time.Duration) <-chan time.Time { return nil }

func facts(t testing.TB, home store.Store, sites map[string]store.Store, change func(*FactsOptions)) (*Facts, *keeper, *hands) {
	t.Helper()
	k, c := &keeper{}, &hands{}
	all := stores{home: home, sites: sites}
	o := FactsOptions{Engine: k, Clock: c, Stores: all, Looker: NewLooker(LookerOptions{Stores: all}), Controller: "ctl"}
	if change != nil {
		change(&o)
	}
	f, err := NewFacts(o)
	must(t, err)
	return f, k, c
}

func nodes(n int, change func(i int, n *store.Node)) (all []store.Node) {
	for i := range n {
		one := store.Node{Free: 100, Load: -1, InService: true}
		if change != nil {
			change(i, &one)
		}
		all = append(all, one)
	}
	return all
}

// TestSurvey: what an ordinary user is told of nodes; what he is not, is as configured.
func TestSurvey(t *testing.T) {
	s := survey{configured: plan.Cluster{NodeRate: 5, ReadersPerSource: 6, MaxReplication: 7, Load: 0.3}, tagged: "ARCHIVE"}
	base := plan.Cluster{Nodes: 4, Free: 40, NodeRate: 5, ReadersPerSource: 6, MaxReplication: 7, Load: 0.3}
	with := func(change func(*plan.Cluster)) plan.Cluster {
		c := base
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		nodes []store.Node
		want  plan.Cluster
	}{
		"plain":   {nodes(4, nil), base},
		"tagged":  {nodes(4, func(i int, n *store.Node) { n.Types = []string{"ARCHIVE", "DISK"}[i%2:] }), with(func(c *plan.Cluster) { c.Tagged = 2 })},
		"leaving": {nodes(6, func(i int, n *store.Node) { n.InService = i > 1 }), base},
		"busy":    {nodes(4, func(i int, n *store.Node) { n.Load = busyTransfers / 2 * i }), with(func(c *plan.Cluster) { c.Load = (0 + 0.5 + 1 + 1) / 4. })},
		"some tell": {nodes(4, func(i int, n *store.Node) {
			if i == 0 {
				n.Load = busyTransfers
			}
		}), with(func(c *plan.Cluster) { c.Load = 1 })},
		"huge": {nodes(40, func(i int, n *store.Node) { n.Free = math.MaxInt64 }), with(func(c *plan.Cluster) { c.Nodes, c.Free = 40, 1<<62 })},
		"none": {nil, with(func(c *plan.Cluster) { c.Nodes, c.Free = 0, 0 })},
	} {
		if got := s.of(c.nodes); got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
	}
}

// turnOnce looks at everything once.
func turnOnce(ctx context.Context, f *Facts) error {
	if err := f.lookAtHome(ctx); err != nil {
		return err
	}
	for _, s := range f.sites {
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// TestClusterChanges: it is told when it matters, and a cluster that does not answer is believed for a while and then not.
func TestClusterChanges(t *testing.T) {
	st, _ := folder(t, nil)
	l := &listing{Store: st, nodes: nodes(20, func(_ int, n *store.Node) { n.Load = 0 })}
	f, k, c := facts(t, l, nil, nil)
	turn := func(why string, want ...plan.Cluster) {
		t.Helper()
		must(t, turnOnce(t.Context(), f))
		var got []plan.Cluster
		for _, ev := range k.take() {
			got = append(got, ev.(plan.ClusterChanged).Cluster)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v\nwant %+v", why, got, want)
		}
	}
	is := plan.Cluster{Nodes: 20, Free: 200, NodeRate: 100e6, ReadersPerSource: 4, MaxReplication: 512}
	turn("at first", is)
	turn("nothing new")
	l.nodes[0].Load = 64
	is.Load = 0.05
	turn("busier", is)
	l.nodes[1].Load = 1
	turn("a little busier")
	for i := range 10 { // small steps add up
		l.nodes[i].Free -= 30
	}
	is.Free, is.Load = 170, (1+1./64)/20
	turn("fuller", is)
	l.err = store.ErrUnavailable
	turn("it does not answer")
	c.pass(believedFor)
	turn("for long", plan.Cluster{})
	turn("nothing is said twice")
	l.err = nil
	turn("it answers again", is)
	l.err = errors.ErrUnsupported
	turn("it never tells", plan.Cluster{NodeRate: 100e6, ReadersPerSource: 4, MaxReplication: 512})
}

// TestSites: whether a site answers, takes files and how fast it is, is found out with a small file that does not stay.
func TestSites(t *testing.T) {
	home, _ := folder(t, nil)
	there, root := folder(t, nil)
	east := &failing{Store: &listing{Store: there, nodes: nodes(3, nil)}}
	sites := map[string]store.Store{"east": east}
	f, k, c := facts(t, &listing{Store: home}, sites, func(o *FactsOptions) {
		o.Sites = []Site{{Name: "east"}}
	})
	turn := func(why string) []plan.Site {
		t.Helper()
		must(t, turnOnce(t.Context(), f))
		var got []plan.Site
		for _, ev := range k.take() {
			if s, ok := ev.(plan.SiteChanged); ok {
				got = append(got, s.Site)
			}
		}
		left, err := filepath.Glob(filepath.Join(root, ".stepahead", "*", "*"))
		if err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left (%v)", why, left, err)
		}
		return got
	}
	got := turn("at first")
	if len(got) != 1 || !got[0].Up || !got[0].Writable || got[0].Free != 100 || got[0].LocalRate != localRate || got[0].RemoteRate <= 0 {
		t.Fatalf("%+v", got)
	}
	if got := turn("nothing new"); len(got) != 0 || east.created != 1 {
		t.Errorf("%+v; %d files were written", got, east.created)
	}
	east.full = true
	c.pass(10 * time.Minute)
	if got := turn("full"); len(got) != 1 || !got[0].Up || got[0].Writable {
		t.Errorf("%+v", got)
	}
	if got := turn("still full"); len(got) != 0 || east.created != 3 {
		t.Errorf("%+v; %d files were written", got, east.created)
	}
	delete(sites, "east")
	if got := turn("gone"); len(got) != 1 || got[0].Up {
		t.Errorf("%+v", got)
	}
	sites["east"], east.full = east, false
	if got := turn("back"); len(got) != 1 || !got[0].Up || !got[0].Writable {
		t.Errorf("it is probed again when it comes back: %+v", got)
	}
	f, k, _ = facts(t, &listing{Store: home}, sites, func(o *FactsOptions) {
		o.Sites, o.ReadOnly = []Site{{Name: "east", RemoteRate: 8}}, true
	})
	want := plan.Site{Name: "east", Up: true, Writable: true, Free: 100, RemoteRate: 8, LocalRate: localRate}
	if got := turn("given, and without writing"); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

// failing is a store that may be full.
type failing struct {
	store.Store
	created int
	full    bool
}

func (f *failing) Nodes(ctx context.Context) ([]store.Node, error) {
	return f.Store.(store.NodeLister).Nodes(ctx)
}

func (f *failing) Create(ctx context.Context, name string) (store.Writer, error) {
	f.created++
	if f.full {
		return nil, fs.ErrPermission
	}
	return f.Store.Create(ctx, name)
}

// interrupted ends its process as soon as something is to be read.
type interrupted struct {
	store.Store
	end func()
}

func (i interrupted) Open(ctx context.Context, name string) (store.File, error) {
	i.end()
	return i.Store.Open(ctx, name)
}

// TestLeavesNoProbe: a controller that ends while it measures a site leaves nothing there, and what one left that was killed then goes when another measures.
func TestLeavesNoProbe(t *testing.T) {
	home, _ := folder(t, nil)
	there, root := folder(t, nil)
	ctx, end := context.WithCancel(t.Context())
	left := []string{temporary.ProbeOf("killed"), temporary.ProbeOf("killed") + ".new", temporary.ProbeOf("alive")}
	for i, name := range left {
		must(t, store.ReplaceFile(t.Context(), there, name, []byte("x")))
		if i < 2 {
			must(t, os.Chtimes(filepath.Join(root, name), time.Now(), time.Now().Add(-time.Hour)))
		}
	}
	var st store.Store = interrupted{there, end}
	measure := func(ctx context.Context) {
		f, _, _ := facts(t, home, map[string]store.Store{"east": st}, func(o *FactsOptions) { o.Sites = []Site{{Name: "east"}} })
		if err := turnOnce(ctx, f); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	measure(ctx)
	if infos, err := there.List(t.Context(), temporary.Folder); err != nil || len(infos) != len(left) || ctx.Err() == nil {
		t.Errorf("an end in between leaves %v, %v", infos, err)
	}
	st = there
	measure(t.Context())
	if infos, err := there.List(t.Context(), temporary.Folder); err != nil || len(infos) != 1 || infos[0].Name != left[2] {
		t.Errorf("there are %v, %v", infos, err)
	}
}

// TestLearns: what starts show replaces what was configured.
func TestLearns(t *testing.T) {
	files := map[string]clusterFile{}
	for i, name := range []string{"/ck/a", "/ck/b"} {
		files[name] = clusterFile{size: int64(i+1) << 20, rows: rows(slices.Repeat([]int{3}, i+1)...)}
	}
	st, _ := folder(t, map[string]string{"ck/a": "", "ck/b": "", "ck/deeper/c": ""})
	ranks := 0
	for _, row := range []struct{ share, announced bool }{{}, {share: true}, {announced: true}} {
		home := &listed{cluster: &cluster{Store: st, files: files}, nodes: nodes(100, nil)}
		f, k, _ := facts(t, home, nil, func(o *FactsOptions) {
			o.HostsShare = row.share
			o.Sources = func(_ context.Context, path string) int { return map[string]int{"/ck/a": 4, "/ck/b": 2}[path] }
			o.Readers = func(_ context.Context, job, run string, paths []string) []int {
				if job != "j" || run != "r" || !slices.Equal(paths, []string{"/ck/a", "/ck/b"}) {
					t.Errorf("asked for the readers of %q by %s/%s", paths, job, run)
				}
				return []int{ranks, ranks / 2} // half of them read b too, which has 2 MiB
			}
		})
		must(t, turnOnce(t.Context(), f))
		k.take()
		f.Read(relay.Record{}) // is no start
		f.observe(t.Context(), <-f.reads)
		const sources, knee, rate = 4 + 6, 6.0, 1e7
		for i := range 30 {
			ranks = 20 << (i % 4) // 2 to 16 at a source
			last := 1000 * max(1, float64(ranks)/sources/knee)
			bytes := int64(rate)
			if row.announced {
				bytes = 0
			}
			hosts := 1
			if row.share {
				hosts = 8
			}
			f.Read(relay.Record{Job: "j", Run: "r", Start: &relay.Start{
				Phase: "read", Ranks: uint32(ranks * hosts), RanksPerHost: uint32(hosts), Files: []relay.HotFile{{Path: "/ck", Readers: 1}}, LastMS: int64(last), Bytes: bytes,
			}})
			f.observe(t.Context(), <-f.reads) // while ranks is what it was
		}
		must(t, turnOnce(t.Context(), f))
		got := k.take()
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		each := rate // bytes of one reader a second, up to the knee
		if row.announced {
			each = 2 << 20
		}
		c := got[0].(plan.ClusterChanged).Cluster
		if apartBy(c.ReadersPerSource, knee) > 1.35 || apartBy(float64(c.NodeRate), each*knee) > 1.2 {
			t.Errorf("%+v", c)
		}
	}
}

// listed is a cluster that lists its nodes.
type listed struct {
	*cluster
	nodes []store.Node
}

func (l *listed) Nodes(context.Context) ([]store.Node, error) { return l.nodes, nil }

// TestSourcesOf: how many sources a file has is asked of the planner; a controller that stops has made none.
func TestSourcesOf(t *testing.T) {
	p := plan.New(plan.Options{})
	p.Step(plan.Recovered{Held: []plan.Held{{
		Make: plan.Make{ID: 1, Means: plan.Sibling, Path: "/f", Identity: "v", Sources: 8, Extra: 5, Bytes: 5, Lease: time.Hour, Job: "j"}, Made: true, Published: true, Left: time.Hour,
	}}}, 0)
	var gone error
	of := SourcesOf(func(_ context.Context, f func(*plan.Planner, time.Duration)) error {
		f(p, 0)
		return gone
	})
	if n := of(t.Context(), "/f"); n != 8 {
		t.Errorf("%d sources, want 8", n)
	}
	if n := of(t.Context(), "/other"); n != 0 {
		t.Errorf("%d sources of a file that has none", n)
	}
	gone = errors.New("gone")
	if n := of(t.Context(), "/f"); n != 0 {
		t.Errorf("%d sources", n)
	}
}

// TestReadersOf: how many ranks read a file is asked of the planner: of the run's own start, else of the job's newest. A host that shares is one reader.
func TestReadersOf(t *testing.T) {
	for _, share := range []bool{false, true} {
		p := plan.New(plan.Options{HostsShare: share})
		r := said("j", "1", &relay.Start{Ranks: 64, RanksPerHost: 8, Files: []relay.HotFile{{Path: "/a", Readers: 64}, {Path: "/b", Readers: 20}}})
		r.Run = "launcher"
		p.Step(plan.Hint{Record: r}, 0)
		var fail error
		readers := ReadersOf(func(_ context.Context, f func(p *plan.Planner, now time.Duration)) error {
			if fail == nil {
				f(p, 0)
			}
			return fail
		})
		want := []int{20, 0, 64}
		if share {
			want = []int{3, 0, 8}
		}
		for _, run := range []string{"launcher", "ranks"} {
			if got := readers(t.Context(), "j", run, []string{"/b", "/c", "/a"}); !slices.Equal(got, want) {
				t.Errorf("run %s: %v, want %v", run, got, want)
			}
		}
		if got := readers(t.Context(), "another", "launcher", []string{"/a"}); !slices.Equal(got, []int{0}) {
			t.Errorf("of another job: %v", got)
		}
		if fail = errors.New("it has stopped"); !slices.Equal(readers(t.Context(), "j", "launcher", []string{"/a"}), []int{0}) {
			t.Error("a controller that has stopped says something")
		}
	}
}

// TestLooksAgain: a file that was not there when it was asked for is told of when it is.
func TestLooksAgain(t *testing.T) {
	st, root := folder(t, nil)
	f, k, _ := facts(t, &listing{Store: st}, nil, nil)
	must(t, turnOnce(t.Context(), f))
	f.o.Looker.Look(t.Context(), []string{"/late", "/never"})
	for range looksAgain / 2 {
		must(t, turnOnce(t.Context(), f))
	}
	write(t, filepath.Join(root, "late"), "here")
	k.take()
	for range looksAgain {
		must(t, turnOnce(t.Context(), f))
	}
	got := k.take()
	if len(got) != 1 || len(got[0].(plan.Looked).Files) != 1 || got[0].(plan.Looked).Files[0].Path != "/late" {
		t.Errorf("%+v", got)
	}
	if n := len(f.o.Looker.missing); n != 0 {
		t.Errorf("%d files are still looked for", n)
	}
}

func TestRefusesFactsOptions(t *testing.T) {
	st, _ := folder(t, nil)
	for name, change := range map[string]func(*FactsOptions){
		"no engine": func(o *FactsOptions) { o.Engine = nil },
		"no name":   func(o *FactsOptions) { o.Controller = "" },
	} {
		o := FactsOptions{Engine: &keeper{}, Clock: still{}, Stores: stores{home: st}, Looker: &Looker{}, Controller: "c"}
		change(&o)
		if _, err := NewFacts(o); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
