package copies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// TestChangedMeanwhile: an original that is overwritten, gets another file or goes while it is copied gives no copy, whatever of it was read before.
func TestChangedMeanwhile(t *testing.T) {
	for what, c := range map[string]struct {
		want plan.Reason
		harm func(w *world)
	}{
		"overwritten": {plan.ReasonIdentity, func(w *world) {
			name := "/tag/zero_pp_rank_0_mp_rank_00_optim_states.pt"
			must(w, os.Remove(w.home.root+name))
			w.home.put(w, "/tag", map[string][]byte{path.Base(name): noise(7777, 50)})
		}},
		"more of it": {plan.ReasonIdentity, func(w *world) {
			w.home.put(w, "/tag", map[string][]byte{"zero_pp_rank_2_mp_rank_00_optim_states.pt": noise(10, 50)})
		}},
		"less of it":      {plan.ReasonIdentity, func(w *world) { must(w, os.Remove(w.home.root+"/tag/mp_rank_00_model_states.pt")) }},
		"gone":            {plan.ReasonSource, func(w *world) { must(w, os.RemoveAll(w.home.root+"/tag")) }},
		"under new names": {plan.ReasonSource, func(w *world) { must(w, os.Rename(w.home.root+"/tag", w.home.root+"/other")) }},
	} {
		for _, after := range []int{1, 4, 1000} { // reads; never by itself
			w := newWorld(t)
			w.mk.o.Transfers = 1
			w.home.put(t, "/tag", deepSpeed())
			p := w.placement("/tag")
			reads := atomic.Int64{}
			w.home.watch(nil, func(op, name string) error {
				if op == "read" && reads.Add(1) == int64(after) {
					c.harm(w)
				}
				return nil
			})
			if after == 1000 { // when all is sent
				w.site.watch(func(op, name string) error {
					if op == "rename" && strings.Contains(path.Base(name), newPrefix) {
						c.harm(w)
						w.site.watch(nil, nil)
					}
					return nil
				}, nil)
			}
			_, err := w.mk.Make(w.ctx, p, controller.Tools{})
			if got := reason(err); got != c.want && !(got == plan.ReasonSource && c.want == plan.ReasonIdentity) { // of one file it is not told whether all is gone
				t.Errorf("%s after %d reads: %v", what, after, err)
			}
			if err := w.mk.Publish(w.ctx, p, controller.Tools{}); err == nil {
				t.Errorf("%s after %d reads: it is published", what, after)
			}
			w.remove(p)
		}
	}
}

// TestReadBack: what the site did not keep as it was written is written again, and given up after a while.
func TestReadBack(t *testing.T) {
	for _, file := range []string{"mp_rank_00_model_states.pt", "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"} {
		for _, always := range []bool{false, true} {
			w := newWorld(t)
			w.home.put(t, "/tag", deepSpeed())
			spoiled := atomic.Int64{}
			spoil := func(op, name string) error {
				if op != "open" || path.Base(name) != file || spoiled.Add(1) > 1 && !always {
					return nil
				}
				full := filepath.Join(w.site.root, filepath.FromSlash(name))
				data, err := os.ReadFile(full)
				must(t, err)
				data[len(data)/2] ^= 1
				info, err := os.Stat(full)
				must(t, err)
				must(t, os.WriteFile(full, data, 0o644))
				return os.Chtimes(full, info.ModTime(), info.ModTime()) // the same version, as a disk would do it
			}
			w.site.watch(nil, spoil)
			p := w.placement("/tag")
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			w.site.watch(nil, nil)
			if always {
				if reason(err) != plan.ReasonSite || !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v", file, err)
				}
			} else {
				must(t, err)
				w.wantCopy(p, made)
			}
			w.remove(p)
		}
	}
}

// TestLinkIsCut: a minute without an answer is waited for, on either side; a link that stays cut ends the making, which is gone on with later.
func TestLinkIsCut(t *testing.T) {
	for _, side := range []string{"home", "site"} {
		for _, long := range []bool{false, true} {
			w := newWorld(t)
			w.home.put(t, "/tag", deepSpeed())
			p := w.placement("/tag")
			until, began := time.Minute, false
			if long {
				until = time.Hour
			}
			var mu sync.Mutex
			cut := func(op, name string) error {
				mu.Lock()
				defer mu.Unlock()
				began = began || op == "read" || op == "write"
				if began && w.clock.Now() < until {
					return fmt.Errorf("%s: %w", name, store.ErrUnavailable)
				}
				return nil
			}
			if side == "home" {
				w.home.watch(nil, cut)
			} else {
				w.site.watch(func(op, name string) error {
					if strings.Contains(name, "/mp_rank") && (op == "write" || op == "close") {
						return cut("write", name)
					}
					return nil
				}, nil)
			}
			w.mk.o.Transfers = 1 // each wait leaps over its time
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			w.home.watch(nil, nil)
			w.site.watch(nil, nil)
			if long {
				if store.ClassOf(err) != store.Retryable || w.clock.Now() > 10*time.Minute {
					t.Errorf("%s: %v after %v", side, err, w.clock.Now())
				}
				made, err = w.mk.Make(w.ctx, p, controller.Tools{})
			}
			must(t, err)
			w.wantCopy(p, made)
			w.remove(p)
		}
	}
}

