package copies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// TestAnyFailures: in any order of calls that fail, die and are cut off at any place, of originals that change and come back, and of files of the copy that are harmed, what is published is right, and in the
// end nothing is left.
func TestAnyFailures(t *testing.T) {
	base := newWorld(t)
	folder := t.TempDir()
	worlds := 0
	rapid.Check(t, func(t *rapid.T) {
		worlds++
		w := *base
		w.tb = t
		w.clock = &leap{}
		var err error
		w.home, err = openLake(filepath.Join(makeFolder(t, folder, worlds), "home"))
		must(t, err)
		defer func() { must(t, closeLake(w.home)) }()
		w.site, err = openLake(filepath.Join(makeFolder(t, folder, worlds), "site"))
		must(t, err)
		defer func() { must(t, closeLake(w.site)) }()
		w.restart()
		w.home.put(t, "/tag", deepSpeed())
		p := w.placement("/tag")
		original := true // is what it was
		steps := map[string]func(t *rapid.T){
			"make": func(t *rapid.T) {
				w.fail(t)
				made, err := w.mk.Make(w.ctx, p, controller.Tools{Fence: w.fence(t)})
				w.heal()
				if err == nil && !original {
					t.Fatal("a copy was made of another version")
				}
				if err == nil && len(made.Digest) != 64 {
					t.Fatalf("%+v", made)
				}
			},
			"publish": func(t *rapid.T) {
				w.fail(t)
				err := w.mk.Publish(w.ctx, p, controller.Tools{Fence: w.fence(t)})
				w.heal()
				if err == nil {
					w.wantRow(t, p)
				}
			},
			"withdraw": func(t *rapid.T) {
				w.fail(t)
				_ = w.mk.Withdraw(w.ctx, p, controller.Tools{Fence: w.fence(t)})
				w.heal()
			},
			"remove": func(t *rapid.T) {
				w.fail(t)
				err := w.mk.Remove(w.ctx, p, controller.Tools{Fence: w.fence(t)})
				w.heal()
				if err == nil {
					w.site.wantNothing(t)
				}
			},
			"restart": func(*rapid.T) { w.restart() },
			"change": func(t *rapid.T) {
				w.home.put(t, "/tag", map[string][]byte{"extra.pt": nil})
				original = false
			},
			"change back": func(t *rapid.T) {
				if err := os.Remove(filepath.Join(w.home.root, "tag", "extra.pt")); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				original = true
			},
		}
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			steps[rapid.SampledFrom([]string{"make", "make", "make", "publish", "publish", "withdraw", "remove", "restart", "change", "change back", "change back"}).Draw(t, "step")](t)
		}
		if rapid.Bool().Draw(t, "end with a copy") {
			steps["change back"](t)
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			must(t, err)
			w.wantCopy(p, made)
		}
		w.remove(p)
	})
}

func makeFolder(t tb, root string, n int) string {
	t.Helper()
	name := filepath.Join(root, fmt.Sprint(n))
	for _, sub := range []string{"home", "site"} {
		must(t, os.MkdirAll(filepath.Join(name, sub), 0o755))
	}
	return name
}

// fail has the stores fail from some call on, once, for some calls, or for ever.
func (w *world) fail(t *rapid.T) {
	from, count := rapid.Int64Range(0, 150).Draw(t, "from"), rapid.SampledFrom([]int64{0, 1, 1, 3, 1 << 30}).Draw(t, "count")
	err := rapid.SampledFrom([]error{errDead, store.ErrUnavailable, store.ErrUnavailable, syscall.ENOSPC, syscall.EROFS, store.ErrCorrupt, store.ErrIdentity}).Draw(t, "error")
	calls := atomic.Int64{}
	strike := func(op, name string) error {
		if n := calls.Add(1); n > from && n <= from+count {
			return fmt.Errorf("%s %s: %w", op, name, err)
		}
		return nil
	}
	w.site.watch(strike, strike)
	if rapid.Bool().Draw(t, "home too") {
		w.home.watch(nil, strike)
	}
}

func (w *world) heal() {
	w.site.watch(nil, nil)
	w.home.watch(nil, nil)
}

// fence is lost from some look on, or never.
func (w *world) fence(t *rapid.T) func(context.Context) error {
	most := rapid.SampledFrom([]int64{1 << 30, 1 << 30, 2, 5, 10, 20, 30}).Draw(t, "looks")
	looks := atomic.Int64{}
	return func(context.Context) error {
		if looks.Add(1) > most {
			return errors.New("the lease is lost")
		}
		return nil
	}
}

// wantRow wants what is published to have the bytes of the original.
func (w *world) wantRow(t tb, p controller.Placement) {
	t.Helper()
	row, err := catalogue.Resolve(w.ctx, w.site.Store, w.home.Address(p.Make.Path), catalogue.ResolverOptions{Keys: w.key.Keys()})
	must(t, err)
	for _, f := range row.Copy.Files {
		want, err := os.ReadFile(filepath.Join(w.home.root, "tag", f.Name))
		must(t, err)
		got, err := store.ReadFile(w.ctx, w.site.Store, row.Copy.Place+"/"+f.Name, 1<<20)
		must(t, err)
		if string(want) != string(got) {
			t.Fatalf("%s is another one", f.Name)
		}
	}
	c, err := checkpoint.Open(w.ctx, w.home.Store, "/tag", checkpoint.Options{})
	must(t, err)
	if len(c.Files) != len(row.Copy.Files) || c.Identity() != row.Identity {
		t.Fatalf("the row has %d files of version %s", len(row.Copy.Files), row.Identity)
	}
}

