package copies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
)

// errDead is what all calls of a dead process come to.
var errDead = errors.New("the process is dead")

// dieAfter lets n changes take place; all calls after them fail.
func dieAfter(n int64) (before, reads func(op, name string) error) {
	left := atomic.Int64{}
	left.Store(n)
	before = func(string, string) error {
		if left.Add(-1) < 0 {
			return errDead
		}
		return nil
	}
	return before, func(string, string) error {
		if left.Load() < 0 {
			return errDead
		}
		return nil
	}
}

// stride is how many places are passed over between two where a test has a process die: none in long runs.
func stride(n int64) int64 {
	if os.Getenv(testdata.SoakEnv) != "" {
		return 1
	}
	return n
}

// TestDeadAtEveryChange: wherever a making dies, the next one ends it, with what is right, and a removal leaves nothing.
func TestDeadAtEveryChange(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	for n, over := int64(0), false; !over; n += stride(3) {
		p := w.placement("/tag")
		w.site.watch(dieAfter(n))
		_, err := w.mk.Make(w.ctx, p, controller.Tools{})
		w.site.watch(nil, nil)
		w.restart()
		if over = err == nil; !over && !errors.Is(err, errDead) {
			t.Fatalf("dead after %d changes: %v", n, err)
		}
		if entries, err := catalogue.List(w.ctx, w.site.Store, w.key.Keys()); err != nil || len(entries) > 0 {
			t.Fatalf("published before it was: %v, %v", entries, err)
		}
		if n%2 == 0 {
			made, err := w.mk.Make(w.ctx, p, controller.Tools{})
			must(t, err)
			w.wantCopy(p, made)
		}
		w.remove(p)
	}
}

// TestDeadWhileRemoving: a removal that dies is ended by the next.
func TestDeadWhileRemoving(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	for n := int64(0); ; n += stride(3) {
		p := w.placement("/tag")
		made, err := w.mk.Make(w.ctx, p, controller.Tools{})
		must(t, err)
		w.wantCopy(p, made)
		w.site.watch(dieAfter(n))
		err = w.mk.Remove(w.ctx, p, controller.Tools{})
		w.site.watch(nil, nil)
		if err == nil {
			w.site.wantNothing(t)
			return
		}
		must(t, w.mk.Remove(w.ctx, p, controller.Tools{}))
		w.site.wantNothing(t)
	}
}

