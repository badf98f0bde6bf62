package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// fakeClock passes whenever somebody waits for it.
type fakeClock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *fakeClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	passed := make(chan time.Time, 1)
	passed <- time.Time{}
	return passed
}

type home struct{ store.Store }

func (h home) Home() store.Store { return h.Store }
func (h home) Site(context.Context, string) (store.Store, error) {
	return nil, errors.New("there is no other site")
}

// rig is one controller at a cluster.
type rig struct {
	*process
	clock    *fakeClock
	makers   map[plan.Means]controller.Maker
	restored []Restoration
	tools    controller.Tools
	fact     []byte
}

func newRig(t testing.TB, p *process) *rig {
	t.Helper()
	r := &rig{process: p, clock: &fakeClock{}}
	var err error
	r.makers, err = New(Options{
		Stores: home{p}, Controller: "c1", Key: testKey(t), Clock: r.clock, Restored: func(x Restoration) { r.restored = append(r.restored, x) },
	})
	must(t, err)
	r.tools.Fence = func(context.Context) error { return nil }
	return r
}

func testKey(t testing.TB) catalogue.Key {
	k, err := catalogue.NewKey("test", make([]byte, 32))
	must(t, err)
	return k
}

const hotFile = "/sets/hot"

// put writes the hot file.
func put(t testing.TB, c *cluster, blocks int) []byte {
	t.Helper()
	content := make([]byte, blocks*1024-100)
	rand.NewChaCha8([32]byte{1}).Read(content)
	storetest.Put(t, c, hotFile, content)
	return content
}

func (r *rig) placement(t testing.TB, m plan.Means, extra int) controller.Placement {
	t.Helper()
	info, err := r.Stat(t.Context(), hotFile)
	must(t, err)
	p := controller.Placement{Lease: time.Hour, Make: plan.Make{ID: 7, Means: m, Path: hotFile, Identity: string(info.Identity), Extra: extra, Job: "job", Why: "why"}}
	p.Publish = &plan.Publish{ID: 7, Means: m, Path: hotFile, Identity: string(info.Identity), Readers: 24, Job: "job"}
	return p
}

// whole does everything that is done with a placement, until an error.
func (r *rig) whole(ctx context.Context, p controller.Placement, check func()) (err error) {
	m := r.makers[p.Make.Means]
	if p.Fact, err = m.Fact(ctx, p.Make); err != nil {
		return err
	}
	r.fact = p.Fact
	_, err = m.Make(ctx, p, r.tools)
	for _, step := range []func(context.Context, controller.Placement, controller.Tools) error{m.Publish, m.Extend} {
		if err == nil {
			err = step(ctx, p, r.tools)
		}
	}
	if err == nil && check != nil {
		check()
	}
	for _, step := range []func(context.Context, controller.Placement, controller.Tools) error{m.Withdraw, m.Remove} {
		if err == nil {
			err = step(ctx, p, r.tools)
		}
	}
	return err
}

// TestAll: each means gives the file what it is to, and takes it back. What is done twice does no harm.
func TestAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		means        plan.Means
		extra, nodes int
		exact        bool
	}{{plan.Even, 0, 9, true}, {plan.Sibling, 6, 9, true}, {plan.StorageType, 5, 9, true}, {plan.Raise, 1, 40, true}, {plan.Raise, 1, 40, false}} {
		t.Run(fmt.Sprint(test.means, test.exact), func(t *testing.T) {
			c := newCluster(t, test.nodes, test.nodes)
			c.lag = 3
			if !test.exact {
				c.refuse["MoveReplica"] = fs.ErrPermission
			}
			content := put(t, c, 16)
			before := c.tree(t)
			r := newRig(t, &process{cluster: c})
			p := r.placement(t, test.means, test.extra)
			m := r.makers[test.means]
			check := func() {
				again := p
				var err error
				again.Fact, err = m.Fact(t.Context(), p.Make)
				if test.means == plan.Even || test.means == plan.Sibling {
					must(t, err)
					_, err := m.Make(t.Context(), again, r.tools)
					must(t, errors.Join(err, m.Publish(t.Context(), again, r.tools)))
				} else if err == nil {
					t.Error("the fact of a file that is raised would be wrong")
				}
				r.checkMade(t, p, content, before)
			}
			must(t, r.whole(t.Context(), p, check))
			must(t, m.Remove(t.Context(), p, r.tools))
			after := c.tree(t)
			if test.exact && after != before {
				t.Errorf("now\n%s\nwas\n%s", after, before)
			}
			if left, err := temporary.List(t.Context(), c); err != nil || len(left) > 0 {
				t.Errorf("marks: %v, %v", left, err)
			}
			for _, x := range r.restored {
				if x.Exact() != (after == before) || x.Before != 48 || x.After != 48 || errors.Is(x.Refused, fs.ErrPermission) == test.exact {
					t.Errorf("reported %+v", x)
				}
			}
			if want := test.means == plan.StorageType || test.means == plan.Raise; (len(r.restored) > 0) != want {
				t.Errorf("reported %v", r.restored)
			}
		})
	}
}

