package execute

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

func TestDryRun(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", func(_ *process, o *Options) { o.DryRun, o.Lease = true, nil })
		r.copied("/ck/1")
		r.tell(starts("train", "/hot", nil))
		time.Sleep(2 * time.Minute)
		r.tell(said("/ck/1", hints.EvaluationDone, nil))
		time.Sleep(3 * time.Hour)
		stop(t, r)
		if len(w.calls)+len(j.records)+r.steps > 0 {
			t.Errorf("it did something: %v, %d records", w.calls, len(j.records))
		}
		got := strings.Join(r.lines(), "\n")
		for _, want := range []string{"would make 1 /ck/1", "would publish 1 /ck/1", "would withdraw 1", "would remove 1", "would make 2 /hot", "would remove 2"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not audited:\n%s", want, got)
			}
		}
	})
}

func TestStrays(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		put := func(controller string, id plan.ID, ttl time.Duration) {
			w.things[thingKey{controller, id}] = &thing{written: time.Now(), mark: temporary.Mark{Controller: controller, Placement: id, Path: "/x", TTL: ttl}}
		}
		put("one", 7, time.Hour)        // ours, and the journal does not know it
		put("zero", 3, time.Hour)       // of a predecessor
		put("foreign", 4, time.Hour)    // of a controller of other files
		put("foreign", 5, -time.Second) // the same, and over
		r := w.start(c, &memory{}, "one", nil)
		synctest.Wait()
		if w.thing("one", 7).mark.Path+w.thing("zero", 3).mark.Path+w.thing("foreign", 5).mark.Path != "" || w.thing("foreign", 4).mark.Path == "" {
			t.Errorf("audited: %v", r.lines())
		}
		if s := r.e.Stats(); s.Strays != 3 || r.count("sweep") != 3 {
			t.Errorf("%d strays, audited %v", s.Strays, r.lines())
		}
		r.copied("/ck/1")
		synctest.Wait()
		if w.thing("one", 8).mark.Placement != 8 {
			t.Errorf("the next placement is not number 8: %v", w.calls)
		}
		stop(t, r)
	})
}

func TestWhatIsGoneIsMadeAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		clear(w.things) // `ctl sweep --all`, say
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if s := r.e.Stats(); s.Lost != 1 || w.thing("one", 2).row != "v1" {
			t.Errorf("%d were lost, audited %v", s.Lost, r.lines())
		}
		stop(t, r)
	})
}

func TestWhatReadersDoNotFindIsMadeAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		w.things[thingKey{"one", 1}].row = "" // another's row has its place
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if s := r.e.Stats(); s.Lost != 1 || w.thing("one", 2).row != "v1" {
			t.Errorf("%d were lost, audited %v", s.Lost, r.lines())
		}
		stop(t, r)
	})
}

func TestWhatIsGoneAtTheStartIsNotTakenOver(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		stop(t, r)
		clear(w.things)
		again := w.start(c, j, "one", nil)
		synctest.Wait()
		if left := again.left(t, "/ck/1"); left > 0 || again.count("withdraw")+again.count("remove") == 0 {
			t.Errorf("it is taken for live, with %v left; audited %v", left, again.lines())
		}
		stop(t, again)
	})
}

func TestSharedContentIsNotSent(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		began := c.Now()
		r.copied("/ck/2")
		synctest.Wait()
		if th := w.thing("one", 2); th.row != "v1" || c.Now() != began || w.sent[2] > 0 {
			t.Errorf("there is %+v after %v", th, c.Now()-began)
		}
		w.mu.Lock()
		of, rate := w.of[2], w.rates[2]
		w.mu.Unlock()
		if of != 1 || rate != unbounded {
			t.Errorf("it is made of placement %d at %d bytes a second", of, rate)
		}
		told := int64(0)
		if err := r.e.Ask(t.Context(), func(p *plan.Planner, _ time.Duration) { told = p.Tally().ReusedBytes }); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		audited := slices.IndexFunc(r.audit, func(e audit.Entry) bool { return e.What == "made" && e.Placement == 2 && e.Reused == 1<<30 })
		r.mu.Unlock()
		if told != 1<<30 || audited < 0 {
			t.Errorf("the planner counts %d bytes that were not sent, audited %+v", told, r.audit)
		}
		stop(t, r)
	})
}

func TestASiteThatDoesNotAnswerLosesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		stop(t, r)
		w.deaf["east"] = true
		again := w.start(c, j, "one", nil)
		again.copied("/ck/1")
		time.Sleep(5 * time.Minute)
		if th := w.thing("one", 1); th.row != "v1" || again.e.Stats().Lost > 0 {
			t.Errorf("there is %+v", th)
		}
		stop(t, again)
	})
}

// TestAMuteSite has one site not answer at all: the controller begins soon, and what is at the others is taken care of at the start and later; what is at that one is taken
// over as it is, and what should not be there goes when it answers.
func TestAMuteSite(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		stop(t, r)
		put := func(site string, id plan.ID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.things[thingKey{"zero", id}] = &thing{site: site, written: time.Now(), mark: temporary.Mark{Controller: "zero", Placement: id, Path: "/x", TTL: time.Hour}}
		}
		there := func(id plan.ID) bool { return w.thing("zero", id).mark.Path != "" }
		put("west", 1)
		put("east", 2)
		answers := make(chan struct{})
		w.mute["east"] = answers
		began := c.Now()
		again := w.start(c, j, "one", func(_ *process, o *Options) { o.Reconcile = 10 * time.Second })
		again.copied("/ck/1")
		if waited := c.Now() - began; waited != firstAnswer {
			t.Errorf("it began after %v", waited)
		}
		synctest.Wait()
		if there(1) || !there(2) {
			t.Errorf("what is at the site that answers is left: %v; at the other one: %v", there(1), there(2))
		}
		put("west", 3)
		time.Sleep(11 * time.Second) // a period, in which the other site is being asked all the time
		if there(3) || !there(2) || w.thing("one", 1).row != "v1" {
			t.Errorf("a period later: %v, %v, %+v", there(3), there(2), w.thing("one", 1))
		}
		w.mu.Lock()
		delete(w.mute, "east")
		w.mu.Unlock()
		close(answers)
		time.Sleep(time.Minute)
		if th := w.thing("one", 1); there(2) || th.row != "v1" || again.e.Stats().Lost > 0 {
			t.Errorf("when it answers: %v, %+v", there(2), th)
		}
		stop(t, again)
	})
}

func TestALeaseGrowsWhileACopyIsSent(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", func(_ *process, o *Options) {
			b := budgets()
			b.WAN.Links["east"] = plan.Link{Rate: 100e3, EmergencyRate: 100e3, Transfers: 1, Held: 1 << 50, EmergencyHeld: 1 << 50, ByteHoursPerDay: 1e18}
			o.Settings = append(settings(), plan.BudgetsChanged{Budgets: b})
		})
		r.tell(said("/ck/1", hints.Committed, nil))
		n := uint64(1)
		again := func() {
			n++
			r.tell(said("/ck/1", hints.EvaluationScheduled, func(r *relay.Record) { r.Checkpoint.Sequence = n }))
		}
		again()
		for n := 0; n < 400 && w.thing("one", 1).row == ""; n++ { // it is sent for 3 h at least, and each minute it is to last an hour from then on
			time.Sleep(time.Minute)
			again()
			w.mu.Lock()
			th := w.things[thingKey{"one", 1}]
			if left := time.Until(th.written.Add(th.mark.TTL)); left < 10*time.Minute {
				t.Errorf("after %v the mark has %v left", c.Now(), left)
			}
			w.mu.Unlock()
		}
		if th := w.thing("one", 1); th.row != "v1" || c.Now() < 3*time.Hour-2*time.Minute {
			t.Errorf("after %v there is %+v", c.Now(), th)
		}
		if made := w.called("make"); made < 3 || made > 12 {
			t.Errorf("the making was begun %d times", made)
		}
		stop(t, r)
	})
}

func TestTheJournalIsCompacted(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		j := &memory{}
		r := w.start(c, j, "one", func(_ *process, o *Options) { o.Settings = settings(plan.Even) })
		r.copied("/ck/1")
		synctest.Wait()
		for i := range mostOver + 10 {
			job := fmt.Sprint("job", i)
			r.tell(starts(job, "/hot", func(r *relay.Record) { r.Start.ExpectedInMS = 0 }))
			synctest.Wait()
			r.tell(plan.JobEnded{Job: job, Run: "a"})
			synctest.Wait()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		stop(t, r)
		if len(j.records) > 50 || j.last < mostOver {
			t.Errorf("%d records of %d placements", len(j.records), j.last)
		}
		all, _, err := fold(j)
		if err != nil || len(all) != 1 || !all[1].published {
			t.Errorf("the journal says that there is %v: %v", all, err)
		}
	})
}
