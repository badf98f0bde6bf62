package execute

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/store"
)

// copied tells a controller of a checkpoint that will be evaluated.
func (r *running) copied(path string) {
	r.tell(said(path, hints.Committed, nil))
	r.tell(said(path, hints.EvaluationScheduled, nil))
}

func (r *running) count(word string) (n int) {
	for _, line := range r.lines() {
		if strings.HasPrefix(line, word+" ") {
			n++
		}
	}
	return n
}

func (w *world) does(f func(ctx context.Context, call string, p controller.Placement) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behave = f
}

func (w *world) called(call string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

func stop(t *testing.T, r *running) {
	t.Helper()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

func TestFullJournal(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		j.setFull(true)
		r.copied("/ck/2")
		time.Sleep(2 * time.Minute)
		if n := w.called("make"); n != 1 {
			t.Errorf("%d makings were begun: without room in the journal none may", n-1)
		}
		if s := r.e.Stats(); !s.JournalDown || s.JournalErrors == 0 {
			t.Errorf("no alarm: %+v", s)
		}
		if r.logs.FilterMessageSnippet("journal cannot be written").Len() == 0 {
			t.Error("the log says nothing")
		}
		r.tell(plan.Revoke{Path: "/ck/1"})
		time.Sleep(2 * time.Minute)
		if th := w.thing("one", 1); th.mark.Placement != 0 {
			t.Errorf("what is undone is still there: %+v", th)
		}
		j.setFull(false)
		time.Sleep(10 * time.Minute)
		if w.called("make") < 2 || r.e.Stats().JournalDown {
			t.Errorf("with room again, nothing begins: %v", w.calls)
		}
		stop(t, r)
		again := w.start(c, j, "one", nil) // the journal does not know that the first is gone
		time.Sleep(10 * time.Minute)
		stop(t, again)
		w.empty()
		if all, _, err := fold(j); err != nil || len(all) != 0 {
			t.Errorf("the journal says that there is %v: %v", all, err)
		}
	})
}

func TestJournalOfANewerProgram(t *testing.T) {
	for name, r := range map[string]journal.Record{
		"action": {Placement: 1, Kind: journal.Intent, Action: "beam", Body: json.RawMessage(`{}`)},
		"kind":   {Placement: 1, Kind: "guess", Action: "make", Body: json.RawMessage(`{}`)},
	} {
		in(t, func(t *testing.T, w *world, c *bubble) {
			j := &memory{}
			_, _ = j.Append(r)
			if err := <-w.start(c, j, "one", nil).done; !errors.Is(err, journal.ErrVersion) {
				t.Errorf("%s: %v", name, err)
			}
			if len(w.calls) > 0 {
				t.Errorf("%s: it acted: %v", name, w.calls)
			}
		})
	}
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		_, _ = j.Append(journal.Record{Placement: 1, Kind: journal.Intent, Action: "make", Body: json.RawMessage(`{"id":"x"}`)})
		if err := <-w.start(c, j, "one", nil).done; !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("a body that is not one: %v", err)
		}
	})
}

func TestTheSameHintAThousandTimes(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", nil)
		all := []plan.Hint{said("/ck/1", hints.Committed, nil), said("/ck/1", hints.EvaluationScheduled, nil), starts("train", "/hot", nil)}
		invalid := said("/ck/2", hints.Committed, func(r *relay.Record) { r.Confidence = 7 })
		for range 1000 {
			for _, ev := range append(all, invalid) {
				ev.Age = c.Now()
				r.tell(ev)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if r.count("make") != 2 || r.count("publish") != 2 || len(j.records) > 12 {
			t.Errorf("%d records, audited: %v", len(j.records), r.lines())
		}
		if n := r.count("refuse"); n == 0 || n > 4 {
			t.Errorf("%d refusals are audited", n)
		}
		if n := r.e.Stats().Refused[plan.ReasonInvalid]; n != 1000 {
			t.Errorf("%d refusals are counted", n)
		}
		stop(t, r)
	})
}

