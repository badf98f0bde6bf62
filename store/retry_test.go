package store_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// scripted fails Stat and Create as told, call by call, and notes when each call came.
type scripted struct {
	store.Store
	errs  []error
	times []time.Time
}

func (s *scripted) next() error {
	s.times = append(s.times, time.Now())
	if n := len(s.times); n <= len(s.errs) {
		return s.errs[n-1]
	}
	return nil
}

func (s *scripted) Address(name string) string { return name }
func (s *scripted) Stat(context.Context, string) (store.Info, error) {
	return store.Info{Size: 7}, s.next()
}
func (s *scripted) Create(context.Context, string) (store.Writer, error) {
	return nil, s.next()
}
func (s *scripted) Rename(context.Context, string, string) error { return s.next() }
func (s *scripted) Remove(context.Context, string) error         { return s.next() }

func times(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func TestRetryAttempts(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		o     store.RetryOptions
		calls int
		want  error
	}{
		{"success at once", nil, store.RetryOptions{}, 1, nil},
		{"success at last", times(3, store.ErrUnavailable), store.RetryOptions{}, 4, nil},
		{"gives up", times(9, store.ErrUnavailable), store.RetryOptions{}, 4, store.ErrUnavailable},
		{"one attempt", times(9, store.ErrUnavailable), store.RetryOptions{Attempts: 1}, 1, store.ErrUnavailable},
		{"permanent", times(9, fs.ErrPermission), store.RetryOptions{}, 1, fs.ErrPermission},
		{"not found", times(9, fs.ErrNotExist), store.RetryOptions{}, 1, fs.ErrNotExist},
		{"corrupt", times(9, store.ErrCorrupt), store.RetryOptions{}, 1, store.ErrCorrupt},
		{"identity", times(9, store.ErrIdentity), store.RetryOptions{}, 1, store.ErrIdentity},
		{"then permanent", []error{store.ErrUnavailable, fs.ErrPermission}, store.RetryOptions{}, 2, fs.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{errs: c.errs}
				info, err := store.Retry(s, c.o).Stat(t.Context(), "/f")
				if !errors.Is(err, c.want) || len(s.times) != c.calls {
					t.Errorf("%d calls, error %v; want %d, %v", len(s.times), err, c.calls, c.want)
				}
				if err == nil && info.Size != 7 {
					t.Errorf("the result was lost: %+v", info)
				}
				if c.calls > 1 && err != nil && !strings.Contains(err.Error(), "attempts") {
					t.Errorf("%q does not say how often it was tried", err)
				}
			})
		})
	}
}

func TestRetryPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{errs: times(99, store.ErrUnavailable)}
		o := store.RetryOptions{Attempts: 8, Delay: 100 * time.Millisecond, MaxDelay: time.Second, Jitter: 0.2}
		store.Retry(s, o).Stat(t.Context(), "/f")
		want := 100 * time.Millisecond
		varied := false
		for i := 1; i < len(s.times); i++ {
			pause := s.times[i].Sub(s.times[i-1])
			if low, high := want*8/10, want*12/10; pause < low || pause > high {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, low, high)
			}
			varied = varied || pause != want
			want = min(2*want, time.Second)
		}
		if len(s.times) != 8 || !varied {
			t.Errorf("%d calls, jitter seen: %v", len(s.times), varied)
		}
	})
}

func TestRetryNeverRepeatsChanges(t *testing.T) {
	for name, do := range map[string]func(store.Store) error{
		"create": func(s store.Store) error { _, err := s.Create(context.Background(), "/f"); return err },
		"rename": func(s store.Store) error { return s.Rename(context.Background(), "/f", "/g") },
		"remove": func(s store.Store) error { return s.Remove(context.Background(), "/f") },
	} {
		s := &scripted{errs: times(9, store.ErrUnavailable)}
		if err := do(store.Retry(s, store.RetryOptions{})); !errors.Is(err, store.ErrUnavailable) || len(s.times) != 1 {
			t.Errorf("%s: %d calls, %v", name, len(s.times), err)
		}
	}
}

func TestRetryEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{errs: times(99, store.ErrUnavailable)}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := store.Retry(s, store.RetryOptions{Attempts: 99, Delay: 100 * time.Millisecond, Jitter: 0.01}).Stat(ctx, "/f")
		if took := time.Since(start); took != 250*time.Millisecond {
			t.Errorf("took %v, want 250ms", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || store.ClassOf(err) != store.ClassUnknown || !strings.Contains(err.Error(), "not available") {
			t.Errorf("%v: want the context's end and the last failure's text", err)
		}
	})
}

func TestRetryOptionsRefused(t *testing.T) {
	bad := store.RetryOptions{Attempts: -1, Delay: time.Minute, MaxDelay: time.Second, Jitter: 2}
	err := bad.Validate()
	for _, field := range []string{"Attempts", "MaxDelay", "Jitter"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if err := (store.RetryOptions{}).Validate(); err != nil {
		t.Error(err)
	}
}