// TestSiteWithoutRights: what cannot be kept from others is not copied.
func TestSiteWithoutRights(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	p := w.placement("/tag")
	w.stores.site = struct{ store.Store }{w.site}
	if _, err := w.mk.Make(w.ctx, p, controller.Tools{}); reason(err) != plan.ReasonSite || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	w.site.wantNothing(t)
}

// TestReadersOfCopies: while a copy is made nobody may enter; then those of the original, or fewer where the controller may not give it away.
func TestReadersOfCopies(t *testing.T) {
	noOwner := func(a store.Access) error {
		if a.Owner != "" {
			return os.ErrPermission
		}
		return nil
	}
	noGroup := func(a store.Access) error {
		if a.Owner != "" || a.Group != "" {
			return os.ErrPermission
		}
		return nil
	}
	team := store.Access{Owner: "ann", Group: "team", Mode: 0o750}
	open := store.Access{Owner: "ann", Group: "team", Mode: 0o775}
	listed := store.Access{Owner: "ann", Group: "team", Mode: 0o750, ACL: []string{"group::r-x", "user:eve:r-x"}}
	secret := store.Access{Owner: "ann", Group: "team", Mode: 0o700}
	for what, c := range map[string]struct {
		folder, file, above store.Access
		refuse              func(store.Access) error
		only                plan.Access
		want                store.Access
	}{
		"a team's":                      {folder: team, file: team, above: open, want: team},
		"of a folder for one":           {folder: open, file: open, above: secret, want: secret},
		"with a file for one":           {folder: open, file: store.Access{Owner: "ann", Group: "team", Mode: 0o600}, above: open, want: secret},
		"everybody's":                   {folder: open, file: open, above: open, want: store.Access{Owner: "ann", Group: "team", Mode: 0o755}},
		"with a list":                   {folder: listed, file: listed, above: open, want: listed},
		"not to be given away":          {folder: team, file: team, above: open, refuse: noOwner, want: store.Access{Owner: "me", Group: "team", Mode: 0o750}},
		"nor to a group":                {folder: team, file: team, above: open, refuse: noGroup, want: store.Access{Owner: "me", Group: "us", Mode: 0o700}},
		"everybody's, not to be given":  {folder: open, file: open, above: open, refuse: noGroup, want: store.Access{Owner: "me", Group: "us", Mode: 0o755}},
		"by policy the owner's":         {folder: team, file: team, above: open, only: plan.OwnerOnly, want: secret},
		"by policy, not to be given":    {folder: team, file: team, above: open, only: plan.OwnerOnly, refuse: noGroup, want: store.Access{Owner: "me", Group: "us", Mode: 0o700}},
		"of a file that is not the one": {folder: team, file: store.Access{Owner: "bob", Group: "others", Mode: 0o640}, above: open, want: store.Access{Owner: "me", Group: "us", Mode: 0o700}},
	} {
		w := newWorld(t)
		w.home.put(t, "/runs/tag", deepSpeed())
		w.home.access["/"], w.home.access["/runs"], w.home.access["/runs/tag"] = open, c.above, c.folder
		must(t, filepath.WalkDir(filepath.Join(w.home.root, "runs", "tag"), func(file string, d os.DirEntry, err error) error {
			rel, _ := filepath.Rel(w.home.root, file)
			if w.home.access["/"+rel] = c.folder; !d.IsDir() {
				a := c.file
				a.Mode |= a.Mode & 0o555 // the files of a folder that lets in are read
				w.home.access["/"+rel] = a
			}
			return err
		}))
		w.site.refuse = c.refuse
		p := w.placement("/runs/tag")
		p.Make.Access = c.only
		place := temporary.PlaceOf("ctl", p.Make.ID)
		w.site.watch(func(op, name string) error {
			if a, err := w.site.Access(w.ctx, place); op == "write" && name != temporary.NameOf("ctl", p.Make.ID)+".new" && (err != nil || a.Mode != 0o700) {
				t.Errorf("%s: %s is written while the place has %v, %v", what, name, a, err)
			}
			return nil
		}, nil)
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		w.site.watch(nil, nil)
		got, err := w.site.Access(w.ctx, place+"/copy/data")
		if must(t, err); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: the copy has %v, want %v", what, got, c.want)
		}
		for _, name := range []string{place, place + "/copy"} {
			if a, err := w.site.Access(w.ctx, name); err != nil || a.Mode != 0o711 {
				t.Errorf("%s: %s has %v, %v", what, name, a, err)
			}
		}
		w.home.access["/runs"] = secret // by now fewer may
		w.wantCopy(p, made)
		if got, err := w.site.Access(w.ctx, place+"/copy/data"); err != nil || got.Mode&0o077 != 0 {
			t.Errorf("%s: the copy has %v, %v after the original was closed", what, got, err)
		}
		w.remove(p)
	}
}
