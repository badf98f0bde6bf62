package temporary

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// full is a store that takes no file any more.
type full struct{ *process }

func (full) Create(context.Context, string) (store.Writer, error) { return nil, syscall.ENOSPC }

// TestSweepOfAFullStore: what is there can be undone although the store does not tell the time, since it takes no file; of the rest what is over is known by what was
// written last.
func TestSweepOfAFullStore(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	for id, ttl := range []time.Duration{0, time.Hour} {
		m := Mark{Version: Version, Controller: "c1", Placement: plan.ID(id + 1), Means: plan.Sibling, Path: hot, Identity: "x", Place: PlaceOf("c1", plan.ID(id+1)), TTL: ttl}
		must(t, Write(t.Context(), p, m))
		must(t, p.put(t.Context(), m.Place+"/data", "x"))
	}
	for _, step := range []struct {
		all    bool
		undone int
	}{{false, 0}, {true, 2}, {true, 0}} {
		r, err := Sweep(t.Context(), full{p}, SweepOptions{All: step.all})
		if err != nil || r.Undone != step.undone || r.Failed != 0 {
			t.Errorf("all %t: %+v, %v", step.all, r, err)
		}
	}
	at := time.Unix(1_000_000, 0)
	if got := Latest([]Found{{Modified: at}, {}}, []store.Info{{ModTime: at.Add(time.Second)}}); got != at.Add(time.Second) {
		t.Errorf("the latest is %v", got)
	}
}
