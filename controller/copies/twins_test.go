package copies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

const (
	smallFile = "zero_pp_rank_1_mp_rank_00_optim_states.pt" // 700 bytes: one of a batch
	largeFile = "zero_pp_rank_0_mp_rank_00_optim_states.pt" // 7777 bytes: in pieces
)

// saved is a checkpoint without empty files, of 11487 bytes; those that are named have another content of the same length.
func saved(other ...string) map[string][]byte {
	files := deepSpeed()
	delete(files, "offloaded_tensors/rank1/deeper/empty.tensor")
	for _, name := range other {
		files[name] = noise(len(files[name]), 1000)
	}
	return files
}

const savedBytes = 3000 + 7777 + 700 + 10

// known is a placement as it is when the controller has found out who may read the original.
func (w *world) known(name string) controller.Placement {
	w.Helper()
	p := w.placement(name)
	var err error
	p.Fact, err = w.mk.Fact(w.ctx, p.Make)
	must(w, err)
	return p
}

// twinned is a world with a published copy of /runs/1, and sums at home.
func twinned(t testing.TB) (w *world, first controller.Placement) {
	t.Helper()
	w = newWorld(t)
	w.home.sums = true
	w.home.put(t, "/runs/1", saved())
	first = w.known("/runs/1")
	made, err := w.mk.Make(w.ctx, first, controller.Tools{})
	must(t, err)
	if made.Reused != 0 {
		t.Fatalf("%+v", made)
	}
	w.wantCopy(first, made)
	w.home.read()
	return w, first
}

// over removes both copies.
func (w *world) over(first, second controller.Placement) {
	w.Helper()
	must(w, w.mk.Withdraw(w.ctx, first, controller.Tools{}))
	must(w, w.mk.Remove(w.ctx, first, controller.Tools{}))
	w.remove(second)
}

// asked counts the files whose sums are asked for.
func (w *world) asked() *atomic.Int64 {
	n := &atomic.Int64{}
	w.home.watch(nil, func(op, _ string) error {
		if op == "sum" {
			n.Add(1)
		}
		return nil
	})
	return n
}

// closed lets no byte pass a link.
func closed() (int64, <-chan struct{}) { return 0, nil }

// TestTwins: of another version with the same content nothing is sent, not even where the link lets nothing pass; and the copy stays when the first one goes.
func TestTwins(t *testing.T) {
	w, first := twinned(t)
	w.home.put(t, "/runs/2", saved())
	p := w.known("/runs/2")
	if p.Make.Identity == first.Make.Identity {
		t.Fatal("it is the same version")
	}
	progress := int64(0)
	made, err := w.mk.Make(w.ctx, p, controller.Tools{Rate: closed, Progress: func(n int64) { progress = n }})
	must(t, err)
	if n := w.home.read(); n != 0 || made.Reused != savedBytes || progress != savedBytes {
		t.Errorf("%d bytes were read of the original, %+v, progress %d", n, made, progress)
	}
	again, err := w.mk.Make(w.ctx, p, controller.Tools{})
	if must(t, err); again != made {
		t.Errorf("once more it is %+v, was %+v", again, made)
	}
	must(t, w.mk.Withdraw(w.ctx, first, controller.Tools{}))
	must(t, w.mk.Remove(w.ctx, first, controller.Tools{}))
	w.wantCopy(p, made)
	w.remove(p)
}

// TestTwinsOfSome: what has another content is sent, and nothing else is.
func TestTwinsOfSome(t *testing.T) {
	for _, name := range []string{smallFile, largeFile} {
		w, first := twinned(t)
		files := saved(name)
		files["zero_pp_rank_2_mp_rank_00_optim_states.pt"] = noise(33, 50)
		w.home.put(t, "/runs/2", files)
		p := w.known("/runs/2")
		asked := w.asked()
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		n := int64(len(files[name]))
		if got := w.home.read(); got != n+33 || made.Reused != savedBytes-n || asked.Load() != 4 {
			t.Errorf("%s: %d bytes were read of the original, %d files asked for, %+v", name, got, asked.Load(), made)
		}
		w.wantCopy(p, made)
		w.over(first, p)
	}
}

// spoil changes a byte of a file without another version, as a disk does.
func (w *world) spoil(file string) {
	w.Helper()
	info, err := os.Stat(file)
	must(w, err)
	data, err := os.ReadFile(file)
	must(w, err)
	data[len(data)/2] ^= 1
	must(w, os.WriteFile(file, data, 0o644))
	must(w, os.Chtimes(file, info.ModTime(), info.ModTime()))
}

