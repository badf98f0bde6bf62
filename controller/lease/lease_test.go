package lease

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func open(t *testing.T, root string) store.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestOneAtATime(t *testing.T) {
	root := t.TempDir()
	first, err := Acquire(t.Context(), open(t, root), Options{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	pause := make(chan time.Time)
	second := make(chan store.Claim)
	go func() {
		c, err := Acquire(t.Context(), open(t, root), Options{
			Waiting: func(err error) { waiting <- err },
			After:   func(time.Duration) <-chan time.Time { return pause },
		})
		if err != nil {
			t.Error(err)
		}
		second <- c
	}()
	if err := <-waiting; !errors.Is(err, fs.ErrExist) {
		t.Fatalf("it waits because of %v", err)
	}
	pause <- time.Time{}
	if err := first.Held(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	close(pause)
	c := <-second
	if err := c.Held(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Held(t.Context()); !errors.Is(err, store.ErrNotHeld) {
		t.Fatalf("the first has it still: %v", err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
}

// plain is a store in which no names can be held.
type plain struct{ store.Store }

// deaf is one that says so only when it is asked.
type deaf struct {
	store.Store
	err   error
	calls *int
}

func (d deaf) Claim(context.Context, string) (store.Claim, error) {
	*d.calls++
	return nil, d.err
}

func TestRefusesStoresWithoutClaims(t *testing.T) {
	st := open(t, t.TempDir())
	for name, s := range map[string]store.Store{"plain": plain{st}, "deaf": deaf{st, errors.ErrUnsupported, new(int)}} {
		if _, err := Acquire(t.Context(), s, Options{}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Acquire(t.Context(), deaf{st, fs.ErrPermission, new(int)}, Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a store that does not permit it: %v", err)
	}
}

func TestWaitsForAStore(t *testing.T) {
	st := open(t, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
		defer cancel()
		calls := 0
		if _, err := Acquire(ctx, deaf{st, store.ErrUnavailable, &calls}, Options{Every: 2 * time.Second}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if calls != 10 {
			t.Errorf("%d tries in 19 s, one every 2 s", calls)
		}
	})
}
