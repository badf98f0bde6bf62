package execute

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

var everyMeans = []plan.Means{plan.Even, plan.Sibling, plan.StorageType, plan.Raise}

// event is something that the planner is told at a time.
type event struct {
	at time.Duration
	ev plan.Event
}

// day is a quarter of an hour in which everything happens that can: copies with an emergency between them, one whose source is overwritten and one that is cancelled while it is sent, hot
// files by every means, leases that grow, an operator that takes something back.
func day(w *world) (all []event) {
	at := func(at time.Duration, ev plan.Event) { all = append(all, event{at, ev}) }
	path := func(p string) func(*relay.Record) { return func(r *relay.Record) { r.Checkpoint.Evaluation = "e" + p } }
	for i := range 5 {
		name := fmt.Sprintf("/ck/%d", i+1)
		w.sources[name] = "v1"
		at(0, said(name, hints.Committed, nil))
		at(time.Duration(i)*time.Second, said(name, hints.EvaluationScheduled, path(name)))
	}
	for _, m := range everyMeans {
		name := fmt.Sprintf("/hot/%s/1", m)
		w.sources[name], w.replicas[name] = "v1", 3
		at(2*time.Second, starts("job-"+string(m), name, nil))
	}
	at(5*time.Second, said("/ck/2", hints.LossSpike, nil))
	at(8*time.Second, said("/ck/4", hints.EvaluationCancelled, path("/ck/4")))
	longer := func(r *relay.Record) { r.TTLMS *= 2; path("/ck/1")(r); r.Checkpoint.Sequence = 5 }
	at(20*time.Second, said("/ck/1", hints.EvaluationScheduled, longer))
	at(3*time.Minute, plan.Revoke{Path: "/ck/5", Why: "test"})
	at(4*time.Minute, plan.FanOut{Job: "job-sibling", Run: "a", Ended: true})
	at(4*time.Minute, plan.JobEnded{Job: "job-raise", Run: "a"})
	at(5*time.Minute, said("/ck/1", hints.EvaluationDone, func(r *relay.Record) { longer(r); r.Checkpoint.Sequence = 6 }))
	return all
}

// play tells a controller what happens, from the moment from on, and what the world does by itself.
func play(w *world, r *running, all []event, end time.Duration) (alive bool) {
	began := time.Now()
	overwrite := time.After(9 * time.Second)
	for _, e := range append(all, event{end, nil}) {
		for wait := time.After(e.at - time.Since(began)); wait != nil; {
			select {
			case <-wait:
				wait = nil
			case <-overwrite:
				w.mu.Lock()
				w.sources["/ck/3"] = "v2"
				w.mu.Unlock()
			case <-r.died:
				return false
			}
		}
		if e.ev != nil {
			r.tell(e.ev)
		}
	}
	return true
}

// TestKillAtEveryStep kills a controller before and after each append to the journal and each change of the world of a day, and starts it again with the same journal, at
// once or later, with and without the hints. One lease later nothing is left, and what was published was always the right version.
func TestKillAtEveryStep(t *testing.T) {
	const end, lease = 10 * time.Minute, 2 * time.Hour
	steps := 0
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		if !play(w, r, day(w), end) {
			t.Fatal("it died by itself")
		}
		steps = r.steps
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	})
	if steps < 100 {
		t.Fatalf("only %d steps: the day is too quiet", steps)
	}
	instants := 0
	for dies := 1; dies <= steps; dies++ {
		for _, after := range []bool{false, true} {
			instants++
			in(t, func(t *testing.T, w *world, c *bubble) {
				j := &memory{}
				all := day(w)
				r := w.start(c, j, "one", func(p *process, _ *Options) { p.dies, p.after = dies, after })
				died := !play(w, r, all, end)
				if err := r.end(); err != nil {
					t.Fatal(err)
				}
				if !died {
					return // workers came to their steps in another order
				}
				time.Sleep(time.Duration(dies%3) * 20 * time.Minute)
				again := w.start(c, j, "one", nil)
				if dies%2 == 0 {
					for _, e := range all { // the ledger is read from its beginning
						again.tell(e.ev)
					}
				}
				time.Sleep(lease + 5*time.Minute)
				if err := again.end(); err != nil {
					t.Fatal(err)
				}
				w.empty()
				if left, _, err := fold(j); err != nil || len(left) > 0 {
					t.Errorf("the journal says that there is %v: %v", left, err)
				}
				if t.Failed() {
					t.Fatalf("killed at step %d, after %v", dies, after)
				}
			})
		}
	}
	t.Logf("%d instants", instants)
	if instants < 200 {
		t.Errorf("%d instants", instants)
	}
}
