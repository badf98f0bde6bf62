package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller/audit"
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
			fmt.Fprintf(&b, "%s{%s} %v\n", strings.TrimPrefix(f.GetName(), "stepahead_controller_"), strings.Join(labels, ","), m.GetGauge().GetValue()+m.GetCounter().GetValue())
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
	_, _ = w.client("a", "fetch", "/").Status(t.Context()) // refused
	all := w.scrape()
	for _, line := range []string{
		`placements_count{means="copy",state="making"} 2`, `waiting_count{} 1`, `held_bytes{site=""} 0`, `held_bytes{site="east"} 3.221225472e+09`,
		`granted_bytes_per_second{site="east"} 1e+08`, `lease_held_state{} 1`, `active_state{} 1`, `opened_total{result="in-time"} 0`, `audit_lost_total{} 0`,
		`problems_count{} 1`, `actions_total{action="make",result="begun"} 1`, `actions_total{action="make",result="done"} 1`, `actions_total{action="revoke",result="done"} 1`,
		`journal_down_state{} 1`, `strays_total{} 3`, `actions_total{action="make",result="failed"} 2`,
		`actions_total{action="other",result="done"} 1`, `actions_total{action="remove",result="done"} 0`, `failures_total{reason="failed"} 1`,
		`failures_total{reason="site"} 1`, `failures_total{reason="budget"} 0`, `refusals_total{code="PermissionDenied"} 1`,
	} {
		if !strings.Contains(all, line+"\n") {
			t.Errorf("no %q in\n%s", line, all)
		}
	}
}