// checkMade looks at the world while a placement lasts.
func (r *rig) checkMade(t *testing.T, p controller.Placement, content []byte, before string) {
	t.Helper()
	info, err := r.Stat(t.Context(), hotFile)
	must(t, err)
	original, err := r.Locate(t.Context(), hotFile, 0, info.Size)
	must(t, err)
	row, err := catalogue.Resolve(t.Context(), r.process, r.Address(hotFile), catalogue.ResolverOptions{Keys: testKey(t).Keys()})
	if p.Make.Means == plan.StorageType || p.Make.Means == plan.Raise {
		if len(original) != 16*(3+p.Make.Extra) || !errors.Is(err, catalogue.ErrNone) {
			t.Errorf("%d replicas; row: %v", len(original), err)
		}
		return
	}
	must(t, err)
	if row.Identity != p.Make.Identity || row.Sources.Readers != 24 || row.Sources.Size != info.Size || row.TTL != time.Hour {
		t.Errorf("row: %+v", row)
	}
	if now := r.tree(t); !strings.HasPrefix(now, before) {
		t.Errorf("the original is not what it was:\n%s\nwas\n%s", now, before)
	}
	if p.Make.Means == plan.Even {
		if len(row.Sources.Siblings) != 0 {
			t.Errorf("siblings: %+v", row.Sources.Siblings)
		}
		return
	}
	s := row.Sources.Siblings[0]
	if got := storetest.Get(t, r.process, s.Name); !bytes.Equal(got, content) {
		t.Errorf("the sibling has other bytes")
	}
	copies, err := r.Locate(t.Context(), s.Name, 0, info.Size)
	must(t, err)
	if len(copies) != 16*6 {
		t.Errorf("the sibling has %d replicas", len(copies))
	}
	for _, a := range copies {
		if slices.ContainsFunc(original, func(b store.Replica) bool { return a.Off == b.Off && a.Node == b.Node }) {
			t.Errorf("block %d of the sibling is on %s, as that of the original", a.Off, a.Node)
		}
	}
	if now, err := r.Stat(t.Context(), s.Name); err != nil || now.Identity != s.Identity {
		t.Errorf("the sibling is %v, %v, the row says %v", now.Identity, err, s.Identity)
	}
}

// TestKilledAnywhere: the controller is killed before or after each change; whoever sweeps then, or the next controller with what the journal has, leaves
// nothing, and the file is what it was.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, means := range []plan.Means{plan.Even, plan.Sibling, plan.StorageType} {
		t.Run(string(means), func(t *testing.T) {
			t.Parallel()
			for dies := 1; ; dies++ {
				alive := 0
				modes := []int{0, 3} // killed before or after the change; swept at once, or undone by the next controller
				if dies%2 == 0 {
					modes = []int{1, 2}
				}
				for _, mode := range modes {
					c := newCluster(t, 9, 9)
					put(t, c, 16)
					before := c.tree(t)
					r := newRig(t, &process{cluster: c, dies: dies, after: mode&1 != 0})
					p := r.placement(t, means, 6)
					if means == plan.StorageType {
						p.Make.Extra = 5
					}
					err := r.whole(t.Context(), p, nil)
					if err == nil {
						alive++
						continue
					}
					if !errors.Is(err, errKilled) {
						t.Fatalf("%d: %v", dies, err)
					}
					next := newRig(t, &process{cluster: c})
					if mode&2 != 0 {
						p.Fact = r.fact // the journal has it
						m := next.makers[means]
						must(t, errors.Join(m.Withdraw(t.Context(), p, next.tools), m.Remove(t.Context(), p, next.tools)))
					}
					_, err = temporary.Sweep(t.Context(), next.process, temporary.SweepOptions{All: true})
					must(t, err)
					if now := c.tree(t); now != before {
						t.Fatalf("killed at %d (%d), after %q, undone by %q:\n%s\nwas\n%s", dies, mode, r.log, next.log, now, before)
					}
				}
				if alive == len(modes) {
					if dies < 6 {
						t.Errorf("only %d changes: the test proves nothing", dies-1)
					}
					return
				}
			}
		})
	}
}

