package sources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/sweeper"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// machineClock is the machine's.
type machineClock struct{ began time.Time }

func (c machineClock) Now() time.Duration                   { return time.Since(c.began) }
func (machineClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// site is a controller at a real cluster, and a file of sixteen blocks.
type site struct {
	*hdfs.Store
	c        *hdfstest.Cluster
	root     string
	data     []byte
	makers   map[plan.Means]controller.Maker
	restored []Restoration
	made     controller.Made // of the last making
	next     plan.ID
}

const clusterBlock = 256 << 10

// openSite makes a file and waits until all of its replicas are known.
func openSite(t *testing.T, c *hdfstest.Cluster) *site {
	t.Helper()
	s := &site{c: c, root: c.Dir(t), data: hdfstest.Bytes(1, 16*clusterBlock), next: 1}
	c.Put(s.root+hotFile, s.data, 3, clusterBlock)
	c.WaitReplication(s.root+hotFile, 3)
	s.Store = openAgain(t, s)
	var err error
	s.makers, err = New(Options{
		Stores: home{s.Store}, Controller: "c1", Key: testKey(t), Clock: machineClock{time.Now()}, Poll: 50 * time.Millisecond, Patience: 30 * time.Second,
		Restored: func(x Restoration) { s.restored = append(s.restored, x) },
	})
	must(t, err)
	return s
}

func (s *site) placement(t *testing.T, m plan.Means, name string, extra int) controller.Placement {
	t.Helper()
	info, err := s.Stat(t.Context(), name)
	must(t, err)
	s.next++
	p := controller.Placement{Lease: time.Hour, Make: plan.Make{ID: s.next, Means: m, Path: name, Identity: string(info.Identity), Extra: extra}}
	p.Publish = &plan.Publish{ID: s.next, Means: m, Path: name, Identity: string(info.Identity), Readers: 24}
	return p
}

// begin makes and publishes.
func (s *site) begin(t *testing.T, p *controller.Placement) error {
	t.Helper()
	var err error
	if p.Fact, err = s.makers[p.Make.Means].Fact(t.Context(), p.Make); err != nil {
		return err
	}
	if s.made, err = s.makers[p.Make.Means].Make(t.Context(), *p, tools()); err != nil {
		return err
	}
	return s.makers[p.Make.Means].Publish(t.Context(), *p, tools())
}

func (s *site) end(t *testing.T, p controller.Placement) {
	t.Helper()
	m := s.makers[p.Make.Means]
	must(t, errors.Join(m.Withdraw(t.Context(), p, tools()), m.Remove(t.Context(), p, tools())))
	for _, folder := range []string{temporary.Folder, temporary.DataFolder, catalogue.Folder} {
		if left, err := s.List(t.Context(), folder); err == nil && len(left) > 0 {
			t.Errorf("%s: left %v", folder, left)
		}
	}
}

func tools() controller.Tools {
	return controller.Tools{Fence: func(ctx context.Context) error { return ctx.Err() }}
}

// where says where every block of a file lies, and how it is set.
func (s *site) where(t *testing.T, name string) string {
	t.Helper()
	info, err := s.Stat(t.Context(), name)
	must(t, err)
	rows, err := s.Locate(t.Context(), name, 0, info.Size)
	must(t, err)
	var at []string
	for _, r := range rows {
		at = append(at, fmt.Sprint(r.Off, r.Node, r.Storage))
	}
	slices.Sort(at)
	policy, err := s.StoragePolicy(t.Context(), name)
	must(t, err)
	_, raised, err := s.Attribute(t.Context(), name, temporary.Attribute)
	must(t, err)
	return fmt.Sprint(info.Identity, info.Replicas, policy, raised, at)
}

// TestCluster: a real HDFS whose DataNodes have room of different sizes and two types of storage.
func TestCluster(t *testing.T) {
	t.Parallel()
	const nodes = 9
	capacities := make([]int64, nodes)
	for i := range capacities {
		capacities[i] = 8<<30 + int64(i*4%nodes)<<28 // they differ by more than the file
	}
	c := hdfstest.Start(t, hdfstest.Options{DataNodes: nodes, StorageTypes: [][]string{{"DISK", "ARCHIVE"}}, Capacities: capacities})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *hdfstest.Cluster)
	}{{"storage type", clusterStorageType}, {"sibling", clusterSibling}, {"raise", clusterRaise}, {"refused", clusterRefused}, {"killed", clusterKilled}, {"renamed", clusterRenamed}, {"a node dies", clusterNodeDies}} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// clusterStorageType: every client of the path has six more sources, and afterwards all 48 replicas are where they were.