// TestFence: each change of the world comes after a look at the lease; after one that fails nothing is changed any more.
func TestFence(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	lost := errors.New("the lease is lost")
	for n, over := int64(0), false; !over; n += stride(5) {
		p := w.placement("/tag")
		looks, fenced, early := atomic.Int64{}, atomic.Bool{}, atomic.Int64{}
		tools := controller.Tools{Fence: func(context.Context) error {
			if looks.Add(1) > n {
				fenced.Store(true)
				return lost
			}
			return nil
		}}
		w.site.watch(func(op, name string) error {
			if looks.Load() == 0 {
				early.Add(1)
			}
			if fenced.Load() && op != "write" && op != "close" { // what is on its way into files that nobody sees
				t.Errorf("%s %s without the lease", op, name)
			}
			return nil
		}, nil)
		w.mk.o.Transfers = 1
		_, err := w.mk.Make(w.ctx, p, tools)
		if err == nil {
			err = w.mk.Publish(w.ctx, p, tools)
		}
		if err == nil {
			err = w.mk.Extend(w.ctx, p, tools)
		}
		if err == nil {
			err = w.mk.Withdraw(w.ctx, p, tools)
		}
		if err == nil {
			err = w.mk.Remove(w.ctx, p, tools)
		}
		w.site.watch(nil, nil)
		var fence *temporary.FenceError
		if over = err == nil; !over && (!errors.Is(err, lost) || !errors.As(err, &fence) || reason(err) != "") {
			t.Fatalf("the lease is lost after %d looks: %v", n, err)
		}
		if early.Load() > 0 {
			t.Fatal("something was changed before the lease was looked at")
		}
		w.remove(p)
	}
}

// TestTwoMakers: one that is stopped between its look at the lease and its change, wherever that is, and goes on when another has made the copy or is making it, changes nothing of it.
func TestTwoMakers(t *testing.T) {
	for stop := int64(1); ; stop += stride(5) {
		w := newWorld(t)
		w.home.put(t, "/tag", deepSpeed())
		p := w.placement("/tag")
		first, err := New(w.mk.o)
		must(t, err)
		first.sizes = tiny
		first.o.Transfers = 1
		changes := atomic.Int64{}
		stopped, goOn, lost := make(chan struct{}), make(chan struct{}), atomic.Bool{}
		w.site.watch(func(op, name string) error {
			if changes.Add(1) == stop {
				close(stopped)
				<-goOn
			}
			return nil
		}, nil)
		done := make(chan error, 1)
		go func() {
			_, err := first.Make(w.ctx, p, controller.Tools{Fence: func(context.Context) error {
				if lost.Load() {
					return errors.New("another has it")
				}
				return nil
			}})
			done <- err
		}()
		select {
		case <-stopped:
		case err := <-done:
			must(t, err) // it was not stopped
			w.site.watch(nil, nil)
			w.remove(p)
			return
		}
		w.site.watch(nil, nil)
		lost.Store(true)
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		if err == nil {
			w.wantCopy(p, made)
		} else if reason(err) != plan.ReasonSite || stop > 4 { // as it stands it writes the mark, and in a folder a name has one writer
			t.Fatalf("beside one that is stopped at change %d: %v", stop, err)
		}
		close(goOn)
		<-done // an error, unless that change was its last
		made, err = w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		w.wantCopy(p, made)
		w.remove(p)
	}
}

// TestShared: the same version under another name is named, not sent, and stays when the name goes. What only looks like it is refused.
func TestShared(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	for name := range deepSpeed() {
		link := filepath.Join(w.home.root, "again/of/it", name)
		must(t, os.MkdirAll(filepath.Dir(link), 0o755))
		must(t, os.Link(filepath.Join(w.home.root, "tag", name), link))
	}
	of := w.placement("/tag")
	made, err := w.mk.Make(w.ctx, of, controller.Tools{})
	must(t, err)
	p := w.placement("/again/of/it")
	p.Make.Of, p.Of = of.Make.ID, &of
	w.home.watch(nil, func(op, name string) error {
		if op == "read" {
			t.Errorf("%s %s", op, name)
		}
		return nil
	})
	shared, err := w.mk.Make(w.ctx, p, controller.Tools{})
	if must(t, err); shared.Digest != made.Digest || shared.Reused != p.Make.Content {
		t.Errorf("%v, the other is %v", shared, made)
	}
	w.home.watch(nil, nil)
	row := w.wantCopy(p, shared)
	if !strings.HasPrefix(row.Copy.Place, temporary.PlaceOf("ctl", of.Make.ID)+"/") || row.Placement != uint64(p.Make.ID) {
		t.Errorf("the row is %+v", row)
	}
	must(t, w.mk.Withdraw(w.ctx, p, controller.Tools{}))
	must(t, w.mk.Remove(w.ctx, p, controller.Tools{}))
	w.wantCopy(of, made)
	trained := deepSpeed()
	trained["mp_rank_00_model_states.pt"] = noise(3000, 5)
	for name, files := range map[string]map[string][]byte{"/other": {"mp_rank_00_model_states.pt": noise(3000, 1)}, "/trained": trained} {
		w.home.put(t, name, files)
		other := w.placement(name)
		other.Make.Of, other.Of = of.Make.ID, &of
		if _, err := w.mk.Make(w.ctx, other, controller.Tools{}); err == nil {
			t.Errorf("%s: another content is taken for the same", name)
		}
		must(t, w.mk.Remove(w.ctx, other, controller.Tools{}))
	}
	w.remove(of)
}