// TestNotSentAgain: what a record has is not sent by the next making, also of one that died as it took over.
func TestNotSentAgain(t *testing.T) {
	w := newWorld(t)
	files := map[string][]byte{"mp_rank_00_model_states.pt": noise(10, 99)}
	for i := range 40 {
		files[fmt.Sprintf("zero_pp_rank_%02d_mp_rank_00_optim_states.pt", i)] = noise(1000, uint64(i))
	}
	w.home.put(t, "/tag", files)
	w.mk.o.Transfers = 1
	p := w.placement("/tag")
	stop := errors.New("stop")
	w.site.watch(func(op, name string) error { // all but one are whole, and written down
		if op == "create" && strings.HasSuffix(name, "rank_38_mp_rank_00_optim_states.pt") {
			return stop
		}
		return nil
	}, nil)
	if _, err := w.mk.Make(w.ctx, p, controller.Tools{}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for n := int64(0); n < 40; n += stride(7) {
		w.site.watch(dieAfter(n))
		if _, err := w.mk.Make(w.ctx, p, controller.Tools{}); err == nil {
			t.Fatal("it did not die")
		}
	}
	w.site.watch(nil, nil)
	w.site.took()
	sent := atomic.Int64{}
	w.home.watch(nil, func(op, name string) error {
		if op == "read" {
			sent.Add(1)
		}
		return nil
	})
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	w.home.watch(nil, nil)
	if n := sent.Load(); n > 4 { // those that were under way with the one, of 41
		t.Errorf("%d files were read again", n)
	}
	w.wantCopy(p, made)
	w.remove(p)
}

// TestChangedAfterwards: what is not what the record says any more is sent again.
func TestChangedAfterwards(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	p := w.placement("/tag")
	made, err := w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	row := w.wantCopy(p, made)
	harmed := row.Copy.Place + "/mp_rank_00_model_states.pt"
	must(t, w.site.Remove(w.ctx, harmed))
	w.site.put(t, row.Copy.Place, map[string][]byte{"mp_rank_00_model_states.pt": noise(3000, 99)})
	if err := w.mk.Publish(w.ctx, p, controller.Tools{}); err == nil {
		t.Error("a copy that was changed is published")
	}
	w.site.took()
	made, err = w.mk.Make(w.ctx, p, controller.Tools{})
	must(t, err)
	if n := w.site.took(); n < 3000 || n > 9000 {
		t.Errorf("%d bytes were written for a file of 3000", n)
	}
	w.wantCopy(p, made)
	w.remove(p)
}

// child is a process that makes a copy and kills itself at a change.
type child struct {
	Home, Site, Key string
	Placement       controller.Placement
	After           int64
}

func (c child) run() error {
	home, err := openLake(c.Home)
	if err != nil {
		return err
	}
	site, err := openLake(c.Site)
	if err != nil {
		return err
	}
	left := atomic.Int64{}
	left.Store(c.After)
	site.watch(func(string, string) error {
		if left.Add(-1) < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}, nil)
	key, err := catalogue.LoadKey(c.Key)
	if err != nil {
		return err
	}
	mk, err := New(Options{Controller: "ctl", Stores: &lakes{home: home, site: site}, Key: key})
	if err != nil {
		return err
	}
	mk.sizes = tiny
	_, err = mk.Make(context.Background(), c.Placement, controller.Tools{})
	return err
}

// killed runs a child, and tells whether it was killed.
func (c child) killed(t *testing.T) bool {
	t.Helper()
	text, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stdin = bytes.NewReader(text)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return false
}

// TestKilledProcesses: after kill -9 at a change, with whatever was under way beside it, the next process goes on or removes all.
func TestKilledProcesses(t *testing.T) {
	w := newWorld(t)
	w.home.put(t, "/tag", deepSpeed())
	folder := t.TempDir()
	w.key = newKey(t, folder)
	w.restart()
	for n := int64(0); ; n += 3 {
		c := child{Home: w.home.root, Site: w.site.root, Key: folder + "/catalogue.key", Placement: w.placement("/tag"), After: n}
		if !c.killed(t) {
			w.remove(c.Placement)
			return
		}
		if n%2 == 0 {
			made, err := w.mk.Make(w.ctx, c.Placement, controller.Tools{})
			must(t, err)
			w.wantCopy(c.Placement, made)
		}
		w.remove(c.Placement)
	}
}

// TestReasons: what goes wrong with the original or the site is said so.
func TestReasons(t *testing.T) {
	gone := func(name string) func(op, n string) error {
		return func(op, n string) error {
			if op == "read" && strings.HasSuffix(n, name) {
				return fmt.Errorf("%s: %w", n, fs.ErrNotExist)
			}
			return nil
		}
	}
	refuse := func(op string, err error) func(op, n string) error {
		return func(o, _ string) error {
			if o == op {
				return err
			}
			return nil
		}
	}
	for what, c := range map[string]struct {
		want string
		site func(op, name string) error
		home func(op, name string) error
		harm func(w *world)
	}{
		"site full":               {want: "site", site: refuse("write", syscall.ENOSPC)},
		"site full at the end":    {want: "site", site: refuse("close", syscall.EDQUOT)},
		"site read-only":          {want: "site", site: refuse("folder", syscall.EROFS)},
		"site not ours":           {want: "site", site: refuse("create", fs.ErrPermission)},
		"site not answering":      {want: "site", site: refuse("create", store.ErrUnavailable)},
		"site gone":               {want: "site", harm: func(w *world) { w.stores.gone = errors.New("no route") }},
		"original gone":           {want: "source", harm: func(w *world) { must(w, os.RemoveAll(w.home.root+"/tag")) }},
		"original gone meanwhile": {want: "source", home: gone("mp_rank_00_model_states.pt")},
		"original changed":        {want: "identity", harm: func(w *world) { w.home.put(w, "/tag", map[string][]byte{"more.pt": nil}) }},
	} {
		w := newWorld(t)
		w.home.put(t, "/tag", deepSpeed())
		p := w.placement("/tag")
		if c.harm != nil {
			c.harm(w)
		}
		w.site.watch(c.site, nil)
		w.home.watch(nil, c.home)
		if _, err := w.mk.Make(w.ctx, p, controller.Tools{}); string(reason(err)) != c.want {
			t.Errorf("%s: %v", what, err)
		}
		w.site.watch(nil, nil)
		w.stores.gone = nil
		w.remove(p)
	}
}