// TestTwinsThatAreDamaged: what is read of another copy and is not what the original has is sent.
func TestTwinsThatAreDamaged(t *testing.T) {
	for _, name := range []string{smallFile, largeFile} {
		w, first := twinned(t)
		w.home.put(t, "/runs/2", saved())
		w.spoil(filepath.Join(w.site.root, ".stepahead/data/ctl-1/copy/data/1", name))
		p := w.known("/runs/2")
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		n := int64(len(saved()[name]))
		if got := w.home.read(); got != n || made.Reused != savedBytes-n {
			t.Errorf("%s: %d bytes were read of the original, %+v", name, got, made)
		}
		w.wantCopy(p, made)
		w.over(first, p)
	}
}

// TestTwinsThatGo: a copy that is withdrawn, or replaced, while another is made of it is not missed.
func TestTwinsThatGo(t *testing.T) {
	for what, harm := range map[string]func(w *world, first controller.Placement){
		"removed": func(w *world, first controller.Placement) {
			must(w, w.mk.Withdraw(w.ctx, first, controller.Tools{}))
			must(w, w.mk.Remove(w.ctx, first, controller.Tools{}))
		},
		"replaced": func(w *world, _ controller.Placement) {
			for name, data := range saved(smallFile, largeFile) {
				file := filepath.Join(w.site.root, ".stepahead/data/ctl-1/copy/data/1", name)
				must(w, os.Remove(file))
				must(w, os.WriteFile(file, data, 0o644))
			}
		},
	} {
		for _, at := range []string{"sum", "open", "read"} {
			w, first := twinned(t)
			w.home.put(t, "/runs/2", saved())
			p := w.known("/runs/2")
			done := atomic.Bool{}
			strike := func(op, name string) error {
				if op == at && (op == "sum" || strings.Contains(name, "ctl-1/copy/data/")) && !done.Swap(true) {
					harm(w, first)
				}
				return nil
			}
			w.home.watch(nil, strike)
			w.site.watch(nil, strike)
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			must(t, err)
			w.home.watch(nil, nil)
			w.site.watch(nil, nil)
			if got := w.home.read(); !done.Load() || got+made.Reused != savedBytes || what == "removed" && at == "sum" && got == 0 {
				t.Errorf("%s at %s: %d bytes were read of the original, %+v", what, at, got, made)
			}
			w.wantCopy(p, made)
			w.over(first, p)
		}
	}
}

// TestTwinsOfOthers: what others may read, or somebody else wrote, is not taken, and nobody is asked for sums: a file can be made that has the sum of another one.
func TestTwinsOfOthers(t *testing.T) {
	ann := store.Access{Owner: "ann", Group: "team", Mode: 0o755}
	for what, c := range map[string]struct {
		change func(w *world)
		access plan.Access
		want   bool
	}{
		"the same":      {func(*world) {}, "", true},
		"another owner": {func(w *world) { w.home.access["/runs/2"] = ann }, "", false},
		"fewer may":     {func(w *world) { w.home.access["/runs/2"] = store.Access{Owner: "me", Group: "us", Mode: 0o700} }, "", false},
		"more may": {func(w *world) {
			w.home.access["/runs/2"] = store.Access{Owner: "me", Group: "us", Mode: 0o755, ACL: []string{"group::r-x", "user:eve:r-x"}}
		}, "", false},
		"another group":   {func(w *world) { w.home.access["/runs/2"] = store.Access{Owner: "me", Group: "team", Mode: 0o755} }, "", false},
		"its owner alone": {func(*world) {}, plan.OwnerOnly, false},
	} {
		w, first := twinned(t)
		w.home.put(t, "/runs/2", saved())
		c.change(w)
		p := w.placement("/runs/2")
		p.Make.Access = c.access
		var err error
		p.Fact, err = w.mk.Fact(w.ctx, p.Make)
		must(t, err)
		asked := w.asked()
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		if (made.Reused == savedBytes) != c.want || (w.home.read() == 0) != c.want || (asked.Load() > 0) != c.want {
			t.Errorf("%s: %+v, %d files were asked for", what, made, asked.Load())
		}
		w.over(first, p)
	}
}