func clusterStorageType(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	before := s.where(t, hotFile)
	p := s.placement(t, plan.StorageType, hotFile, 6)
	must(t, s.begin(t, &p))
	for _, b := range c.Locations(s.root + hotFile) {
		if len(b.Nodes) != 9 {
			t.Errorf("block at %d is on %v", b.Offset, b.Nodes)
		}
	}
	s.end(t, p)
	if now := s.where(t, hotFile); now != before {
		t.Errorf("now %s\nwas %s", now, before)
	}
	if x := s.restored[0]; !x.Exact() || x.Kept != 48 {
		t.Errorf("%+v", x)
	}
}

// clusterSibling: the copy is on none of the nodes that have the same block of the original, which is not touched.
func clusterSibling(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	before := s.where(t, hotFile)
	p := s.placement(t, plan.Sibling, hotFile, 8) // of nine nodes six do not have the block
	must(t, s.begin(t, &p))
	if s.made.Short != 2 {
		t.Errorf("it says %+v", s.made)
	}
	row, err := catalogue.Resolve(t.Context(), s.Store, s.Address(hotFile), catalogue.ResolverOptions{Keys: testKey(t).Keys()})
	must(t, err)
	name := row.Sources.Siblings[0].Name
	c.WaitReplication(s.root+name, 6)
	if got := c.Get(s.root + name); string(got) != string(s.data) {
		t.Error("the sibling has other bytes")
	}
	original, copied := c.Locations(s.root+hotFile), c.Locations(s.root+name)
	for i, b := range copied {
		if len(copied) != len(original) || b.Length != original[i].Length || slices.ContainsFunc(b.Nodes, func(n int) bool { return slices.Contains(original[i].Nodes, n) }) {
			t.Errorf("block %d: %+v, the original's %+v", i, b, original[i])
		}
	}
	s.end(t, p)
	if now := s.where(t, hotFile); now != before {
		t.Errorf("now %s\nwas %s", now, before)
	}
}

// clusterRenamed: a raised file that was renamed, into a folder with a policy of its own, is what it was, whoever undoes it and whatever has its name by then.
func clusterRenamed(t *testing.T, c *hdfstest.Cluster) {
	for _, swept := range []bool{false, true} {
		s := openSite(t, c)
		const moved = "/elsewhere/moved"
		must(t, s.MakeFolder(t.Context(), "/elsewhere"))
		must(t, s.SetStoragePolicy(t.Context(), "/elsewhere", "HOT"))
		before := s.where(t, hotFile)
		p := s.placement(t, plan.StorageType, hotFile, 3)
		must(t, s.begin(t, &p))
		must(t, s.Rename(t.Context(), hotFile, moved))
		c.Put(s.root+hotFile, s.data, 2, clusterBlock)
		c.WaitReplication(s.root+hotFile, 2)
		other := s.where(t, hotFile)
		if swept {
			r, err := temporary.Sweep(t.Context(), openAgain(t, s), temporary.SweepOptions{All: true})
			if err != nil || r.Undone != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		}
		s.end(t, p)
		c.WaitReplication(s.root+moved, 3)
		if now := s.where(t, moved); now != before {
			t.Errorf("%v: now %s\nwas %s", swept, now, before)
		}
		if now := s.where(t, hotFile); now != other {
			t.Errorf("%v: the other is %s\nwas %s", swept, now, other)
		}
	}
}

// clusterRaise: HDFS drops other replicas than were made; they are moved back, and it is said how the file lies.
func clusterRaise(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	before := s.where(t, hotFile)
	p := s.placement(t, plan.Raise, hotFile, 3)
	must(t, s.begin(t, &p))
	s.end(t, p)
	if x := s.restored[0]; !x.Exact() || x.Blocks != 16 || x.Kept != 48 || x.Refused != nil {
		t.Errorf("%v: %+v", x, x)
	}
	if now := s.where(t, hotFile); now != before {
		t.Errorf("now %s\nwas %s", now, before)
	}
}

