package execute

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// jumps has the clock of the stores jump.
func (w *world) jumps(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += d
}

// TestStoreClockJumps: a store whose clock jumps by an hour has nothing undone before its time while the controller lives, and nothing kept beyond its lease.
func TestStoreClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		in(t, func(t *testing.T, w *world, c *bubble) {
			r := w.start(c, &memory{}, "one", nil)
			r.copied("/ck/1")
			time.Sleep(10 * time.Minute)
			w.jumps(jump)
			time.Sleep(40 * time.Minute)
			if th := w.thing("one", 1); th.row == "" {
				t.Errorf("%v: it was undone before its time", jump)
			}
			time.Sleep(12 * time.Minute)
			stop(t, r)
			w.empty()
		})
		in(t, func(t *testing.T, w *world, c *bubble) {
			j := &memory{}
			r := w.start(c, j, "one", nil)
			r.copied("/ck/1")
			time.Sleep(20 * time.Minute)
			stop(t, r)
			w.jumps(jump)
			again := w.start(c, j, "one", nil)
			synctest.Wait()
			if left := again.left(t, "/ck/1"); left > time.Hour || jump > 0 && left > 0 {
				t.Errorf("%v: %v is left of a lease of 1 h, of which 20 min are over", jump, left)
			}
			time.Sleep(time.Hour + 2*time.Minute)
			stop(t, again)
			w.empty()
		})
	}
}

// other tells a controller of a checkpoint that is like no other and will be evaluated.
func (r *running) other(path string) {
	r.w.mu.Lock()
	r.w.sources[path] = "only " + path
	r.w.mu.Unlock()
	r.tell(said(path, hints.Committed, func(h *relay.Record) { h.Identity = "only " + path }))
	r.tell(said(path, hints.EvaluationScheduled, nil))
}

// TestPolicyChangesWhileACopyIsThere: it is withdrawn at once, removed after the grace, and not made again until it may be there.
func TestPolicyChangesWhileACopyIsThere(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		r.copied("/ck/2")
		time.Sleep(time.Minute)
		r.other("/ck/3")
		time.Sleep(10 * time.Second)
		if w.thing("one", 1).row == "" || w.thing("one", 3).mark.Placement == 0 || w.thing("one", 3).data != "" {
			t.Fatalf("there is %+v and %+v", w.thing("one", 1), w.thing("one", 3))
		}
		r.tell(plan.PolicyChanged{}) // which allows nothing
		synctest.Wait()
		for id := plan.ID(1); id <= 3; id++ {
			if th := w.thing("one", id); th.row != "" {
				t.Errorf("readers still find %d: %+v", id, th)
			}
		}
		time.Sleep(time.Minute + time.Second)
		w.empty()
		time.Sleep(10 * time.Minute)
		if n := w.called("make"); n != 3 {
			t.Errorf("%d makings: %v", n, r.lines())
		}
		r.tell(plan.PolicyChanged{Policy: rules{}})
		time.Sleep(2 * time.Minute)
		if n := r.count("published"); n != 5 {
			t.Errorf("%d were published, of which 2 before: %v", n, r.lines())
		}
		stop(t, r)
	})
}