// TestMarks: what lies at the site says how long, and a sweep undoes it when the time is over, without the original.
func TestMarks(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	p := w.placement("/tag")
	p.Lease = time.Minute
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	ttl := func() time.Duration {
		m, err := temporary.Read(w.ctx, w.site.Store, temporary.NameOf("ctl", p.Make.ID))
		must(t, err)
		if m.Path != w.home.Address("/tag") || m.Identity != p.Make.Identity || m.Row != path.Join(catalogue.Folder, catalogue.NameOf(m.Path)) || m.Place != temporary.PlaceOf("ctl", p.Make.ID) {
			t.Fatalf("%+v", m)
		}
		return m.TTL
	}
	grace := w.mk.o.Grace // the row ends with the lease, and whoever has the copy open by then finishes
	if ttl() != time.Minute+grace {
		t.Errorf("%v", ttl())
	}
	p.Lease = time.Hour
	must(t, w.mk.Extend(w.ctx, p, controller.Tools{}))
	row := w.wantCopy(p, made)
	p.Publish, p.Lease = &plan.Publish{}, 2*time.Hour
	must(t, w.mk.Extend(w.ctx, p, controller.Tools{}))
	row, err = catalogue.Resolve(w.ctx, w.site.Store, w.home.Address("/tag"), catalogue.ResolverOptions{Keys: w.key.Keys()})
	if must(t, err); row.TTL != 2*time.Hour || ttl() != 2*time.Hour+grace {
		t.Errorf("the row lasts %v, the mark %v", row.TTL, ttl())
	}
	must(t, os.RemoveAll(w.home.root+"/tag"))
	if err := w.mk.Extend(w.ctx, p, controller.Tools{}); reason(err) != plan.ReasonSource {
		t.Errorf("without the original: %v", err)
	}
	now, err := temporary.Now(w.ctx, w.site.Store)
	must(t, err)
	if r, err := temporary.Sweep(w.ctx, w.site.Store, temporary.SweepOptions{Now: now.Add(2*time.Hour + grace)}); err != nil || r.Undone != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := temporary.Sweep(w.ctx, w.site.Store, temporary.SweepOptions{Now: now.Add(2*time.Hour + grace + time.Minute)}); err != nil || r.Undone != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	w.site.wantNothing(t)
}

// TestLabels: a copy's row has those of the original.
func TestLabels(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	w.mk.o.Labels = func(_ context.Context, name string) (map[string]string, error) {
		return map[string]string{"of": name}, nil
	}
	p := w.placement("/tag")
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	if row := w.wantCopy(p, made); row.Copy.Labels["of"] != "/tag" {
		t.Errorf("%+v", row.Copy.Labels)
	}
	w.remove(p)
}

// TestManyFiles: thousands of small files go in few calls.
func TestManyFiles(t *testing.T) {
	w := newWorld(t)
	w.mk.sizes = usual
	files := map[string][]byte{"mp_rank_00_model_states.pt": noise(10, 1)}
	const many = 500
	for i := range many {
		files[fmt.Sprintf("offloaded_tensors/rank%d/%d.swp", i%3, i)] = noise(i%50, uint64(i))
	}
	w.home.put(t, "/tag", files)
	p := w.placement("/tag")
	fences := atomic.Int64{}
	made, err := w.mk.Make(w.ctx, p, controller.Tools{Fence: func(context.Context) error { fences.Add(1); return nil }})
	must(t, err)
	if n := fences.Load(); n > 100 { // a batch has 64 files
		t.Errorf("the lease is looked at %d times for %d files", n, many)
	}
	w.wantCopy(p, made)
	w.remove(p)
}

// TestCancelled: the end of the context ends a making soon, also one that is paused, and what was whole is written down.
func TestCancelled(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	p := w.placement("/tag")
	ctx, cancel := context.WithCancel(w.ctx)
	waits := atomic.Int64{}
	_, err := w.mk.Make(ctx, p, controller.Tools{Rate: func() (int64, <-chan struct{}) {
		if waits.Add(1) > 3 {
			cancel()
		}
		return 0, nil
	}})
	if !errors.Is(err, context.Canceled) || reason(err) != "" {
		t.Errorf("%v", err)
	}
	w.remove(p)
}