// clusterRefused: what the NameNode refuses has its reason, and leaves nothing.
func clusterRefused(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	c.Put(s.root+"/tight/hot", s.data, 3, clusterBlock)
	c.Quota(s.root+"/tight", 100, 4*int64(len(s.data)))
	c.Put(s.root+"/theirs", s.data, 3, clusterBlock)
	c.Chmod(s.root+"/theirs", hdfstest.Superuser, 0o644)
	c.Mkdir(s.root + "/coded")
	c.ErasureCode(s.root+"/coded", "XOR-2-1-1024k")
	c.Put(s.root+"/coded/hot", s.data, 1, 1<<20)
	for _, test := range []struct {
		name  string
		means plan.Means
		want  plan.Reason
	}{
		{"/tight/hot", plan.StorageType, plan.ReasonSite}, {"/tight/hot", plan.Raise, plan.ReasonSite},
		{"/theirs", plan.StorageType, plan.ReasonMeans}, {"/coded/hot", plan.StorageType, plan.ReasonMeans}, {"/coded/hot", plan.Raise, plan.ReasonMeans},
	} {
		before := s.where(t, test.name)
		p := s.placement(t, test.means, test.name, 6)
		err := s.begin(t, &p)
		var known *controller.Error
		if !errors.As(err, &known) || known.Reason != test.want {
			t.Errorf("%s by %s: %v, want the reason %s", test.name, test.means, err, test.want)
		}
		if now := s.where(t, test.name); now != before {
			t.Errorf("%s by %s: now %s\nwas %s", test.name, test.means, now, before)
		}
		p.Fact = nil
		s.end(t, p)
	}
}

// clusterKilled: a controller that ends after any change of a raise is swept by one of those that look after the store, and the file is what it was.
func clusterKilled(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	before := s.where(t, hotFile)
	p := s.placement(t, plan.StorageType, hotFile, 3)
	m := s.makers[plan.StorageType]
	var err error
	p.Fact, err = m.Fact(t.Context(), p.Make)
	must(t, err)
	for changes := 1; changes <= 4; changes++ { // mark, attribute, policy, replication
		checks, dead := 0, errors.New("killed")
		_, err := m.Make(t.Context(), p, controller.Tools{Fence: func(context.Context) error {
			if checks++; checks > changes {
				return dead
			}
			return nil
		}})
		if (changes < 4) != errors.Is(err, dead) || changes == 4 && err != nil {
			t.Fatalf("%d changes: %v", changes, err)
		}
		if info, err := s.Stat(t.Context(), hotFile); err != nil || info.Replicas == 3 != (changes < 4) {
			t.Errorf("%d changes: %+v, %v", changes, info, err)
		}
		if r, err := temporary.Sweep(t.Context(), s.Store, temporary.SweepOptions{All: true}); err != nil || r.Undone != 1 {
			t.Fatalf("%d changes: %+v, %v", changes, r, err)
		}
		c.WaitReplication(s.root+hotFile, 3)
		if now := s.where(t, hotFile); now != before {
			t.Errorf("%d changes: now %s\nwas %s", changes, now, before)
		}
	}
	a, b := sweeper.New(sweeper.Options{Store: s.Store}), sweeper.New(sweeper.Options{Store: openAgain(t, s)})
	must(t, errors.Join(a.Look(t.Context()), b.Look(t.Context())))
	if !a.Stats().Elected || b.Stats().Elected {
		t.Errorf("elected: %+v, %+v", a.Stats(), b.Stats())
	}
}

// openAgain opens the store as another process would.
func openAgain(t *testing.T, s *site) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(s.c.Getenv)
	must(t, err)
	st, _, err := hdfs.Open(s.c.URL()+s.root, hdfs.Options{Conf: cfg, User: hdfstest.User, Root: s.root})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return st
}

// clusterNodeDies: a DataNode that dies while a file is raised keeps nothing from being undone.
func clusterNodeDies(t *testing.T, c *hdfstest.Cluster) {
	s := openSite(t, c)
	p := s.placement(t, plan.StorageType, hotFile, 4)
	must(t, s.begin(t, &p))
	dead := c.Locations(s.root + hotFile)[0].Nodes[0]
	c.Kill(dead)
	c.Bury(dead)
	defer c.Restart(dead, true)
	s.end(t, p)
	x := s.restored[0]
	t.Log(x)
	info, err := s.Stat(t.Context(), hotFile)
	must(t, err)
	policy, err := s.StoragePolicy(t.Context(), hotFile)
	must(t, err)
	if x.Excess || x.Kept < 48-16 || info.Replicas != 3 || policy != (store.StoragePolicy{Name: "HOT"}) {
		t.Errorf("%+v; %+v %+v", x, info, policy)
	}
}
