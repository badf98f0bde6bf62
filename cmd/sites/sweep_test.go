package sites

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// stuck is a store that says what there is, and then removes no mark, nor says why.
type stuck struct{ store.Store }

func (s stuck) Remove(ctx context.Context, name string) error {
	if !strings.Contains(name, "c0-") {
		return s.Store.Remove(ctx, name)
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestSweepBesideAStuckSite: a site that answers and then does nothing costs a bounded time once, whatever is there, and what is elsewhere is undone and told.
func TestSweepBesideAStuckSite(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), map[string]string{"a-stuck": t.TempDir(), "east": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, site := range []string{"a-stuck", "east"} {
		st, err := s.Site(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		for id := range plan.ID(5) {
			m := temporary.Mark{Version: temporary.Version, Controller: "c0", Placement: id + 1, Means: plan.Copy, Path: s.Home().Address("/x"), TTL: time.Hour}
			if err := temporary.Write(t.Context(), st, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	place := *s.sites["a-stuck"].place
	place.Store = stuck{place.Store}
	s.sites["a-stuck"].place = &place
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := Sweep(t.Context(), s, SweepOptions{All: true, Log: zap.NewNop()})
		if took := time.Since(began); took > surveyTime {
			t.Errorf("it took %v", took)
		}
		undone, left := 0, 0
		for _, w := range r.Swept {
			switch {
			case w.Site == "east" && w.Problem == "":
				undone++
			case w.Site == "a-stuck" && strings.Contains(w.Problem, context.DeadlineExceeded.Error()):
				left++
			default:
				t.Errorf("%+v", w)
			}
		}
		if undone != 5 || left != 5 || len(r.Unread) != 0 {
			t.Errorf("%d are undone, %d are left, %v", undone, left, r.Unread)
		}
	})
}
