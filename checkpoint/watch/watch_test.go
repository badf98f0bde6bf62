package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a folder that is watched, whose time goes on only when the watch sleeps. What happens is a list of scenes: each is played when the
// watch sleeps, and says what the watch has told since.
type world struct {
	t      testing.TB
	root   string
	store  *counting
	now    time.Duration
	slept  []time.Duration
	told   []string
	errs   []error
	scenes []func()
}

// counting counts what a store is asked, and fails as told.
type counting struct {
	store.Store
	lists map[string]int
	fail  error
}

func (s *counting) List(ctx context.Context, name string) ([]store.Info, error) {
	s.lists[name]++
	if s.fail != nil {
		return nil, s.fail
	}
	return s.Store.List(ctx, name)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root := t.TempDir()
	s, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &world{t: t, root: s.Root(), store: &counting{Store: s, lists: map[string]int{}}}
}

func (w *world) Now() time.Duration { return w.now }

func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	w.now += d
	w.slept = append(w.slept, d)
	if len(w.scenes) == 0 {
		return errEnd
	}
	scene := w.scenes[0]
	w.scenes = w.scenes[1:]
	scene()
	return ctx.Err()
}

var errEnd = errors.New("no more scenes")

// watch plays the scenes.
func (w *world) watch(o Options, scenes ...func()) {
	w.t.Helper()
	w.watchIn("/runs", o, scenes...)
}

func (w *world) watchIn(root string, o Options, scenes ...func()) {
	w.t.Helper()
	w.scenes = scenes
	o.Clock, o.Random, o.Report = w, func() float64 { return 0.5 }, func(err error) { w.errs = append(w.errs, err) }
	err := Watch(w.t.Context(), w.store, root, o, func(e Event) error {
		w.told = append(w.told, string(e.Kind)+" "+filepath.Base(e.Path))
		if (e.Checkpoint != nil) != (e.Kind == Committed) {
			w.t.Errorf("%+v", e)
		}
		return nil
	})
	if !errors.Is(err, errEnd) {
		w.t.Fatal(err)
	}
}

// expect is what was told since it was asked last.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.told, want) {
		w.t.Errorf("told %q, want %q", w.told, want)
	}
	w.told = nil
}

func (w *world) write(name string, n int) {
	w.t.Helper()
	name = filepath.Join(w.root, "runs", name)
	must(w.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(w.t, os.WriteFile(name, append(append([]byte("PK\x03\x04"), make([]byte, n)...), append([]byte("PK\x05\x06"), make([]byte, 18)...)...), 0o644))
}

func (w *world) remove(name string) { must(w.t, os.RemoveAll(filepath.Join(w.root, "runs", name))) }

// TestLife: checkpoints that are there, being written, committed, overwritten and removed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		w.write(fmt.Sprintf("step-%d/model.pt", i), 8)
	}
	w.write("logs/x", 1)
	w.write("latest", 1) // a file is none
	w.write(".stepahead/x", 1)
	w.watch(Options{Recent: 2, Looks: 2},
		func() {
			w.expect("committed step-5", "committed step-4")
			w.write("step-6/__0_0.distcp", 8)
		},
		func() {
			w.expect() // it is not complete
			w.remove("step-6/__0_0.distcp")
			w.write("step-6/model.pt", 8)
		},
		func() {
			w.expect("committed step-6")
			w.remove("step-0") // was there from the beginning, and was never looked at
			w.remove("step-5")
			w.remove("logs")
		},
		func() {
			w.expect("deleted step-0", "deleted step-5")
			w.remove("step-6/model.pt")
			w.write("step-6/model.pt", 9) // another version
			w.write("step-7/__0_0.distcp", 8)
		},
		func() {
			w.expect("committed step-6")
			w.remove("step-7") // never complete: nobody was told of it
		},
		func() { w.expect() },
	)
	w.expect()
}

// TestQuiet: where nothing changes, the folder itself is all that is listed.
func TestQuiet(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		w.write(fmt.Sprintf("step-%02d/model.pt", i), 8)
	}
	var scenes []func()
	for range 20 {
		scenes = append(scenes, func() {})
	}
	w.watch(Options{Recent: 4}, scenes...)
	if n := w.store.lists["/runs"]; n != 21 {
		t.Errorf("%d listings in 21 turns", n)
	}
	delete(w.store.lists, "/runs")
	if len(w.store.lists) != 4 || w.store.lists["/runs/step-49"] != 1 {
		t.Errorf("looked at %v", w.store.lists)
	}
	w.expect("committed step-49", "committed step-48", "committed step-47", "committed step-46")
}

// TestUnfinished: a folder that a killed writer left is looked at less and less, and at once when it changes.
func TestUnfinished(t *testing.T) {
	w := newWorld(t)
	w.write("step-1/__0_0.distcp", 8)
	var scenes []func()
	const turns = 200
	for range turns {
		scenes = append(scenes, func() {})
	}
	scenes = append(scenes, func() { w.write("step-1/model.pt", 8); w.remove("step-1/__0_0.distcp") })
	w.watch(Options{Recent: 4}, scenes...)
	if n := w.store.lists["/runs/step-1"]; n < 8 || n > 16 {
		t.Errorf("looked %d times in %d turns", n, turns)
	}
	w.expect("committed step-1")
}