// left is what is left of the lease of what there is of a path.
func (r *running) left(t *testing.T, path string) (left time.Duration) {
	t.Helper()
	err := r.e.Ask(t.Context(), func(p *plan.Planner, _ time.Duration) {
		if list, _ := p.Why(path); len(list) == 1 && list[0].State == "live" {
			left = list[0].Left
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		in(t, func(t *testing.T, w *world, c *bubble) { // while it runs, nothing changes
			r := w.start(c, &memory{}, "one", nil)
			r.copied("/ck/1")
			time.Sleep(10 * time.Minute)
			c.jumps(jump)
			time.Sleep(40 * time.Minute)
			if th := w.thing("one", 1); th.row == "" {
				t.Errorf("%v: it was undone before its time", jump)
			}
			time.Sleep(12 * time.Minute)
			stop(t, r)
			w.empty()
		})
		for _, marks := range []bool{true, false} { // while it is down: the clock of the store is right; without, the lease bounds it
			in(t, func(t *testing.T, w *world, c *bubble) {
				j := &memory{}
				r := w.start(c, j, "one", nil)
				r.copied("/ck/1")
				time.Sleep(20 * time.Minute)
				stop(t, r)
				c.jumps(jump)
				again := w.start(c, j, "one", func(_ *process, o *Options) {
					if !marks {
						o.World = nil
					}
				})
				synctest.Wait()
				left := again.left(t, "/ck/1")
				switch {
				case marks && (left < 39*time.Minute || left > 41*time.Minute):
					t.Errorf("%v: %v is left, of 40 min", jump, left)
				case !marks && jump > 0 && left != 0:
					t.Errorf("%v: %v is left by a clock that says it is over", jump, left)
				case !marks && jump < 0 && left > time.Hour:
					t.Errorf("%v: %v is left of a lease of 1 h", jump, left)
				}
				time.Sleep(time.Hour + 2*time.Minute)
				stop(t, again)
				w.empty()
			})
		}
	}
}

func TestBudgetToZeroInMidFlight(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(10 * time.Second)
		b := budgets()
		b.WAN.Links = map[string]plan.Link{"east": {Held: 1 << 50, EmergencyHeld: 1 << 50, Transfers: 4, ByteHoursPerDay: 1e18}}
		r.tell(plan.BudgetsChanged{Budgets: b})
		before := w.sent[1]
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		if w.sent[1] > before+1 { // what was under way may arrive
			t.Errorf("%d pieces were sent at rate 0", w.sent[1]-before)
		}
		w.mu.Unlock()
		r.tell(plan.BudgetsChanged{Budgets: budgets()})
		time.Sleep(2 * time.Minute)
		if th := w.thing("one", 1); th.row != "v1" {
			t.Errorf("it does not go on: %+v", th)
		}
		r.copied("/ck/2")
		time.Sleep(10 * time.Second)
		b.WAN.Links = nil
		r.tell(plan.BudgetsChanged{Budgets: b})
		time.Sleep(2 * time.Minute)
		stop(t, r)
		w.empty()
		if r.count("removed") != 2 {
			t.Errorf("audited: %v", r.lines())
		}
	})
}

func TestEvaluationCancelled(t *testing.T) {
	for name, after := range map[string]time.Duration{"before": 0, "during": 15 * time.Second, "after": 3 * time.Minute} {
		in(t, func(t *testing.T, w *world, c *bubble) {
			r := w.start(c, &memory{}, "one", nil)
			r.tell(said("/ck/1", hints.Committed, nil))
			r.tell(said("/ck/1", hints.EvaluationScheduled, func(r *relay.Record) {
				if name == "before" {
					r.Checkpoint.ExpectedInMS = (50 * time.Minute).Milliseconds()
				}
			}))
			time.Sleep(after)
			if there := w.thing("one", 1).mark.Placement != 0; there == (name == "before") {
				t.Errorf("%s: there is something: %v", name, there)
			}
			r.tell(said("/ck/1", hints.EvaluationCancelled, nil))
			time.Sleep(61 * time.Second)
			w.empty()
			stop(t, r)
		})
	}
}

func TestStartThatNeverOpens(t *testing.T) {
	for _, means := range everyMeans {
		in(t, func(t *testing.T, w *world, c *bubble) {
			path := "/hot/" + string(means) + "/1"
			w.sources[path], w.replicas[path] = "v1", 3
			r := w.start(c, &memory{}, "one", nil)
			r.tell(starts("train", path, nil))
			time.Sleep(100*time.Second + 9*time.Minute)
			if w.thing("one", 1).mark.Placement == 0 {
				t.Errorf("%s: there is nothing", means)
			}
			time.Sleep(3 * time.Minute)
			w.empty()
			stop(t, r)
		})
	}
}

