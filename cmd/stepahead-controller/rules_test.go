package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
)

// watched are the rules of a world, read once; rates are those of the link that are told from then on.
func (w *world) watched(t *testing.T) (r *rulesWatch, rates func() []int64) {
	t.Helper()
	files := policy.Files{Rules: w.file("policy.yaml"), Budgets: w.file("budgets.yaml"), Prices: w.file("prices.yaml")}
	r, err := readRules(files, newProblems(), zap.NewNop(), func(*policy.Settings) []string { return nil })
	must(t, err)
	var told []int64
	r.tell = func(_ context.Context, _ string, ev plan.Event) error {
		if b, ok := ev.(plan.BudgetsChanged); ok {
			told = append(told, b.Budgets.WAN.Links["east"].Rate)
		}
		return nil
	}
	return r, func() []int64 {
		defer func() { told = nil }()
		return told
	}
}

// TestBudgetsByTheHour: the budgets in force are those of the hour that the clock shows, also when it was put forward or back.
func TestBudgetsByTheHour(t *testing.T) {
	w := newWorld(t)
	w.write("budgets.yaml", strings.Replace(budgetsText, "{rate: 100 MB/s", "{schedule: [{hours: 22:00-06:00, rate: 200 MB/s}], rate: 100 MB/s", 1))
	r, rates := w.watched(t)
	at := func(hour, minute int) time.Time { return time.Date(2027, 3, 4, hour, minute, 0, 0, time.UTC) }
	r.begin(at(21, 30))
	for _, c := range []struct {
		now  time.Time
		want int64 // 0: nothing is told
	}{
		{at(21, 59), 0}, {at(22, 0), 200e6}, {at(22, 30), 0},
		{at(21, 30), 100e6}, {at(21, 31), 0}, // put back
		{at(23, 0), 200e6}, // put forward
		{at(23, 1), 0},
	} {
		must(t, r.hour(t.Context(), c.now))
		if got := rates(); c.want == 0 && len(got) > 0 || c.want > 0 && (len(got) != 1 || got[0] != c.want) {
			t.Errorf("%s: told %d, want %d", c.now, got, c.want)
		}
	}
}

// TestRulesOfTheBeginning: a controller that becomes the active one goes by what the files say then, however long ago it was started; files that are wrong by then
// change nothing, and are said.
func TestRulesOfTheBeginning(t *testing.T) {
	w := newWorld(t)
	r, rates := w.watched(t)
	w.write("budgets.yaml", strings.Replace(budgetsText, "{rate: 100 MB/s", "{rate: 50 MB/s", 1))
	begun := func() (rate int64) {
		for _, ev := range r.begin(time.Unix(0, 0)) {
			if b, ok := ev.(plan.BudgetsChanged); ok {
				rate = b.Budgets.WAN.Links["east"].Rate
			}
		}
		return rate
	}
	if got := begun(); got != 50e6 {
		t.Errorf("it begins with a rate of %d", got)
	}
	must(t, r.read(t.Context(), false))
	if got := rates(); len(got) > 0 {
		t.Errorf("told again: %d", got)
	}
	w.write("budgets.yaml", "nonsense")
	if got := begun(); got != 50e6 || len(r.problems.all()) != 1 {
		t.Errorf("it begins with a rate of %d; problems %q", got, r.problems.all())
	}
	w.write("budgets.yaml", budgetsText)
	must(t, r.read(t.Context(), false))
	must(t, r.read(t.Context(), false)) // it was left alone since
	if got := rates(); len(got) != 1 || got[0] != 100e6 || len(r.problems.all()) != 0 {
		t.Errorf("mended: told %d; problems %q", got, r.problems.all())
	}
}

// TestHalfWrittenRules: a file that is being written is not read, although what is there of it is one that allows more than the whole does.
func TestHalfWrittenRules(t *testing.T) {
	w := newWorld(t)
	r, _ := w.watched(t)
	var told []plan.Event
	r.tell = func(_ context.Context, _ string, ev plan.Event) error {
		told = append(told, ev)
		return nil
	}
	r.begin(time.Now())
	whole := strings.Replace(policyText, "copies: allow", "copies:\n      sites: east\n      access: owner", 1)
	for i := range 20 { // many times between two looks, and at each of them there is less than all
		must(t, os.WriteFile(w.file("policy.yaml"), []byte(whole[:strings.Index(whole, "      access")]+strings.Repeat(" ", i)), 0o600))
		must(t, r.read(t.Context(), false))
	}
	must(t, os.WriteFile(w.file("policy.yaml"), []byte(whole), 0o600))
	must(t, r.read(t.Context(), false))
	if told != nil {
		t.Fatalf("it is taken over before it is known to be whole: %v", told)
	}
	must(t, r.read(t.Context(), false))
	if len(told) == 0 {
		t.Fatal("the whole file is not taken over")
	}
	v := told[0].(plan.PolicyChanged).Policy.Copy(plan.Request{Path: "/x", Site: "east"})
	if !v.Allowed || v.Access != plan.OwnerOnly {
		t.Errorf("the verdict is %+v", v)
	}
	must(t, r.read(t.Context(), false))
	if len(told) > 3 {
		t.Errorf("it is taken over twice: %v", told)
	}
}
