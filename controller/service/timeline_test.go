package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/controller/timeline"
)

// timelines has one checkpoint of job a that jobs b and c evaluated.
func timelines() *timeline.Log {
	l := timeline.NewLog("home")
	for i, ev := range []timeline.Event{
		{Kind: "committed", Job: "a", Step: 7},
		{Kind: "evaluation-opened", Job: "b", Evaluation: "x", At: time.Minute},
		{Kind: "evaluation-done", Job: "b", Evaluation: "x", At: 2 * time.Minute},
		{Kind: "evaluation-opened", Job: "c", Evaluation: "y", At: 3 * time.Minute},
	} {
		ev.ID, ev.Path = fmt.Sprint(i), "/runs/a/1"
		l.Add(ev)
	}
	return l
}

// TestTimelines: each sees what is its own, and may read.
func TestTimelines(t *testing.T) {
	w := newWorld(t)
	a := *w.s.now()
	a.Timeline = timelines()
	w.s.Activate(a)
	ask := func(job, rights, root, ofPath, ofJob string) string {
		got, err := w.client(job, rights, root).Timeline(t.Context(), ofPath, ofJob)
		for class, word := range map[error]string{control.ErrDenied: "denied", control.ErrInvalid: "invalid", control.ErrNotFound: "not found"} {
			if errors.Is(err, class) {
				return word
			}
		}
		must(t, err)
		var words []string
		for _, tl := range got.Timelines {
			words = append(words, tl.Job)
			for _, e := range tl.Evaluations {
				words = append(words, e.Name)
			}
		}
		return strings.Join(words, " ")
	}
	for _, c := range []struct{ job, rights, root, path, of, want string }{
		{"ops", "operate", "/", "/runs/a/1", "", "a x y"},
		{"ops", "view", "/", "", "a", "a x y"},
		{"ops", "view", "/", "", "b", "a x y"},
		{"ops", "view", "/", "", "none", ""},
		{"ops", "view", "/elsewhere", "/runs/a/1", "", "denied"},
		{"ops", "view", "/elsewhere", "", "a", ""},
		{"a", "hint", "/", "/runs/a/1", "", "a x y"},
		{"b", "hint", "/", "/runs/a/1", "", " x"},
		{"b", "hint", "/", "", "b", " x"},
		{"b", "hint", "/", "", "a", "denied"},
		{"d", "hint", "/", "/runs/a/1", "", ""},
		{"a", "fetch", "/", "", "a", "denied"},
		{"ops", "view", "/", "", "", "invalid"},
		{"ops", "view", "/", "/runs/a/1", "a", "invalid"},
		{"ops", "view", "/", "runs", "", "invalid"},
	} {
		if got := ask(c.job, c.rights, c.root, c.path, c.of); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	got, err := w.client("ops", "view", "/").Timeline(t.Context(), "/runs/a/1", "")
	must(t, err)
	var b strings.Builder
	must(t, got.Write(&b, 80))
	if !strings.Contains(b.String(), "/runs/a/1, step 7, of job a: committed 2") || !strings.Contains(b.String(), "evaluation x by job b: opened after 1m") {
		t.Error(b.String())
	}
	a.Timeline = nil
	w.s.Activate(a)
	if got := ask("ops", "view", "/", "/runs/a/1", ""); got != "not found" {
		t.Errorf("without timelines: %q", got)
	}
}

// TestLargeReply: all that a job has evaluated comes, however much it is.
func TestLargeReply(t *testing.T) {
	w := newWorld(t)
	a := *w.s.now()
	a.Timeline = timeline.NewLog("home")
	const all = 3000
	for i := range all {
		a.Timeline.Add(timeline.Event{ID: fmt.Sprint(i), Kind: "committed", Job: "a", Path: fmt.Sprintf("/runs/%04d/%s", i, strings.Repeat("x", 2000))})
	}
	w.s.Activate(a)
	got, err := w.client("ops", "view", "/").Timeline(t.Context(), "", "a")
	if err != nil || len(got.Timelines) != all {
		t.Errorf("%d of %d timelines, %v", len(got.Timelines), all, err)
	}
}

// TestWhyPolicy: whoever sees what is wanted is told which rules decide on it, and nobody else.
func TestWhyPolicy(t *testing.T) {
	w := newWorld(t)
	rules, err := policy.ParseRules("p.yaml", []byte("sites: {east: {region: r}}\nrules:\n- name: not of b\n  when: {jobs: b}\n  copies: deny\n- name: all\n  copies: allow\n"))
	must(t, err)
	must(t, w.engine.Tell(t.Context(), "test", plan.PolicyChanged{Policy: rules}))
	for _, c := range []struct{ job, rights, path, want string }{
		{"ops", "view", "/runs/a/1", `copy to east
passed over "not of b" (line 3): the job "a" is not b
allowed by "all" (line 6)
`},
		{"b", "hint", "/runs/b/1", `copy to east
denied by "not of b" (line 3)
`},
		{"b", "hint", "/runs/a/1", ""},
	} {
		why, err := w.client(c.job, c.rights, "/").Why(t.Context(), 0, c.path)
		must(t, err)
		if got := strings.Join(why.Policy, ""); got != c.want {
			t.Errorf("%s of %s: got\n%swant\n%s", c.path, c.job, got, c.want)
		}
	}
}
