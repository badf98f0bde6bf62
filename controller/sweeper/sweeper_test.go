package sweeper

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, root string) *dir.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	return st
}

// old writes a mark that has expired, with data. The margin is over too: the test's store is asked for the time by a clock that is ahead.
func old(t *testing.T, st store.Store, id plan.ID) {
	t.Helper()
	m := temporary.Mark{Version: temporary.Version, Controller: "c1", Placement: id, Means: plan.Sibling, Path: "/hot", Place: temporary.PlaceOf("c1", id)}
	must(t, temporary.Write(t.Context(), st, m))
	storetest.Put(t, st, m.Place+"/data", []byte("x"))
}

// later is a store whose clock is an hour ahead whenever it is asked for the time.
type later struct{ *dir.Store }

func (l later) Stat(ctx context.Context, name string) (store.Info, error) {
	info, err := l.Store.Stat(ctx, name)
	info.ModTime = info.ModTime.Add(time.Hour)
	return info, err
}

func some(t *testing.T, st store.Store) bool {
	t.Helper()
	some, err := temporary.Any(t.Context(), st)
	must(t, err)
	return some
}

// TestElection: one of several sweeps, only while no controller lives, and another when it is gone.
func TestElection(t *testing.T) {
	root := t.TempDir()
	a, b := New(Options{Store: later{open(t, root)}}), New(Options{Store: later{open(t, root)}})
	st := open(t, root)
	must(t, a.Look(t.Context()))
	must(t, b.Look(t.Context()))
	if !a.Stats().Elected || b.Stats().Elected {
		t.Fatalf("elected: %+v, %+v", a.Stats(), b.Stats())
	}
	old(t, st, 1)
	controller, err := st.Claim(t.Context(), lease.Name)
	must(t, err)
	must(t, errors.Join(a.Look(t.Context()), b.Look(t.Context())))
	if !some(t, st) || a.Stats().Sweeps != 0 {
		t.Fatalf("it sweeps while a controller lives: %+v", a.Stats())
	}
	must(t, controller.Release())
	must(t, b.Look(t.Context()))
	if !some(t, st) {
		t.Fatal("the one that is not elected sweeps")
	}
	must(t, a.Look(t.Context()))
	if n := a.Stats(); some(t, st) || n.Sweeps != 1 || n.Undone != 1 || n.Failing != 0 {
		t.Fatalf("%+v", n)
	}
	controller, err = st.Claim(t.Context(), lease.Name) // it was let go
	must(t, err)
	must(t, controller.Release())
	a.resign()
	old(t, st, 2)
	must(t, b.Look(t.Context()))
	if some(t, st) || !b.Stats().Elected || a.Stats().Elected {
		t.Fatalf("%+v, %+v", a.Stats(), b.Stats())
	}
	b.resign()
}

// TestYoung: what has not expired stays.
func TestYoung(t *testing.T) {
	st := open(t, t.TempDir())
	s := New(Options{Store: st})
	old(t, st, 1) // but by this store's clock it is new
	must(t, s.Look(t.Context()))
	if n := s.Stats(); !some(t, st) || n.Undone != 0 || n.Sweeps != 1 {
		t.Fatalf("%+v", n)
	}
	s.resign()
}

// TestLost: one that lost the name is not elected any more, until it has it again.
func TestLost(t *testing.T) {
	st := open(t, t.TempDir())
	s := New(Options{Store: st})
	must(t, s.Look(t.Context()))
	must(t, s.office.Release())
	other, err := st.Claim(t.Context(), Name)
	must(t, err)
	must(t, s.Look(t.Context()))
	if s.Stats().Elected {
		t.Error("it is elected and has not the name")
	}
	must(t, other.Release())
	must(t, s.Look(t.Context()))
	if !s.Stats().Elected {
		t.Error("it is not elected again")
	}
	s.resign()
}

// TestRun: it looks again and again, also after failures, of which each is said once; a mark that cannot be read keeps no other from being undone.
func TestRun(t *testing.T) {
	root := t.TempDir()
	st := open(t, root)
	old(t, st, 1)
	storetest.Put(t, st, temporary.Folder+"/bad.json", []byte("{}"))
	core, logs := observer.New(zapcore.InfoLevel)
	beat, waits := make(chan time.Time), make(chan struct{})
	faulty := store.Faults(later{open(t, root)}, []store.Fault{{Kind: "fail", Op: "list", Nth: 1, Count: 2}})
	s := New(Options{Store: faulty, Log: zap.New(core), After: func(time.Duration) <-chan time.Time {
		waits <- struct{}{}
		return beat
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(done)
	}()
	for range 5 {
		<-waits
		beat <- time.Time{}
	}
	<-waits
	cancel()
	<-done
	n := s.Stats()
	if n.Elected || n.Errors != 2 || n.Undone != 1 || n.Failing != 1 || n.Sweeps < 1 {
		t.Errorf("%+v", n)
	}
	warned := map[string]int{}
	for _, e := range logs.All() {
		warned[e.Message]++
	}
	if warned["what a controller left cannot be looked for"] != 1 || warned["what a controller left cannot be undone"] != 1 || warned["undid what a controller had left"] != 1 {
		t.Errorf("%v", warned)
	}
	c, err := st.Claim(t.Context(), Name) // it was let go
	must(t, err)
	must(t, c.Release())
}

// plain is a store in which no names can be held.
type plain struct{ store.Store }

// TestUnsupported: a store in which names cannot be held is not swept, which is said once.
func TestUnsupported(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	s := New(Options{Store: plain{open(t, t.TempDir())}, Log: zap.New(core), Every: time.Nanosecond})
	s.Run(t.Context())
	if logs.Len() != 1 || s.Stats() != (Stats{}) {
		t.Errorf("%v; %+v", logs.All(), s.Stats())
	}
}

// refusing is a store in which this user may hold no name.
type refusing struct{ *dir.Store }

func (refusing) Claim(context.Context, string) (store.Claim, error) { return nil, fs.ErrPermission }

func TestNoRight(t *testing.T) {
	s := New(Options{Store: refusing{open(t, t.TempDir())}})
	if err := s.Look(t.Context()); !errors.Is(err, fs.ErrPermission) || s.Stats().Elected {
		t.Errorf("%v", err)
	}
}

// stuck is a store that does not answer any more once it was looked at so often.
type stuck struct {
	later
	left *int
}

func (s stuck) List(ctx context.Context, name string) ([]store.Info, error) {
	if *s.left--; *s.left < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.later.List(ctx, name)
}

// TestStuck: a sweep of a store that does not answer does not keep a controller from becoming the active one for ever.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 1
		st := open(t, t.TempDir())
		old(t, st, 1)
		s := New(Options{Store: stuck{later{st}, &left}})
		if err := s.Look(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		active, err := st.Claim(t.Context(), lease.Name)
		must(t, err)
		must(t, active.Release())
		s.resign()
	})
}