func TestMakersThatPanicHangAndAreSlow(t *testing.T) {
	for _, verb := range []string{"fact", "make", "publish", "withdraw", "remove"} {
		for _, how := range []string{"panics", "hangs", "hangs until it is told to end", "is slow", "fails"} {
			in(t, func(t *testing.T, w *world, c *bubble) {
				j := &memory{}
				release := make(chan struct{})
				var times atomic.Int64
				w.does(func(ctx context.Context, call string, p controller.Placement) error {
					if call != verb || times.Add(1) > 2 {
						return nil
					}
					switch how {
					case "panics":
						panic("a fault")
					case "hangs":
						<-release
					case "hangs until it is told to end":
						<-ctx.Done()
						return ctx.Err()
					case "is slow":
						time.Sleep(4 * time.Minute)
					case "fails":
						return store.ErrUnavailable
					}
					return nil
				})
				w.stubborn = how == "hangs"
				r := w.start(c, j, "one", nil)
				r.copied("/ck/1")
				time.Sleep(30 * time.Minute)
				r.tell(said("/ck/1", hints.EvaluationDone, nil))
				time.Sleep(90 * time.Minute)
				w.empty()
				if how == "panics" && r.logs.FilterMessage("a maker panicked").Len() == 0 {
					t.Errorf("%s: the log says nothing of the panic", verb)
				}
				close(release)
				time.Sleep(time.Second)
				w.empty() // whoever was given up changes nothing any more
				stop(t, r)
				if all, _, err := fold(j); err != nil || len(all) != 0 {
					t.Errorf("the journal says that there is %v: %v", all, err)
				}
				if t.Failed() {
					for _, e := range r.audit {
						t.Log(e.At.Sub(c.zero), e.What, e.Placement, e.Why, e.Err)
					}
					t.Fatalf("%s %s", verb, how)
				}
			})
		}
	}
}

func TestRunEndsThoughAMakerHangs(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		release := make(chan struct{})
		w.does(func(_ context.Context, call string, _ controller.Placement) error {
			if call == "make" {
				<-release
			}
			return nil
		})
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(time.Minute)
		if err := r.end(); err == nil || !strings.Contains(err.Error(), "make of placement 1") {
			t.Errorf("it ended with %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		w.empty()
		if err := r.e.Tell(t.Context(), "x", plan.Tick{}); !errors.Is(err, errStopped) {
			t.Errorf("it was told something after its end: %v", err)
		}
		if err := r.e.Run(t.Context()); err == nil {
			t.Error("it ran twice")
		}
	})
}

func TestAnEmergencyPauses(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		var tools []controller.Placement
		w.does(func(_ context.Context, call string, p controller.Placement) error {
			if call == "make" {
				tools = append(tools, p)
			}
			return nil
		})
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(5 * time.Second)
		began := c.Now()
		r.copied("/ck/2")
		r.tell(said("/ck/2", hints.LossSpike, nil))
		synctest.Wait()
		if took := c.Now() - began; took != 0 {
			t.Errorf("it took %v", took)
		}
		var bytes int64
		err := r.e.Ask(t.Context(), func(p *plan.Planner, _ time.Duration) { bytes = p.Usage().Rate["east"] })
		if err != nil || len(tools) != 2 {
			t.Fatal(err, len(tools))
		}
		time.Sleep(35 * time.Second)
		w.mu.Lock()
		one, two := w.sent[1], w.sent[2]
		w.mu.Unlock()
		if one > 1 || two < 3 {
			t.Errorf("%d and %d pieces were sent at %d bytes a second: the ordinary copy does not pause", one, two, bytes)
		}
		time.Sleep(2 * time.Minute)
		if w.thing("one", 1).row == "" || w.thing("one", 2).row == "" {
			t.Error("the ordinary copy does not go on")
		}
		for _, rec := range r.j.(*memory).records {
			if d := (doneMake{}); rec.Kind == journal.Done && rec.Action == "make" && rec.Placement == 1 {
				if err := json.Unmarshal(rec.Body, &d); err != nil || d.Took < 42*time.Second || d.Took > 46*time.Second {
					t.Errorf("it took %v without its pause, of 43 s: %v", d.Took, err)
				}
			}
		}
		stop(t, r)
	})
}

func TestLeaseThatCannotBeRead(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		synctest.Wait()
		w.mu.Lock()
		w.deaf["lease"] = true
		w.mu.Unlock()
		r.copied("/ck/1")
		time.Sleep(3 * time.Minute)
		if n := w.called("make"); n != 0 {
			t.Errorf("%d makings were begun", n)
		}
		w.mu.Lock()
		w.deaf["lease"] = false
		w.mu.Unlock()
		time.Sleep(20 * time.Minute)
		if w.called("publish") != 1 {
			t.Errorf("it does not go on: %v", w.calls)
		}
		stop(t, r)
	})
}

func TestLostLeaseEndsRun(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		w.holder = nil
		w.mu.Unlock()
		before := w.thing("one", 1)
		if err := <-r.done; !errors.Is(err, store.ErrNotHeld) {
			t.Errorf("it ended with %v", err)
		}
		if c.Now() > 5*time.Second+time.Minute {
			t.Errorf("it took until %v", c.Now())
		}
		if w.thing("one", 1) != before {
			t.Error("it changed something")
		}
		if err := r.e.Tell(t.Context(), "x", plan.Tick{}); !errors.Is(err, errStopped) {
			t.Errorf("it was told something after its end: %v", err)
		}
	})
}