// TestSettles: of a layout that does not say how many files it has, what stays the same for long enough is told.
func TestSettles(t *testing.T) {
	w := newWorld(t)
	w.write("global_step1/mp_rank_00_model_states.pt", 8)
	w.watch(Options{Recent: 4, Settle: 25 * time.Second},
		func() {
			w.write("global_step1/zero_pp_rank_0_mp_rank_00_optim_states.pt", 8)
		},
		func() {},
		func() { w.expect() },
		func() {}, func() {}, func() {},
	)
	w.expect("committed global_step1")
	known := newWorld(t)
	known.write("global_step1/mp_rank_00_model_states.pt", 8)
	known.write("global_step1/zero_pp_rank_0_mp_rank_00_optim_states.pt", 8)
	known.watch(Options{Recent: 4, WorldSize: 1})
	known.expect("committed global_step1")
}

// TestFailing: a store that does not answer, or a folder that is not there, says nothing about checkpoints, and is asked less and less.
func TestFailing(t *testing.T) {
	w := newWorld(t)
	w.watch(Options{Recent: 4}, // the folder is not there yet
		func() { w.write("step-1/model.pt", 8) },
		func() {
			w.expect("committed step-1")
			w.store.fail = fmt.Errorf("%w: nobody answers", store.ErrUnavailable)
		},
		func() {}, func() {}, func() {},
		func() { w.store.fail = nil },
		func() { w.expect(); must(t, os.Rename(filepath.Join(w.root, "runs"), filepath.Join(w.root, "away"))) },
		func() { must(t, os.Rename(filepath.Join(w.root, "away"), filepath.Join(w.root, "runs"))) },
	)
	w.expect()
	if len(w.errs) != 6 || !strings.Contains(w.errs[1].Error(), "nobody answers") {
		t.Errorf("%v", w.errs)
	}
	if got := w.slept[3:6]; !slices.Equal(got, []time.Duration{40 * time.Second, 80 * time.Second, 160 * time.Second}) {
		t.Errorf("slept %v", w.slept)
	}
}

// TestUnreadable: what cannot be read is reported by the path that other programs know.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	w.write("step-1/.metadata", 8)
	w.watch(Options{Recent: 1})
	if len(w.errs) != 1 || !strings.HasPrefix(w.errs[0].Error(), "watch "+filepath.Join(w.root, "runs", "step-1")+": ") {
		t.Errorf("%v", w.errs)
	}
}

// TestEnds: the watch ends with its context, and with whoever is told.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	w.write("step-1/model.pt", 8)
	bad := errors.New("cannot be told")
	if err := Watch(t.Context(), w.store, "/runs", Options{Clock: w, Recent: 1}, func(Event) error { return bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Watch(ctx, w.store, "/runs", Options{Recent: 1}, func(Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, o := range []Options{{Interval: 1}, {Interval: 2 * time.Hour}, {Looks: -1}, {Settle: -1}, {WorldSize: -1}} {
		if err := Watch(t.Context(), w.store, "/runs", o, nil); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestPlanner: whatever happens, no version is told twice, nothing that is not complete, no more folders are looked at than may be, and what is
// complete and stays is told in the end.
func TestPlanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits{interval: time.Second, settle: 3 * time.Second, looks: rapid.IntRange(1, 3).Draw(t, "looks"), recent: 1 << 30}
		p := newPlanner(l)
		type truth struct {
			version, changed int
			found            verdict
		}
		there, told := map[string]*truth{}, map[string]bool{}
		now := time.Duration(0)
		turn := func() {
			var found []checkpoint.Candidate
			for path, f := range there {
				found = append(found, checkpoint.Candidate{Path: path, Changed: time.Unix(int64(f.changed), 0)})
			}
			gone, looks := p.listed(now, found)
			for _, path := range gone {
				if there[path] != nil {
					t.Fatalf("%s is there, and told to be gone", path)
				}
			}
			if len(looks) > l.looks {
				t.Fatalf("%d looks", len(looks))
			}
			for _, path := range looks {
				f := there[path]
				version := fmt.Sprintf("%s %d", path, f.version)
				if p.looked(now, path, f.found, version, 0.5) {
					if f.found != whole && f.found != perhaps || told[version] {
						t.Fatalf("told of %s, which is %d; before: %t", version, f.found, told[version])
					}
					told[version] = true
				}
			}
		}
		clock := 0
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			path := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "folder"))
			if rapid.IntRange(0, 4).Draw(t, "removed") == 0 {
				delete(there, path)
			} else {
				clock++
				there[path] = &truth{clock, clock, verdict(rapid.IntRange(0, 3).Draw(t, "verdict"))}
			}
			turn()
			now += time.Second
		}
		for range 100 {
			turn()
			now += time.Second
		}
		for path, f := range there {
			if version := fmt.Sprintf("%s %d", path, f.version); (f.found == whole || f.found == perhaps) != told[version] {
				t.Fatalf("%s is %d, told: %t", version, f.found, told[version])
			}
		}
	})
}
