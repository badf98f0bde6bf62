package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// example is a file of examples/controller.
func example(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../examples/controller", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func exampleRules(t testing.TB) *Rules {
	t.Helper()
	r, err := ParseRules("policy.yaml", example(t, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExampleOfCopies(t *testing.T) {
	r := exampleRules(t)
	eu := map[string]string{"residency": "eu"}
	for _, c := range []struct {
		q    plan.Request
		want string
	}{
		{plan.Request{Path: "/models/llm/step_100", Layout: "safetensors", Site: "ashburn"}, "allowed: released models go anywhere"},
		{plan.Request{Path: "/models/llm/step_100", Layout: "safetensors", Site: "tokyo"}, `denied: policy.yaml declares no site "tokyo"`},
		{plan.Request{Path: "/models/llm/step_100", Layout: "safetensors", Site: "ashburn", Labels: eu}, "denied: what must stay in Europe: the site's region is us-east, not eu-*"},
		{plan.Request{Path: "/models/llm/step_100", Layout: "safetensors", Site: "dublin", Labels: eu}, "allowed: what must stay in Europe"},
		{plan.Request{Path: "/models/llm/step_100", Layout: "torch_dist", Site: "dublin", User: "ada", Job: "pretrain-7b"}, "allowed: the big run's checkpoints lease=168h0m0s"},
		{plan.Request{Path: "/models/llm/step_100", Layout: "torch_dist", Site: "ashburn", User: "ada", Job: "pretrain-7b"}, "denied: the big run's checkpoints: the site ashburn is not frankfurt, dublin"},
		{plan.Request{Path: "/models/llm/step_100", Layout: "torch_dist", Site: "dublin", User: "eve", Job: "pretrain-7b"}, "denied: no rule allows it"},
		{plan.Request{Path: "/models/llm/tmp/step_100", Layout: "safetensors", Site: "dublin"}, "denied: drafts stay where they are"},
		{plan.Request{Path: "/users/ada/x", Layout: "safetensors", Site: "dublin"}, "denied: drafts stay where they are"},
		// Labels by path win over those that the checkpoint carries.
		{plan.Request{Path: "/models/clinic/a/step_1", Layout: "safetensors", Site: "ashburn", Labels: map[string]string{"data": "public"}}, "denied: patients' data under the tenant's key, a day at most: the site's region is us-east, not eu-*"},
		{plan.Request{Path: "/models/clinic/a/step_1", Site: "dublin"}, "denied: patients' data under the tenant's key, a day at most: the site has the encryption classes [at-rest], not tenant-key"},
		{plan.Request{Path: "/models/clinic/a/step_1", Site: "frankfurt"}, "allowed: patients' data under the tenant's key, a day at most lease=24h0m0s access=owner"},
		{plan.Request{Path: "/data/x", Layout: "safetensors", Site: "frankfurt"}, "denied: no rule allows it"},
	} {
		if got := describe(r.Copy(c.q)); got != c.want {
			t.Errorf("%+v\n got: %s\nwant: %s", c.q, got, c.want)
		}
	}
}

func describe(v plan.Verdict) string {
	s := "denied: " + v.Rule
	if v.Allowed {
		s = "allowed: " + v.Rule
	}
	if v.Lease > 0 {
		s += fmt.Sprintf(" lease=%v", v.Lease)
	}
	if v.Access != "" {
		s += " access=" + string(v.Access)
	}
	if v.Means != nil {
		s += fmt.Sprintf(" means=%v", v.Means)
	}
	return s
}

func TestExampleOfSpread(t *testing.T) {
	r := exampleRules(t)
	for _, c := range []struct {
		q    plan.Request
		want string
	}{
		{plan.Request{Path: "/models/a/common.pt", Job: "pretrain-7b"}, "allowed: files of the big run at its start, foreign readers too means=[sibling even storage-type]"},
		{plan.Request{Path: "/models/a/common.pt", Job: "tune"}, "allowed: other files at a start means=[sibling even]"},
		{plan.Request{Path: "/users/ada/common.pt", Job: "tune"}, "denied: drafts stay where they are"},
		{plan.Request{Path: "/x", Job: "tune"}, "denied: no rule allows it"},
	} {
		if got := describe(r.Spread(c.q)); got != c.want {
			t.Errorf("%+v\n got: %s\nwant: %s", c.q, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	r := exampleRules(t)
	got := r.ExplainCopy(plan.Request{Path: "/models/clinic/a", Job: "j", Site: "dublin", Labels: map[string]string{"tier": "gold"}}).String()
	want := `label data: patients
label residency: eu
label tier: gold
passed over "drafts stay where they are" (line 21): the path "/models/clinic/a" is not /users/**, /**/tmp/**
denied by "patients' data under the tenant's key, a day at most" (line 27): the site has the encryption classes [at-rest], not tenant-key
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	got = r.ExplainSpread(plan.Request{Path: "/elsewhere", Job: "j"}).String()
	for _, part := range []string{
		`passed over "what must stay in Europe" (line 36): it says nothing of spread`,
		`passed over "other files at a start" (line 64): the path "/elsewhere" is not /models/**`, "denied: no rule allows it\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in:\n%s", part, got)
		}
	}
	got = r.ExplainCopy(plan.Request{Path: "/models/clinic/a", Site: "frankfurt"}).String()
	if !strings.HasSuffix(got, "it may lie there for 24h0m0s\nit may be read by: owner\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestRulesMistakes(t *testing.T) {
	const sites = "sites: {here: {region: eu}, there: {region: us, encryption: [at-rest]}}\n"
	for _, c := range []struct{ text, want string }{
		{"", "p.yaml: it has"},
		{"a: [", "p.yaml: it is not YAML"},
		{"- a", "p.yaml:1: want keys with values, one a line, not a list"},
		{"sites: {}", "p.yaml:1: rules is missing"},
		{sites + "rules:", "p.yaml:2: rules: want a list, not nothing"},
		{sites + "rules: []\nrule: x", "p.yaml:3: rule: unknown key: the keys here are labels, rules, sites"},
		{"sites: {here: {}}\nrules: []", "p.yaml:1: sites.here: region is missing"},
		{"sites: {\"a b\": {region: eu}}\nrules: []", `p.yaml:1: sites.a b: "a b" is no name of a site`},
		{"sites: {here: {region: }}\nrules: []", "p.yaml:1: sites.here.region: want one value, not nothing"},
		{sites + "rules:\n- copies: deny", "p.yaml:3: rules[0]: name is missing"},
		{sites + "rules:\n- name: a", `p.yaml:3: rule "a": rules["a"]: it decides nothing`},
		{sites + "rules:\n- name: a\n  copies: maybe", `p.yaml:4: rule "a": rules["a"].copies: "maybe": write deny, allow, or`},
		{sites + "rules:\n- name: a\n  copies: deny\n- name: a\n  spread: deny", `p.yaml:5: rule "a": rules["a"]: another rule has this name`},
		{sites + "rules:\n- name: a\n  copies: {}", `rules["a"].copies: it has no limits: write allow, or`},
		{sites + "rules:\n- name: a\n  copies: {sites: [nowhere]}", `rules["a"].copies.sites: no site is "nowhere"`},
		{sites + "rules:\n- name: a\n  copies: {regions: 'as*'}", `rules["a"].copies.regions: no site is in the region "as*"`},
		{sites + "rules:\n- name: a\n  copies: {encryption: atrest}", `no site has the encryption class "atrest"`},
		{sites + "rules:\n- name: a\n  copies: {lease: 0s}", `"0s": write a length of time above 0`},
		{sites + "rules:\n- name: a\n  copies: {lease: 1}", `"1": write a length of time above 0`},
		{sites + "rules:\n- name: a\n  copies: {access: world}", `"world": write as-original or owner`},
		{sites + "rules:\n- name: a\n  spread: [even, copy]", `"copy": the means are even, sibling, storage-type and raise`},
		{sites + "rules:\n- name: a\n  spread: []", "the list is empty"},
		{sites + "rules:\n- name: a\n  spread: [even, even]", `"even" is there twice`},
		{sites + "rules:\n- name: a\n  when: {paths: models/**}\n  copies: deny", `"models/**": a path begins with a slash`},
		{sites + "rules:\n- name: a\n  when: {paths: /models/}\n  copies: deny", `write /models for the folder alone, or /models/** for all that is in it`},
		{sites + "rules:\n- name: a\n  when: {paths: /mo**}\n  copies: deny", "** stands alone between two slashes"},
		{sites + "rules:\n- name: a\n  when: {paths: '/{a,b}'}\n  copies: deny", "write several patterns instead of sets"},
		{sites + "rules:\n- name: a\n  when: {paths: }\n  copies: deny", "want one value, not nothing"},
		{sites + "rules:\n- name: a\n  when: {labels: {x: y}}\n  spread: deny", "make spread a rule of its own"},
		{sites + "rules:\n- name: a\n  when: {layouts: torchdist}\n  copies: deny", `no layout is "torchdist"`},
		{sites + "rules:\n- name: a\n  copies: deny\n- name: b\n  copies: allow", `rule "b": rules["b"]: it can never decide: "a" in line 3 matches everything before it`},
		{sites + "labels:\n- paths: /a\n  set: {K: v}\nrules: []", `"K" is no key of a label`},
		{sites + "x: &a 1\nrules: *a", "p.yaml:3: rules: want a list, not an alias"},
		{sites + "rules: []\nrules: []", "already defined"},
	} {
		r, err := ParseRules("p.yaml", []byte(c.text))
		if err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got: %v\nwant: %s", c.text, err, c.want)
		}
	}
}

// TestFirstMatch holds the rules against a reading of their own: the first that says something and matches decides, none denies.
func TestFirstMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type one struct{ path, job, verdict string }
		paths, jobs := []string{"", "/a/**", "/a/b", "/c/*"}, []string{"", "x", "y*"}
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) one {
			return one{
				rapid.SampledFrom(paths).Draw(t, "path"), rapid.SampledFrom(jobs).Draw(t, "job"),
				rapid.SampledFrom([]string{"copies: allow", "copies: deny", "spread: [even]"}).Draw(t, "verdict"),
			}
		}), 0, 6).Draw(t, "rules")
		text := "sites: {s: {region: r}}\nrules:\n"
		for i, r := range list {
			text += fmt.Sprintf("- name: n%d\n  %s\n", i, r.verdict)
			if r.path+r.job != "" {
				text += "  when:\n"
			}
			if r.path != "" {
				text += fmt.Sprintf("    paths: %q\n", r.path)
			}
			if r.job != "" {
				text += fmt.Sprintf("    jobs: %q\n", r.job)
			}
		}
		if len(list) == 0 {
			text = strings.Replace(text, "rules:\n", "rules: []\n", 1)
		}
		rules, err := ParseRules("p", []byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), "it can never decide") {
				t.Fatalf("%v\n%s", err, text)
			}
			return
		}
		q := plan.Request{
			Site: "s", Path: rapid.SampledFrom([]string{"/a", "/a/b", "/a/b/c", "/c/d", "/c/d/e", "/z"}).Draw(t, "of path"),
			Job: rapid.SampledFrom([]string{"x", "yy", "z"}).Draw(t, "of job"),
		}
		matches := map[string]func() bool{
			"": func() bool { return true }, "/a/**": func() bool { return q.Path == "/a" || strings.HasPrefix(q.Path, "/a/") },
			"/a/b": func() bool { return q.Path == "/a/b" }, "/c/*": func() bool { return q.Path == "/c/d" },
			"x": func() bool { return q.Job == "x" }, "y*": func() bool { return strings.HasPrefix(q.Job, "y") },
		}
		copies, spread := "denied: no rule allows it", "denied: no rule allows it"
		for i := len(list) - 1; i >= 0; i-- {
			r := list[i]
			if !matches[r.path]() || !matches[r.job]() {
				continue
			}
			switch r.verdict {
			case "copies: allow":
				copies = fmt.Sprintf("allowed: n%d", i)
			case "copies: deny":
				copies = fmt.Sprintf("denied: n%d", i)
			default:
				spread = fmt.Sprintf("allowed: n%d means=[even]", i)
			}
		}
		if got := describe(rules.Copy(q)); got != copies {
			t.Fatalf("%+v: copy is %s, want %s\n%s", q, got, copies, text)
		}
		if got := describe(rules.Spread(q)); got != spread {
			t.Fatalf("%+v: spread is %s, want %s\n%s", q, got, spread, text)
		}
		if e := rules.ExplainCopy(q); describe(e.Verdict) != copies || (e.Rule == "") != strings.HasSuffix(copies, "no rule allows it") {
			t.Fatalf("explained as %+v", e)
		}
	})
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern string
		path    bool
		yes, no []string
	}{
		{"/a/b", true, []string{"/a/b"}, []string{"/a", "/a/b/c", "/a/bc"}},
		{"/a/**", true, []string{"/a", "/a/b", "/a/b/c"}, []string{"/ab", "/", "/b/a"}},
		{"/**", true, []string{"/a", "/a/b"}, nil},
		{"/a/*", true, []string{"/a/b", "/a/.b"}, []string{"/a", "/a/b/c"}},
		{"/a/*/c", true, []string{"/a/b/c"}, []string{"/a/c", "/a/b/b/c"}},
		{"/a/**/c", true, []string{"/a/c", "/a/b/c", "/a/b/b/c"}, []string{"/a/bc", "/ac", "/a/c/d"}},
		{"/**/tmp/**", true, []string{"/tmp", "/a/tmp", "/a/tmp/x", "/tmp/x/y"}, []string{"/a/tmpx", "/atmp"}},
		{"/a/*/**", true, []string{"/a/b", "/a/b/c"}, []string{"/a", "/ab/c"}},
		{"/a/step_?", true, []string{"/a/step_1"}, []string{"/a/step_", "/a/step_10", "/a/step_/"}},
		{"/a.b+c/*", true, []string{"/a.b+c/d"}, []string{"/aXb+c/d", "/a.bbc/d"}},
		{"/\n*", true, []string{"/\nx"}, []string{"/x"}},
		{"*", false, []string{"", "a", "a/b"}, nil},
		{"pre*", false, []string{"pre", "pre-x/y"}, []string{"xpre"}},
		{"*-7b", false, []string{"a-7b", "-7b", "a/b-7b"}, []string{"7b", "a-7bx"}},
		{"a?c", false, []string{"abc", "aéc"}, []string{"ac", "abbc"}},
	} {
		g, err := newGlob(c.pattern, c.path)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, s := range c.yes {
			if !g.match(s) {
				t.Errorf("%s does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if g.match(s) {
				t.Errorf("%s matches %q", c.pattern, s)
			}
		}
	}
}
