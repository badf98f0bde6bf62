package execute

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

// TestAnything drives controllers through anything: hints in any order, sources that change, makers that fail, hang and are slow, budgets, sites that do not answer, a full
// journal, clocks that jump, deaths at any step and successors with the same journal or another. In the end, when all leases are over, nothing is left, and only the
// version that was asked for was ever published.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var thrown any // as rapid ends a run
		synctest.Test(t, func(*testing.T) {
			a := &anything{t: r, w: newWorld(r), c: newBubble(), j: &memory{}, name: "one"}
			defer func() {
				thrown = recover()
				a.w.end()
			}()
			a.run()
		})
		switch {
		case fmt.Sprintf("%T", thrown) == "rapid.invalidData":
			panic(thrown) // rapid takes panics of one line for the same
		case thrown != nil:
			panic(thrown)
		}
	})
}

// anything is one run of TestAnything.
type anything struct {
	t    *rapid.T
	w    *world
	c    *bubble
	j    *memory
	name string
	r    *running
}

func (a *anything) draw(name string, from, to int) int {
	return rapid.IntRange(from, to).Draw(a.t, name)
}

func (a *anything) run() {
	t, w := a.t, a.w
	for i := range 3 {
		w.sources[fmt.Sprintf("/ck/%d", i)] = "v1"
	}
	for _, m := range everyMeans {
		w.sources[fmt.Sprintf("/hot/%s/1", m)], w.replicas[fmt.Sprintf("/hot/%s/1", m)] = "v1", 3
	}
	a.start()
	for range rapid.IntRange(1, 25).Draw(t, "events") {
		a.event()
		time.Sleep(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Second)
		a.bury()
	}
	a.calm()
	time.Sleep(27 * time.Hour)
	if err := a.r.end(); err != nil {
		t.Fatal(err)
	}
	w.empty()
	if all, _, err := fold(a.j); err != nil || len(all) > 0 {
		t.Errorf("the journal says that there is %v: %v", all, err)
	}
}

// start starts a controller, which may be one that dies.
func (a *anything) start() {
	dies, after := a.draw("dies", 0, 120), rapid.Bool().Draw(a.t, "after")
	a.r = a.w.start(a.c, a.j, a.name, func(p *process, _ *Options) { p.dies, p.after = dies, after })
}

// bury gives a controller that has died a successor: with its journal, or, if that was lost, with a new one and a new name.
func (a *anything) bury() {
	select {
	case <-a.r.died:
	default:
		return
	}
	if err := a.r.end(); err != nil {
		a.t.Fatal(err)
	}
	time.Sleep(time.Duration(a.draw("down", 0, 3000)) * time.Second)
	if a.draw("lost", 0, 3) == 0 {
		a.j, a.name = &memory{}, a.name+"'"
	}
	a.start()
}

// calm lets everything work again.
func (a *anything) calm() {
	a.w.does(nil)
	a.j.setFull(false)
	a.w.mu.Lock()
	clear(a.w.deaf)
	a.w.mu.Unlock()
	for range 2 { // it may die at this very moment
		a.bury()
		a.r.process.mu.Lock()
		a.r.dies = 0
		a.r.process.mu.Unlock()
	}
	a.r.tell(plan.BudgetsChanged{Budgets: budgets()})
}

func (a *anything) event() {
	t, w := a.t, a.w
	path := fmt.Sprintf("/ck/%d", a.draw("path", 0, 2))
	ttl := int64(a.draw("ttl", 1, 7200)) * 1000
	switch a.draw("kind", 0, 13) {
	case 0, 1, 2, 3:
		state := rapid.SampledFrom(states).Draw(t, "state")
		a.r.tell(said(path, state, func(r *relay.Record) {
			r.TTLMS = ttl
			if state == hints.Committed {
				r.Identity = rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "identity")
			}
		}))
	case 4, 5:
		m := rapid.SampledFrom(everyMeans).Draw(t, "means")
		a.r.tell(starts("job-"+string(m), fmt.Sprintf("/hot/%s/1", m), func(r *relay.Record) { r.TTLMS, r.Run = ttl, fmt.Sprint(a.draw("run", 0, 2)) }))
	case 6:
		m := rapid.SampledFrom(everyMeans).Draw(t, "means")
		a.r.tell(plan.FanOut{Job: "job-" + string(m), Run: fmt.Sprint(a.draw("run", 0, 2)), Ended: true})
	case 7:
		w.mu.Lock()
		w.sources[path] = rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")
		w.mu.Unlock()
	case 8:
		a.faults()
	case 9:
		b := budgets()
		link := b.WAN.Links["east"]
		link.Rate, link.Held = int64(a.draw("rate", 0, 2))*20e6, int64(a.draw("held", 0, 3))<<30
		b.WAN.Links["east"] = link
		b.Replicas.On = rapid.Bool().Draw(t, "replicas")
		a.r.tell(plan.BudgetsChanged{Budgets: b})
	case 10:
		w.mu.Lock()
		w.deaf[rapid.SampledFrom([]string{"east", "", "lease"}).Draw(t, "deaf")] = rapid.Bool().Draw(t, "is deaf")
		w.mu.Unlock()
	case 11:
		a.j.setFull(rapid.Bool().Draw(t, "full"))
	case 12:
		a.c.jumps(time.Duration(a.draw("jump", -60, 60)) * time.Minute)
	case 13:
		a.r.tell(plan.Revoke{})
	}
}

var states = []hints.CheckpointState{
	hints.Saving, hints.Committed, hints.Committed, hints.EvaluationScheduled, hints.EvaluationScheduled, hints.EvaluationCancelled, hints.EvaluationOpened,
	hints.EvaluationDone, hints.Deleted, hints.LossSpike,
}

// faults changes how makers behave. What happens is a function of the call, so that a run can be repeated.
func (a *anything) faults() {
	verb := rapid.SampledFrom([]string{"fact", "make", "publish", "extend", "withdraw", "remove"}).Draw(a.t, "verb")
	how := a.draw("how", 0, 4)
	a.w.does(func(ctx context.Context, call string, _ controller.Placement) error {
		if call != verb {
			return nil
		}
		switch how {
		case 1:
			panic("drawn")
		case 2:
			return store.ErrUnavailable
		case 3:
			<-ctx.Done()
			return ctx.Err()
		case 4:
			select {
			case <-time.After(3 * time.Minute):
			case <-ctx.Done():
			}
		}
		return nil
	})
}
