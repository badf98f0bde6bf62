package execute

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
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
