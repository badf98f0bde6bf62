package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// in runs a test in a bubble of its own time.
func in(t *testing.T, f func(t *testing.T, w *world, c *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sources["/ck/1"], w.sources["/ck/2"], w.sources["/hot"] = "v1", "v1", "v1"
		w.replicas["/hot"] = 3
		f(t, w, newBubble())
	})
}

func TestCopyFromHintToRemoval(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.tell(said("/ck/1", hints.Committed, nil))
		r.tell(said("/ck/1", hints.EvaluationScheduled, nil))
		time.Sleep(2 * time.Minute)
		if th := w.thing("one", 1); th.row != "v1" {
			t.Fatalf("there is %+v", th)
		}
		r.tell(said("/ck/1", hints.EvaluationDone, nil))
		time.Sleep(5 * time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		w.empty()
		want := "make 1 /ck/1|made 1 /ck/1|publish 1 /ck/1|published 1 /ck/1|withdraw 1 /ck/1|withdrawn 1 /ck/1|remove 1 /ck/1|removed 1 /ck/1"
		got := strings.Join(slices.DeleteFunc(r.lines(), func(s string) bool { return strings.HasPrefix(s, "refuse") }), "|")
		if got != want {
			t.Errorf("audited:\n%s\nwant:\n%s", strings.ReplaceAll(got, "|", "\n"), strings.ReplaceAll(want, "|", "\n"))
		}
	})
}

func TestEveryMeansOfHotFiles(t *testing.T) {
	for _, means := range []plan.Means{plan.Even, plan.Sibling, plan.StorageType, plan.Raise} {
		t.Run(string(means), func(t *testing.T) {
			in(t, func(t *testing.T, w *world, c *bubble) {
				j := &memory{}
				r := w.start(c, j, "one", func(_ *process, o *Options) { o.Settings = settings(means) })
				r.tell(starts("train", "/hot", nil))
				time.Sleep(2 * time.Minute)
				th := w.thing("one", 1)
				raises := means == plan.StorageType || means == plan.Raise
				if th.mark.Placement == 0 || (th.row == "") != raises || (w.replicasOf("/hot") > 3) != raises {
					t.Fatalf("there is %+v", th)
				}
				r.tell(plan.FanOut{Job: "train", Run: "a", Ended: true})
				time.Sleep(5 * time.Minute)
				if err := r.end(); err != nil {
					t.Fatal(err)
				}
				w.empty()
				if all, _, err := fold(j); err != nil || len(all) > 0 {
					t.Errorf("the journal says that there is %v: %v", all, err)
				}
			})
		})
	}
}

func TestACopyFollowsItsOriginal(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", nil)
		r.copied("/ck/1")
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		delete(w.sources, "/ck/1")
		w.mu.Unlock()
		r.tell(said("/ck/1", hints.Deleted, nil))
		time.Sleep(2 * time.Minute)
		stop(t, r)
		w.empty()
		last := r.audit[len(r.audit)-1]
		if last.What != "removed" || !strings.Contains(last.Why, "it was deleted") || last.Path != "/ck/1" || last.Bytes != 1<<30 || last.Job != "train" || last.Site != "east" {
			t.Errorf("the deletion is not confirmed: %+v", last)
		}
	})
}

// TestManyAtOnce has more to do at one place than is done at once.
func TestManyAtOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world, c *bubble) {
		r := w.start(c, &memory{}, "one", func(_ *process, o *Options) { o.Settings = settings(plan.Even) })
		w.does(func(_ context.Context, call string, _ controller.Placement) error {
			if call == "publish" {
				time.Sleep(time.Second)
			}
			return nil
		})
		const n = 5*atOnce + 3
		for i := range n {
			name := fmt.Sprint("/many/", i)
			w.mu.Lock()
			w.sources[name] = "v1"
			w.mu.Unlock()
			r.tell(starts(name, name, func(r *relay.Record) { r.Start.ExpectedInMS = 0 }))
		}
		synctest.Wait()
		if s := r.e.Stats(); s.Running != atOnce || s.Waiting != n-atOnce {
			t.Errorf("%d are under way, %d wait", s.Running, s.Waiting)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if s := r.e.Stats(); s.Running != 0 || s.Waiting != 0 || w.called("publish") != n {
			t.Errorf("%d are under way, %d wait, %d were published", s.Running, s.Waiting, w.called("publish"))
		}
		r.tell(plan.Revoke{})
		time.Sleep(time.Minute)
		stop(t, r)
		w.empty()
	})
}
