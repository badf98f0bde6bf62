package policy

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store/dir"
)

// files writes the three examples, changed, into a folder.
func files(t *testing.T, change func(name, text string) string) Files {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"policy.yaml", "budgets.yaml", "prices.yaml"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(change(name, string(example(t, name)))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Files{filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "budgets.yaml"), filepath.Join(folder, "prices.yaml")}
}

func same(_, text string) string { return text }

func TestLoad(t *testing.T) {
	s, err := Load(files(t, same))
	if err != nil {
		t.Fatal(err)
	}
	p := plan.New(plan.Options{})
	for _, ev := range s.Events(time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)) {
		if b, ok := ev.(plan.BudgetsChanged); ok && b.Budgets.WAN.Links["frankfurt"].Rate != 1e9 {
			t.Errorf("by night: %+v", b.Budgets.WAN.Links["frankfurt"])
		}
		p.Step(ev, 0)
	}
}

func TestLoadMistakes(t *testing.T) {
	all := files(t, func(name, text string) string { return text + "wrong: 1\n" })
	_, err := Load(all)
	var m *Mistake
	if err == nil || !errors.As(err, &m) || strings.Count(err.Error(), "wrong: unknown key") != 3 {
		t.Errorf("got %v", err)
	}
	all = files(t, func(_, text string) string {
		return strings.ReplaceAll(text, "    dublin:\n      rate", "    dubln:\n      rate")
	})
	if _, err := Load(all); err == nil || !strings.Contains(err.Error(), `wan.links.dubln: `+all.Rules+` declares no site "dubln"`) {
		t.Errorf("got %v", err)
	}
	all.Prices += ".none"
	if _, err := Load(all); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(all.Rules, []byte(strings.Repeat("#", maxFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(all); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestDiff(t *testing.T) {
	old, err := Load(files(t, same))
	if err != nil {
		t.Fatal(err)
	}
	now, err := Load(files(t, func(name, text string) string {
		text = "# another comment\n" + text
		for _, r := range []struct{ from, to string }{
			{"lease: 24h", "lease: 12h"}, {"on: true\n  held: 2 TiB", "on: false\n  held: 2 TiB"}, {"      transfers: 4             # copies at once\n", ""},
			{"  shares:\n", "  shares:\n    new: 10%\n"}, {"wan-gib: 0.02", "wan-gib: 0.03"}, {"\n  - name: other files at a start\n    when:\n      paths: /models/**\n    spread: [sibling, even]\n", ""},
		} {
			text = strings.Replace(text, r.from, r.to, 1)
		}
		return text
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range now.Diff(old) {
		got = append(got, filepath.Base(strings.SplitN(line, ": ", 2)[0])+": "+strings.SplitN(line, ": ", 2)[1])
	}
	const names = "drafts stay where they are, patients' data under the tenant's key, a day at most, what must stay in Europe, released models go anywhere, " +
		"the big run's checkpoints, files of the big run at its start, foreign readers too"
	want := []string{
		`policy.yaml: rules["patients' data under the tenant's key, a day at most"].copies.lease: 24h -> 12h`,
		"policy.yaml: rules: " + names + ", other files at a start -> " + names,
		`policy.yaml: rules["other files at a start"].when.paths: /models/** (removed)`,
		`policy.yaml: rules["other files at a start"].spread: sibling, even (removed)`,
		"budgets.yaml: replicas.on: true -> false",
		"budgets.yaml: jobs.shares.new: 10% (new)",
		"budgets.yaml: wan.links.frankfurt.transfers: 4 (removed)",
		"prices.yaml: wan-gib: 0.02 -> 0.03",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if same := old.Diff(old); same != nil {
		t.Errorf("nothing changed, and it says %v", same)
	}
}

// TestDiffOfLists: one name with a comma in it is another list than two names: who mends that is heard.
func TestDiffOfLists(t *testing.T) {
	load := func(jobs string) *Settings {
		t.Helper()
		s, err := Load(files(t, func(name, text string) string { return strings.Replace(text, `jobs: "pretrain-*"`, "jobs: "+jobs, 1) }))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const rule = `rules["the big run's checkpoints"].when.jobs: `
	if got := load("[a, b]").Diff(load("a, b")); len(got) != 1 || !strings.HasSuffix(got[0], rule+`"a, b" -> a, b`) {
		t.Errorf("got %q", got)
	}
	if got := load(`["a, b"]`).Diff(load("a, b")); len(got) != 0 {
		t.Errorf("one name alone or in a list: got %q", got)
	}
}

func TestLabelsOf(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	st, _, err := dir.Open(folder, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("run/step_1/model.safetensors", "x")
	write("run/step_2/model.safetensors", "x")
	write("run/last.safetensors", "x")
	write("run/step_2/"+LabelsFile, `{"tier": "gold", "note": "a \"b\""}`)
	write("run/"+LabelsFile, `{"tier": "silver", "residency": "eu"}`)
	write("bare/model.safetensors", "x")
	write("bad/"+LabelsFile, `{"tier": 1}`)
	for name, want := range map[string]map[string]string{
		"/run/step_1": {"tier": "silver", "residency": "eu"}, "/run/step_2": {"tier": "gold", "note": `a "b"`, "residency": "eu"},
		"/run/last.safetensors": {"tier": "silver", "residency": "eu"}, "/bare": {},
	} {
		got, err := LabelsOf(ctx, st, name)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := LabelsOf(ctx, st, "/bad"); err == nil || !strings.Contains(err.Error(), `label "tier" is not a text`) || !strings.Contains(err.Error(), LabelsFile) {
		t.Errorf("got %v", err)
	}
	if _, err := LabelsOf(ctx, st, "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestParseLabels(t *testing.T) {
	for _, text := range []string{
		"", "[]", "{", `{"a"}`, `{"a": "b"`, `{"a": "b"} x`, `{"a": null}`, `{"a": {}}`, `{"a": "b", "a": "c"}`, `{"A": "b"}`, `{"": "b"}`, `{"a": "\u0000"}`,
		`{"a": "` + strings.Repeat("x", maxLabel+1) + `"}`, `{"` + strings.Repeat("x", maxKey+1) + `": ""}`,
	} {
		if err := ParseLabels([]byte(text), make(map[string]string)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestDocs: what docs/ shows is what is read.
func TestDocs(t *testing.T) {
	block := func(file, kind string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../../docs", file))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(text), "```"+kind+"\n")
		shown, _, ended := strings.Cut(rest, "```")
		if !found || !ended {
			t.Fatalf("%s shows no %s", file, kind)
		}
		return []byte(shown)
	}
	if _, err := ParseRules("policy.md", block("policy.md", "yaml")); err != nil {
		t.Error(err)
	}
	if err := ParseLabels(block("policy.md", "json"), make(map[string]string)); err != nil {
		t.Error(err)
	}
	if _, err := ParseBudgets("budgets.md", append(block("budgets.md", "yaml"), "replicas: {on: false}\nstorage: {on: false}\n"...)); err != nil {
		t.Error(err)
	}
}