// TestAnyOrder: whatever is called how often and in which order, by controllers that are killed anywhere, the end of it is that nothing is left and the
// file is what it was; while it lasts the original has all of its replicas.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t, 9, 9)
		c.lag = rapid.IntRange(0, 3).Draw(rt, "lag")
		put(t, c, 3)
		before := c.tree(t)
		means := rapid.SampledFrom([]plan.Means{plan.Even, plan.Sibling, plan.StorageType}).Draw(rt, "means")
		r := newRig(t, &process{cluster: c})
		p := r.placement(t, means, 3)
		var err error
		p.Fact, err = r.makers[means].Fact(t.Context(), p.Make)
		must(t, err)
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"make", "publish", "extend", "withdraw", "remove", "restart", "sweep"}), 1, 12).Draw(rt, "steps") {
			m, err := r.makers[means], error(nil)
			switch step {
			case "make":
				_, err = m.Make(t.Context(), p, r.tools)
			case "publish":
				err = m.Publish(t.Context(), p, r.tools)
			case "extend":
				err = m.Extend(t.Context(), p, r.tools)
			case "withdraw":
				err = m.Withdraw(t.Context(), p, r.tools)
			case "remove":
				err = m.Remove(t.Context(), p, r.tools)
			case "sweep":
				_, err = temporary.Sweep(t.Context(), r.process, temporary.SweepOptions{All: true})
			}
			missing := step == "publish" && means == plan.Sibling // it may not be made
			if err != nil && r.dies == 0 && !missing {
				rt.Fatalf("%s: %v", step, err)
			}
			if step == "restart" || errors.Is(err, errKilled) {
				r = newRig(t, &process{cluster: c, dies: rapid.IntRange(0, 12).Draw(rt, "dies"), after: rapid.Bool().Draw(rt, "after")})
			}
			for _, line := range strings.Split(before, "\n") {
				if now := c.line(t); means != plan.StorageType && strings.HasPrefix(line, hotFile+" ") && now != line {
					rt.Fatalf("%s: the original is\n%s\nwas\n%s", step, now, line)
				}
			}
		}
		last := newRig(t, &process{cluster: c})
		m := last.makers[means]
		must(t, errors.Join(m.Withdraw(t.Context(), p, last.tools), m.Remove(t.Context(), p, last.tools)))
		_, err = temporary.Sweep(t.Context(), last.process, temporary.SweepOptions{All: true})
		must(t, err)
		if now := c.tree(t); now != before {
			rt.Fatalf("now\n%s\nwas\n%s", now, before)
		}
	})
}

// TestRate: a making takes as long as its rate has it, whatever that becomes, and stands still while it is 0.
func TestRate(t *testing.T) {
	t.Parallel()
	clock := &fakeClock{}
	var mu sync.Mutex
	rate, changed := int64(1000), make(chan struct{})
	p := newPace(clock, func() (int64, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return rate, changed
	})
	set := func(r int64) {
		mu.Lock()
		defer mu.Unlock()
		rate = r
		close(changed)
		changed = make(chan struct{})
	}
	for range 10 {
		must(t, p.take(t.Context(), 1000))
	}
	if took := clock.Now(); took < 9*time.Second || took > 9*time.Second+time.Millisecond {
		t.Errorf("10,000 bytes at 1,000 a second: the last began after %v", took)
	}
	set(0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.take(ctx, 1) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("paused: %v", err)
	}
	go func() { done <- p.take(t.Context(), 1) }()
	set(1 << 40)
	must(t, <-done)
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Controller: "a/b", Stores: home{}, Clock: &fakeClock{}}, {Controller: "a", Clock: &fakeClock{}}, {Controller: "a", Stores: home{}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
