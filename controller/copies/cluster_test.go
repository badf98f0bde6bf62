package copies

import (
	"path"
	"testing"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

func openCluster(t testing.TB, c *hdfstest.Cluster, root, user string) *hdfs.Store {
	t.Helper()
	cfg, err := conf.Load(c.Getenv)
	must(t, err)
	s, _, err := hdfs.Open(c.URL()+root, hdfs.Options{Conf: cfg.With("dfs.blocksize", "8m"), User: user, Root: root})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestOnCluster: from one part of a real HDFS to another and to a folder, by its superuser and by a user, in parts and in many small files; and nothing is left.
func TestOnCluster(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	for name, data := range deepSpeed() {
		if name != "offloaded_tensors/rank0/a b\n\"c\".tensor" {
			c.Put(root+"/home/runs/tag/"+name, data, 2, 1<<20)
		}
	}
	c.Put(root+"/home/runs/tag/mp_rank_01_model_states.pt", noise(20<<20, 1), 2, 1<<20)
	c.Chmod(root+"/home/runs/tag", "", 0o750)
	c.Mkdir(root + "/site")
	c.Mkdir(root + "/another")
	folder, _, err := dir.Open(t.TempDir(), dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, folder.Close()) })
	super := openCluster(t, c, root+"/site", hdfstest.Superuser)
	for what, s := range map[string]struct {
		user string
		site store.Store
		want store.Access
	}{
		"superuser": {hdfstest.Superuser, super, store.Access{Owner: hdfstest.User, Mode: 0o750}},
		"user":      {hdfstest.User, openCluster(t, c, root+"/another", hdfstest.User), store.Access{Owner: hdfstest.User, Mode: 0o750}},
		"folder":    {hdfstest.User, folder, store.Access{Mode: 0o700}}, // there owners are numbers
	} {
		t.Run(what, func(t *testing.T) {
			home := openCluster(t, c, root+"/home", s.user)
			key := newKey(t, t.TempDir())
			mk, err := New(Options{Controller: "ctl", Stores: &lakes{home: home, site: s.site}, Key: key})
			must(t, err)
			src, err := checkpoint.Open(t.Context(), home, "/runs/tag", checkpoint.Options{})
			must(t, err)
			p := controller.Placement{Make: plan.Make{ID: 1, Means: plan.Copy, Path: "/runs/tag", Identity: src.Identity(), Site: "b"}, Lease: 1 << 40}
			made, err := mk.Make(t.Context(), p, controller.Tools{})
			must(t, err)
			must(t, mk.Publish(t.Context(), p, controller.Tools{}))
			row, err := catalogue.Resolve(t.Context(), s.site, home.Address("/runs/tag"), catalogue.ResolverOptions{Keys: key.Keys()})
			must(t, err)
			here, err := checkpoint.Open(t.Context(), s.site, row.Copy.Place, checkpoint.Options{})
			must(t, err)
			want, err := src.Digest(t.Context(), checkpoint.ReadOptions{})
			must(t, err)
			got, err := here.Digest(t.Context(), checkpoint.ReadOptions{})
			must(t, err)
			if want.Sum != got.Sum || made.Digest != want.Sum || row.Copy.Digest != want.Sum {
				t.Fatalf("digests %s, %s, %s, %s", want.Sum, got.Sum, made.Digest, row.Copy.Digest)
			}
			for i, f := range here.Files {
				if row.Copy.Files[i].Here != f.Identity {
					t.Errorf("%s is %s, the row says %s", f.Name, f.Identity, row.Copy.Files[i].Here)
				}
			}
			a, err := s.site.(store.Protector).Access(t.Context(), path.Dir(row.Copy.Place))
			if must(t, err); a.Mode != s.want.Mode || s.want.Owner != "" && a.Owner != s.want.Owner {
				t.Errorf("access %v", a)
			}
			if what == "superuser" { // whom the original lets in may read, others may not
				for user, may := range map[string]bool{hdfstest.User: true, hdfstest.Intruder: false} {
					f, err := openCluster(t, c, root+"/site", user).Open(t.Context(), row.Copy.Place+"/mp_rank_00_model_states.pt")
					if err == nil {
						f.Close()
					}
					if (err == nil) != may {
						t.Errorf("%s: %v", user, err)
					}
				}
			}
			must(t, mk.Withdraw(t.Context(), p, controller.Tools{}))
			must(t, mk.Remove(t.Context(), p, controller.Tools{}))
			for _, name := range []string{"temporary", "data", "catalogue"} {
				if infos, err := s.site.List(t.Context(), "/.stepahead/"+name); err != nil || len(infos) > 0 {
					t.Errorf("left in %s: %v, %v", name, infos, err)
				}
			}
		})
	}
}

// TestTwinsOnCluster: what DataNodes say of their sums is enough to send nothing, also where the link lets nothing pass.
func TestTwinsOnCluster(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	c.Mkdir(root + "/site")
	files := map[string][]byte{"mp_rank_00_model_states.pt": noise(20<<20+5, 1), "zero_pp_rank_0_mp_rank_00_optim_states.pt": noise(100_000, 2)}
	total := int64(0)
	for name, data := range files {
		total += int64(len(data))
		for _, folder := range []string{"/1/", "/2/"} {
			c.Put(root+"/home"+folder+name, data, 2, 1<<20)
		}
	}
	var counts store.Metrics
	home := store.Measure(openCluster(t, c, root+"/home", hdfstest.Superuser), &counts)
	site := openCluster(t, c, root+"/site", hdfstest.Superuser)
	key := newKey(t, t.TempDir())
	mk, err := New(Options{Controller: "ctl", Stores: &lakes{home: home, site: site}, Key: key})
	must(t, err)
	read := func() (bytes int64) {
		for _, o := range counts.Snapshot() {
			if o.Operation == "read" {
				bytes = o.Bytes
			}
		}
		return bytes
	}
	for id, name := range []string{"/1", "/2"} {
		src, err := checkpoint.Open(t.Context(), home, name, checkpoint.Options{})
		must(t, err)
		p := controller.Placement{Make: plan.Make{ID: plan.ID(id + 1), Means: plan.Copy, Path: name, Identity: src.Identity(), Site: "b"}, Lease: 1 << 40}
		p.Fact, err = mk.Fact(t.Context(), p.Make)
		must(t, err)
		tools, want, before := controller.Tools{}, int64(0), read()
		if id > 0 {
			tools.Rate, want = closed, total
		}
		made, err := mk.Make(t.Context(), p, tools)
		must(t, err)
		if n := read() - before; made.Reused != want || n != total-want {
			t.Errorf("%s: %+v, %d bytes were read of the original", name, made, n)
		}
		must(t, mk.Publish(t.Context(), p, controller.Tools{}))
		d, err := src.Digest(t.Context(), checkpoint.ReadOptions{})
		if must(t, err); d.Sum != made.Digest {
			t.Errorf("%s: digest %s, want %s", name, made.Digest, d.Sum)
		}
	}
}
