package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/intake"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/lifecycle"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// engine keeps the words of what it is told.
type engine struct {
	mu   sync.Mutex
	told []string
	more chan struct{}
}

func (e *engine) Tell(_ context.Context, _ string, ev plan.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch ev := ev.(type) {
	case plan.Hint:
		if c := ev.Record.Checkpoint; c != nil {
			e.told = append(e.told, fmt.Sprintf("%s %s of %s", c.State, c.Path, ev.Record.User))
		} else {
			e.told = append(e.told, fmt.Sprintf("start of %d %s", ev.Record.Start.Ranks, ev.Record.Start.Files[0].Path))
		}
	case plan.FanOut:
		e.told = append(e.told, fmt.Sprintf("fanout %s %v", ev.Path, ev.Ended))
	case plan.JobEnded:
		e.told = append(e.told, "ended "+ev.Run)
	}
	select {
	case e.more <- struct{}{}:
	default:
	}
	return nil
}

func (e *engine) wait(t *testing.T, want ...string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		e.mu.Lock()
		got := slices.Clone(e.told)
		e.mu.Unlock()
		if len(got) >= len(want) {
			if !slices.Equal(got, want) {
				t.Fatalf("told %q\nwant %q", got, want)
			}
			return
		}
		select {
		case <-e.more:
		case <-late:
			t.Fatalf("told %q\nwant %q", got, want)
		}
	}
}

// hurried is a clock on which pauses are short.
type hurried struct{ began time.Time }

func (h hurried) Now() time.Duration { return time.Since(h.began) }

func (h hurried) After(d time.Duration) <-chan time.Time { return time.After(d / 100) }

// TestJobToController: what a job says comes to the controller through an agent, once, also when the agent is killed in between; a token without the right is
// not enough.
func TestJobToController(t *testing.T) {
	w := newWorld(t)
	st, _, err := dir.Open(w.root, dir.Options{})
	must(t, err)
	defer st.Close()
	a, err := lifecycle.New(lifecycle.Options{
		Open:  func(context.Context) (store.Store, error) { return st, nil },
		Token: w.token, Run: "1", Report: func(err error) { t.Log(err) },
	})
	must(t, err)
	defer a.Close()
	say := func(h hints.Hint) {
		t.Helper()
		must(t, a.Say(h, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, a.Flush(ctx))
	}
	checkpoint := filepath.Join(w.root, "photos/step-3")
	must(t, os.MkdirAll(checkpoint, 0o755))
	about := func(state hints.CheckpointState) hints.Hint {
		return hints.Hint{Checkpoint: &hints.Checkpoint{State: state, Path: checkpoint, Step: 3}}
	}
	start := func(s hints.Start) hints.Hint {
		s.Ranks, s.RanksPerHost, s.Files = 16, 8, []hints.HotFile{{Path: checkpoint, Readers: 16}}
		return hints.Hint{Start: &s}
	}
	ledger := filepath.Join(t.TempDir(), "ledger")
	cmd, _ := w.start(t, "dn1", "--relay", ledger)
	say(about(hints.Committed))
	e, denied := &engine{more: make(chan struct{}, 1)}, make(chan error, 16)
	hear := func(e *engine, token string, report func(error)) {
		in, err := intake.New(intake.Options{Engine: e, Clock: hurried{time.Now()}, Store: st, Client: hints.ClientOptions{Token: token}, Report: report})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	hear(e, tokenOf(t, w.key, auth.RightRelay), func(err error) { t.Log(err) })
	e.wait(t, "committed /photos/step-3 of ann")
	say(start(hints.Start{ExpectedIn: time.Minute}))
	say(start(hints.Start{Phase: hints.Opened}))
	e.wait(t, "committed /photos/step-3 of ann", "start of 16 /photos/step-3", "fanout /photos/step-3 false")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	w.start(t, "dn1", "--relay", ledger)
	say(start(hints.Start{Phase: hints.Read, Took: hints.Took{Last: time.Second}}))
	say(hints.Hint{Close: &hints.Close{}})
	e.wait(t, "committed /photos/step-3 of ann", "start of 16 /photos/step-3", "fanout /photos/step-3 false", "fanout /photos/step-3 true", "ended 1")
	nobody := &engine{more: make(chan struct{}, 1)}
	hear(nobody, tokenOf(t, w.key, auth.RightHint, auth.RightFetch), func(err error) { denied <- err })
	if err := <-denied; !errors.Is(err, hints.ErrDenied) {
		t.Error(err)
	}
	if len(nobody.told) != 0 {
		t.Errorf("told without the right: %q", nobody.told)
	}
}

// tokenOf mints a token for everything below the root.
func tokenOf(t *testing.T, file string, rights ...string) string {
	t.Helper()
	ring, err := auth.LoadKeyring(file)
	must(t, err)
	key, _ := ring.First()
	text, err := auth.Mint(key, auth.Claims{
		Job: "controller", User: "stepahead", Roots: []string{"/"}, Rights: rights, Expires: time.Now().Add(time.Hour),
	})
	must(t, err)
	return text
}
