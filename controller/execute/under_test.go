package execute

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

// TestGoesOnWhileALeaseIsTold: a copy that failed goes on at its time, also where telling the site of a longer lease takes until then.
func TestGoesOnWhileALeaseIsTold(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		failed := false
		w.does(func(ctx context.Context, call string, _ controller.Placement) error {
			switch {
			case call == "make" && !failed:
				failed = true
				return store.ErrUnavailable
			case call == "extend":
				time.Sleep(time.Minute)
			}
			return ctx.Err()
		})
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Second)
		r.tell(said("/ck/1", hints.EvaluationScheduled, func(r *relay.Record) { r.TTLMS *= 2; r.Checkpoint.Sequence = 5 }))
		time.Sleep(10 * time.Second)
		if made, told := w.called("make"), w.called("extend"); made != 1 || told != 1 {
			t.Errorf("%d makings and %d extensions were begun", made, told)
		}
		time.Sleep(5 * time.Minute)
		if th := w.thing("one", 1); th.row != "v1" {
			t.Errorf("it did not go on: %+v, %v", th, w.calls)
		}
		stop(t, r)
	})
}

// TestEventsKeepNoCallFromBeingLookedAt: a call that does not end is given up in time, though something is heard all the while.
func TestEventsKeepNoCallFromBeingLookedAt(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		release := make(chan struct{})
		w.does(func(_ context.Context, call string, _ controller.Placement) error {
			if call == "publish" {
				<-release
			}
			return nil
		})
		r := w.start(c, &memory{}, "one", func(_ *process, o *Options) { o.Reconcile = time.Hour })
		r.copied("/ck/1")
		for w.called("publish") == 0 {
			time.Sleep(time.Second)
		}
		for end := c.Now() + callLimit + stopLimit + 5*time.Second; c.Now() < end; time.Sleep(300 * time.Millisecond) {
			r.tell(plan.JobEnded{Job: "another", Run: "a"})
		}
		if n := r.e.Stats().Abandoned; n != 1 {
			t.Errorf("%d calls were given up after %v", n, c.Now())
		}
		close(release)
		stop(t, r)
	})
}

// hanging is a world in which nothing can be undone at one site.
type hanging struct {
	World
	site string
}

func (h hanging) Undo(ctx context.Context, found Leaving, fence func(context.Context) error) error {
	if found.Site != h.site {
		return h.World.Undo(ctx, found, fence)
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestSweepingHoldsUpNothing: what is undone at a site that hangs keeps neither the planner's questions waiting nor what is undone at others.
func TestSweepingHoldsUpNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		leave := func(site string, from, n plan.ID) {
			for id := from; id < from+n; id++ {
				w.things[thingKey{"gone", id}] = &thing{site: site, written: time.Now(), mark: temporary.Mark{Controller: "gone", Placement: id, Means: plan.Copy, Path: "/ck/9", TTL: time.Hour}}
			}
		}
		leave("west", 1, 3*jobsAtOnce)
		leave("east", 100, 1)
		r := w.start(c, &memory{}, "one", func(p *process, o *Options) { o.World = hanging{p, "west"} })
		synctest.Wait()
		r.copied("/ck/1")
		time.Sleep(10 * time.Second)
		if w.called("make") != 1 {
			t.Errorf("nothing is copied: %v", w.calls)
		}
		if w.thing("gone", 100).mark.Placement != 0 {
			t.Error("what was left at the other site is still there")
		}
		w.mu.Lock()
		clear(w.things)
		w.mu.Unlock()
		stop(t, r)
	})
}

// ending is a world whose look at a site ends the run.
type ending struct {
	World
	end context.CancelFunc
}

func (e ending) SurveyOf(ctx context.Context, site string) ([]Leaving, error) {
	e.end()
	return e.World.SurveyOf(ctx, site)
}

// TestEndsWhileItRecovers: a run that ends before it has begun ends as any other.
func TestEndsWhileItRecovers(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		p := &process{w: w, name: "one", j: &memory{}, died: make(chan struct{})}
		w.holder = p
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e, err := New(Options{
			Journal: p, Name: "one", Makers: map[plan.Means]controller.Maker{plan.Copy: fakeMaker{p}}, Looker: p, Lease: p, World: ending{p, cancel}, Clock: c,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestRemovalsHoldUpNoWithdrawal: what takes long to be deleted keeps nothing else at the site from being withdrawn at once.
func TestRemovalsHoldUpNoWithdrawal(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		w.does(func(_ context.Context, call string, _ controller.Placement) error {
			if call == "remove" {
				time.Sleep(4 * time.Minute)
			}
			return nil
		})
		r := w.start(c, &memory{}, "one", nil)
		path := func(n int) string { return fmt.Sprint("/ck/", n) }
		for n := range 2*atOnce + 1 {
			r.other(path(n))
		}
		time.Sleep(10 * time.Minute)
		for n := range 2 * atOnce {
			r.tell(plan.Revoke{Path: path(n)})
		}
		time.Sleep(90 * time.Second) // beyond the grace
		if n := w.called("remove"); n != atOnce {
			t.Fatalf("%d are removed", n)
		}
		r.tell(plan.Revoke{Path: path(2 * atOnce)})
		synctest.Wait()
		if n := r.count("withdrawn"); n != 2*atOnce+1 {
			t.Errorf("%d are withdrawn", n)
		}
		time.Sleep(20 * time.Minute)
		stop(t, r)
		w.empty()
	})
}
