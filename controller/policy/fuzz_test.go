package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// mistakes fails unless an error names the file.
func mistakes(t *testing.T, err error) {
	t.Helper()
	var m *Mistake
	if !errors.As(err, &m) || !strings.HasPrefix(err.Error(), "f.yaml") {
		t.Fatalf("the error does not say where: %v", err)
	}
}

func FuzzRules(f *testing.F) {
	f.Add(example(f, "policy.yaml"))
	f.Add([]byte("sites: {a: {region: r}}\nrules:\n- name: x\n  when: {labels: {a: [b, 'c*']}}\n  copies: {lease: 1d}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRules("f.yaml", data)
		if err != nil {
			mistakes(t, err)
			return
		}
		for site := range r.sites {
			q := plan.Request{Path: "/models/a/b", Job: "j", User: "u", Site: site, Layout: "dcp", Labels: map[string]string{"data": "patients"}}
			if v := r.Copy(q); v.Rule == "" || r.ExplainCopy(q).Verdict.Allowed != v.Allowed {
				t.Fatalf("the verdict %+v", v)
			}
		}
		if v := r.Copy(plan.Request{Path: "/x", Site: "nowhere\x00"}); v.Allowed {
			t.Fatal("a site that is not declared is allowed")
		}
	})
}

func FuzzBudgets(f *testing.F) {
	f.Add(example(f, "budgets.yaml"))
	f.Add([]byte(schedule("Africa/Casablanca", "{days: [mon, wed-fri], hours: '22:15-06:00', rate: 2 B/s, emergency-rate: 3 B/s}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBudgets("f.yaml", data)
		if err != nil {
			mistakes(t, err)
			return
		}
		at := time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC)
		for site, l := range b.At(at).WAN.Links {
			if l.Rate < 0 || l.Held < 0 || l.EmergencyRate < l.Rate || l.EmergencyHeld < l.Held || l.Transfers < 1 || l.ByteHoursPerDay < 0 {
				t.Fatalf("%s: %+v", site, l)
			}
		}
		if next, changes := b.Next(at); changes && !next.After(at) {
			t.Fatalf("next is %v", next)
		}
	})
}

func FuzzPrices(f *testing.F) {
	f.Add(example(f, "prices.yaml"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePrices("f.yaml", data)
		if err != nil {
			mistakes(t, err)
		} else if p.list.AcceleratorHour <= 0 || p.list.Entry < 0 {
			t.Fatalf("%+v", p.list)
		}
	})
}

func FuzzLabels(f *testing.F) {
	f.Add([]byte(`{"data": "patients", "tier": "gold"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		to := make(map[string]string)
		if err := ParseLabels(data, to); err == nil && len(to) > maxLabels {
			t.Fatalf("%d labels", len(to))
		}
	})
}
