package intake

import (
	"context"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// leaping is a clock on which waiting takes no time but its own.
type leaping struct{ now time.Duration }

func (c *leaping) Now() time.Duration { return c.now }

func (c *leaping) After(d time.Duration) <-chan time.Time {
	c.now += d
	done := make(chan time.Time, 1)
	done <- time.Time{}
	return done
}

type ages []time.Duration

func (a *ages) Tell(_ context.Context, _ string, ev plan.Event) error {
	*a = append(*a, ev.(plan.Hint).Age)
	return nil
}

// TestAgeGrows: what waits for its turn gets older meanwhile.
func TestAgeGrows(t *testing.T) {
	st, _ := folder(t, nil)
	clock, heard := &leaping{}, &ages{}
	in, err := New(Options{Engine: heard, Clock: clock, Store: st})
	must(t, err)
	limit := &bucket{size: 1, rate: 0.1}
	for _, id := range []string{"1", "2"} {
		must(t, in.handed(t.Context(), &followed{node: "dn1"}, limit, relay.Handed{Record: said("j", id, committed("/"+id)), Age: 3 * time.Second}))
	}
	if got := *heard; len(got) != 2 || got[0] != 3*time.Second || got[1] != 13*time.Second {
		t.Errorf("ages %v, want 3s and 13s", got)
	}
}