// TestNoTwins: where there is nothing to compare with no sum is asked for, and without one all is sent.
func TestNoTwins(t *testing.T) {
	t.Run("no copy", func(t *testing.T) {
		w := newWorld(t)
		w.home.sums = true
		w.home.put(t, "/runs/1", saved())
		p, asked := w.known("/runs/1"), w.asked()
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		if asked.Load() != 0 || made.Reused != 0 {
			t.Errorf("%d files were asked for, %+v", asked.Load(), made)
		}
		w.remove(p)
	})
	for what, c := range map[string]struct {
		sums error
		most int64 // files asked for
	}{"no sums": {errors.ErrUnsupported, 4}, "no answers": {store.ErrUnavailable, 4}, "of another controller": {nil, 0}} {
		t.Run(what, func(t *testing.T) {
			w, first := twinned(t)
			if c.sums == nil {
				w.mk.o.Controller = "other"
			}
			w.home.put(t, "/runs/2", saved())
			p := w.known("/runs/2")
			asked := atomic.Int64{}
			w.home.watch(nil, func(op, _ string) error {
				if op != "sum" {
					return nil
				}
				asked.Add(1)
				return c.sums
			})
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			must(t, err)
			w.home.watch(nil, nil)
			if n := w.home.read(); n != savedBytes || made.Reused != 0 || asked.Load() > c.most {
				t.Errorf("%d bytes were sent, %d files asked for, %+v", n, asked.Load(), made)
			}
			w.wantCopy(p, made)
			if c.sums == nil {
				must(t, w.mk.Withdraw(w.ctx, p, controller.Tools{}))
				must(t, w.mk.Remove(w.ctx, p, controller.Tools{}))
				w.mk.o.Controller = "ctl"
			}
			w.over(first, p)
		})
	}
}

// TestTwinsAnyFailures: whatever fails while a copy is made of another one, what is published in the end is right, also when a byte of the first one is wrong, and nothing is left.
func TestTwinsAnyFailures(t *testing.T) {
	base, folder, worlds := newWorld(t), t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		worlds++
		w := *base
		w.tb, w.clock, w.next = t, &leap{}, 1
		var err error
		w.home, err = openLake(filepath.Join(makeFolder(t, folder, worlds), "home"))
		must(t, err)
		defer func() { must(t, closeLake(w.home)) }()
		w.site, err = openLake(filepath.Join(folder, fmt.Sprint(worlds), "site"))
		must(t, err)
		defer func() { must(t, closeLake(w.site)) }()
		w.home.sums = true
		w.restart()
		w.home.put(t, "/runs/1", deepSpeed())
		first := w.known("/runs/1")
		_, err = w.mk.Make(w.ctx, first, controller.Tools{})
		must(t, err)
		w.home.put(t, "/runs/2", saved(rapid.SampledFrom([]string{smallFile, largeFile, "mp_rank_00_model_states.pt"}).Draw(t, "changed")))
		if name := rapid.SampledFrom([]string{"", smallFile, largeFile}).Draw(t, "spoiled"); name != "" {
			w.spoil(filepath.Join(w.site.root, ".stepahead/data/ctl-1/copy/data/1", name))
		}
		p := w.known("/runs/2")
		for range rapid.IntRange(0, 3).Draw(t, "tries") {
			w.fail(t)
			_, _ = w.mk.Make(w.ctx, p, controller.Tools{Fence: w.fence(t)})
			w.heal()
			if rapid.Bool().Draw(t, "restart") {
				w.restart()
			}
		}
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		w.wantCopy(p, made)
		w.over(first, p)
	})
}

// TestTwinsEnd: a making that is cut off while it asks or copies within the site ends, and the next one goes on.
func TestTwinsEnd(t *testing.T) {
	for _, at := range []string{"sum", "read"} {
		w, first := twinned(t)
		w.home.put(t, "/runs/2", saved())
		p := w.known("/runs/2")
		ctx, cancel := context.WithCancel(w.ctx)
		strike := func(op, name string) error {
			if op == at && (op == "sum" || strings.Contains(name, "ctl-1/copy/data/")) {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		w.home.watch(nil, strike)
		w.site.watch(nil, strike)
		if _, err := w.mk.Make(ctx, p, controller.Tools{}); !errors.Is(err, context.Canceled) || reason(err) != "" {
			t.Errorf("at %s: %v", at, err)
		}
		w.home.watch(nil, nil)
		w.site.watch(nil, nil)
		w.home.read()
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		if n := w.home.read(); n != 0 || made.Reused != savedBytes {
			t.Errorf("at %s: %d bytes were sent, %+v", at, n, made)
		}
		w.wantCopy(p, made)
		w.over(first, p)
	}
}

// TestTwinsIn: only a name and a length that are the same are worth a question.
func TestTwinsIn(t *testing.T) {
	files := []checkpoint.File{{Name: "a", Size: 1}, {Name: "b", Size: 2}, {Name: "c", Size: 3}, {Name: "d", Size: 4}}
	r := record{Data: "data/x", Files: []sum{{Name: "a", Size: 1, Here: "h", CRC32C: 9}, {Name: "b", Size: 3}, {Name: "cc", Size: 3}, {Name: "d", Size: 4}}}
	got := twinsIn(r, "/p", files, []int{0, 1, 2})
	if len(got) != 1 || got[0] != (twin{"/p/data/x/a", "h", 9}) {
		t.Errorf("%+v", got)
	}
}
