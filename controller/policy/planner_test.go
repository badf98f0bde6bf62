package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// planned is a planner under the settings of three files, which can be changed while a copy is there.
type planned struct {
	t     *testing.T
	p     *plan.Planner
	now   time.Duration
	begun []string // actions since
}

func (w *planned) step(ev plan.Event) {
	for {
		for _, a := range w.p.Step(ev, w.now) {
			w.begun = append(w.begun, a.String())
		}
		if at, ok := w.p.Wake(); !ok || at > w.now {
			return
		}
		ev = plan.Tick{}
	}
}

func (w *planned) take(change func(name, text string) string) {
	w.t.Helper()
	s, err := Load(files(w.t, change))
	if err != nil {
		w.t.Fatal(err)
	}
	w.begun = nil
	for _, ev := range s.Events(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)) {
		w.step(ev)
	}
}

// published has a checkpoint copied to Frankfurt and published.
func published(t *testing.T) *planned {
	t.Helper()
	w := &planned{t: t, p: plan.New(plan.Options{Home: "home"})}
	w.take(same)
	w.step(plan.SiteChanged{Site: plan.Site{Name: "frankfurt", Up: true, Writable: true, Free: 1 << 50, RemoteRate: 5e7, LocalRate: 2e9}})
	for _, state := range []hints.CheckpointState{hints.Committed, hints.EvaluationScheduled} {
		r := relay.Record{Version: 1, TTLMS: time.Hour.Milliseconds(), ID: state.String(), Job: "pretrain-7b", Run: "1", User: "ada", Confidence: 1, Identity: "v1"}
		r.Checkpoint = &relay.Checkpoint{State: state.String(), Path: "/models/7b/step_1", Step: -1}
		if state == hints.EvaluationScheduled {
			r.Checkpoint.Site = "frankfurt"
		}
		w.step(plan.Hint{Record: r})
	}
	w.inspected(nil)
	w.step(plan.Done{ID: 1, Action: "make"})
	w.step(plan.Done{ID: 1, Action: "publish"})
	if list, _ := w.p.Why("/models/7b/step_1"); len(list) != 1 || list[0].State != "live" {
		t.Fatalf("it is not published: %+v\n%s", list, strings.Join(w.begun, "\n"))
	}
	return w
}

func (w *planned) inspected(labels map[string]string) {
	w.begun = nil
	w.step(plan.Inspected{Checkpoint: plan.Checkpoint{Path: "/models/7b/step_1", Identity: "v1", Complete: true, Bytes: 1 << 30, Layout: "torch_dist", Labels: labels}})
}

// TestChangesWithdraw: a copy that is there goes when the files, or its labels, do not allow it any more, and stays when they do.
func TestChangesWithdraw(t *testing.T) {
	replace := func(from, to string) func(*planned) {
		return func(w *planned) {
			found := false
			w.take(func(_, text string) string {
				found = found || strings.Contains(text, from)
				return strings.ReplaceAll(text, from, to)
			})
			if !found {
				t.Fatalf("%q is not in the examples", from)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*planned)
		want   string // "": it stays
	}{
		{"nothing", func(w *planned) { w.take(same) }, ""},
		{"residency", replace("sites: [frankfurt, dublin]", "regions: eu-west"), "withdraw 1: policy: the big run's checkpoints: the site's region is eu-central, not eu-west"},
		{"the site moves", replace("region: eu-central\n    encryption: [at-rest, tenant-key]", "region: us-central\n    encryption: [at-rest, tenant-key]"), ""},
		{"the user", replace("users: [ada, grace]", "users: grace"), "withdraw 1: policy: no rule allows it"},
		{"a rule above", replace("rules:\n", "rules:\n  - name: not now\n    when: {paths: /models/7b/**}\n    copies: deny\n"), "withdraw 1: policy: not now"},
		{"another name", replace("name: the big run's checkpoints", "name: checkpoints of the big run"), ""},
		{"labels that it gets", func(w *planned) { w.inspected(map[string]string{"data": "patients"}) }, "withdraw 1: policy: who may read it has changed"},
		{"the budget's switch", replace("wan:\n  on: true", "wan:\n  on: false"), "withdraw 1: budget: it was lowered or switched off"},
		{"nothing may be held", replace("held: 200 TiB", "held: 0"), "withdraw 1: budget: it was lowered or switched off"},
		{"a link less", replace("    frankfurt:\n      rate: 400 MB/s", "    ashburn:\n      rate: 400 MB/s"), "withdraw 1: budget: it was lowered or switched off"},
	} {
		w := published(t)
		c.change(w)
		got := ""
		for _, a := range w.begun {
			if strings.HasPrefix(a, "withdraw") {
				got = a
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q of\n%s", c.name, got, c.want, strings.Join(w.begun, "\n"))
		}
	}
}

// TestRetention: the bound of the rule counts from when the copy was begun.
func TestRetention(t *testing.T) {
	w := published(t)
	w.now = 30 * time.Minute
	w.take(func(_, text string) string { return strings.ReplaceAll(text, "lease: 7d", "lease: 40m") })
	if len(w.begun) > 0 {
		t.Fatalf("before: %q", w.begun)
	}
	w.now = 40 * time.Minute
	w.step(plan.Tick{})
	if got := fmt.Sprint(w.begun); !strings.Contains(got, "withdraw 1: policy: the big run's checkpoints: it may be there for 40m0s, and that is over") {
		t.Error(got)
	}
}
