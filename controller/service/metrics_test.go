package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// scrape returns all metrics, a line each as Prometheus has them.
func (w *world) scrape() string {
	w.t.Helper()
	families, err := w.reg.Gather()
	must(w.t, err)
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprint(h.GetSampleCount(), " of ", h.GetSampleSum())
			}
			fmt.Fprintf(&b, "%s{%s} %s\n", strings.TrimPrefix(f.GetName(), "stepahead_controller_"), strings.Join(labels, ","), value)
		}
	}
	return b.String()
}

// TestMetrics: what the audit log and the planner say is what a scrape finds.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	for _, e := range []audit.Entry{
		{What: "make"}, {What: "made"}, {What: "make", Err: "site: it is full"}, {What: "make", Err: "what nobody knows"}, {What: "dance"}, {What: "revoke"},
	} {
		w.s.Record(e)
	}
	w.s.Record(audit.Entry{What: "made", Means: plan.Copy, Site: "east", Bytes: 1 << 30, Took: 10 * time.Second})
	_, _ = w.client("a", "fetch", "/").Status(t.Context()) // refused
	all := w.scrape()
	for _, line := range []string{
		`placements_count{means="copy",state="making"} 2`, `waiting_count{} 1`, `held_bytes{site=""} 0`, `held_bytes{site="east"} 3.221225472e+09`,
		`granted_bytes_per_second{site="east"} 1e+08`, `lease_held_state{} 1`, `active_state{} 1`, `opened_total{result="in-time"} 0`, `audit_lost_total{} 0`,
		`problems_count{} 1`, `actions_total{action="make",result="begun"} 1`, `actions_total{action="make",result="done"} 2`, `actions_total{action="revoke",result="done"} 1`,
		`journal_down_state{} 1`, `strays_total{} 3`, `actions_total{action="make",result="failed"} 2`,
		`actions_total{action="other",result="done"} 1`, `actions_total{action="remove",result="done"} 0`, `failures_total{reason="failed"} 1`,
		`made_bytes_total{means="copy",site="east"} 1.073741824e+09`, `made_seconds_total{means="copy",site="east"} 10`,
		`planner_refusals_total{reason="budget"} 7`, `planner_refusals_total{reason="quota"} 0`, `expected_bytes_per_second{site="east"} 5e+07`,
		`budget_on_state{budget="wan"} 1`, `budget_on_state{budget="replicas"} 0`, `starts_count{state="reading"} 0`, `nodes_count{kind="in-service"} 9`, `node_bytes_per_second{} 1e+08`, `readers_per_source_count{} 4`,
		`measured_starts_total{result="helped"} 0`, `failures_total{reason="site"} 1`, `failures_total{reason="budget"} 0`, `refusals_total{code="PermissionDenied"} 1`,
	} {
		if !strings.Contains(all, line+"\n") {
			t.Errorf("no %q in\n%s", line, all)
		}
	}
}

// TestSpans: what the time of evaluations went to is counted, each of it once, and how long the ranks of starts took.
func TestSpans(t *testing.T) {
	w := newWorld(t)
	a := *w.s.now()
	a.Timeline = timeline.NewLog("home")
	w.s.Activate(a)
	for i, ev := range []timeline.Event{ // the engine's clock stands at 0
		{Kind: "committed", Job: "a", Step: 7, At: -20 * time.Minute},
		{Kind: timeline.CopyBegun, Site: "east", Placement: 1, At: -19 * time.Minute},
		{Kind: timeline.CopyReady, Site: "east", Placement: 1, At: -18 * time.Minute},
		{Kind: "evaluation-opened", Job: "b", Site: "east", At: -15 * time.Minute},
	} {
		ev.ID, ev.Path = fmt.Sprint(i), "/runs/a/1"
		a.Timeline.Add(ev)
	}
	if all := w.scrape(); strings.Contains(all, "evaluation_stage_seconds{") {
		t.Errorf("another process has counted that: %s", all)
	}
	w.s.metrics.spans.observe([]timeline.Span{
		{Name: timeline.CopyLate, Site: "east", Read: timeline.ACopy, Took: time.Minute}, {Name: timeline.CopyLate, Site: "east", Read: timeline.ACopy, Took: time.Second},
		{Name: timeline.AgeReady, Site: "east", Took: time.Minute}, {Name: timeline.AgeRegression, Site: "home", Took: time.Hour},
	})
	read := relay.Record{Start: &relay.Start{Phase: "read", MedianMS: 2000, LastMS: 3000}}
	w.s.Read(read, 0)
	w.s.Read(read, time.Hour) // before this service began
	w.s.Read(relay.Record{Start: &relay.Start{Phase: "read"}}, 0)
	w.s.Read(relay.Record{Start: &relay.Start{Phase: "read", LastMS: 4000}}, 0)
	for range 2 {
		all := w.scrape()
		for _, line := range []string{
			`evaluation_stage_seconds{read="copy",site="east",stage="copy-late"} 2 of 61`, `copy_ready_seconds{site="east"} 1 of 60`, `regression_age_seconds{site="home"} 1 of 3600`,
			`start_read_seconds{rank="median"} 1 of 2`, `start_read_seconds{rank="last"} 2 of 7`,
		} {
			if !strings.Contains(all, line+"\n") {
				t.Errorf("no %q in\n%s", line, all)
			}
		}
	}
}

// TestReadiness: where a hot file lies is asked once something has begun for it, and a store that does not tell is told of.
func TestReadiness(t *testing.T) {
	asked := 0
	a := &Active{Ready: func(_ context.Context, path string, id plan.ID) (map[string]int, error) {
		asked++
		if path != "/hot" || id != 7 {
			return nil, errors.New("it does not answer")
		}
		return map[string]int{"/r1": 2, "/r2": 1}, nil
	}}
	ask := func(s plan.Standing) control.Why {
		w := control.Why{Path: s.Path, Standings: []plan.Standing{s}}
		a.readiness(t.Context(), &w)
		return w
	}
	if w := ask(plan.Standing{Path: "/hot", ID: 7, Means: plan.Sibling, State: "live"}); !maps.Equal(w.Ready, map[string]int64{"/r1": 2, "/r2": 1}) || w.ReadyProblem != "" {
		t.Errorf("%+v", w)
	}
	if w := ask(plan.Standing{Path: "/other", ID: 8, Means: plan.Raise, State: "making"}); w.ReadyProblem != "it does not answer" || w.Ready != nil {
		t.Errorf("%+v", w)
	}
	asked = 0
	for _, s := range []plan.Standing{{ID: 7, Means: plan.Copy, State: "live"}, {Path: "/hot", ID: 7, Means: plan.Sibling, State: "waiting"}, {Path: "/hot", State: "none"}} {
		if w := ask(s); asked > 0 || w.Ready != nil || w.ReadyProblem != "" {
			t.Errorf("of %+v it is said: %+v", s, w)
		}
	}
}
