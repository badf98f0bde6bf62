package policy

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// expression is what a pattern means, as a regular expression.
func expression(s string, path bool) *regexp.Regexp {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case path && s[i:] == "/**":
			b.WriteString(`(?:/.*)?`)
			i += 2
		case path && strings.HasPrefix(s[i:], "/**/"):
			b.WriteString(`(?:/[^/]*)*`)
			i += 2 // its second slash is the next part's
		case path && s[i] == '*':
			b.WriteString(`[^/]*`)
		case s[i] == '*':
			b.WriteString(`.*`)
		case path && s[i] == '?':
			b.WriteString(`[^/]`)
		case s[i] == '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(s[i : i+1]))
		}
	}
	return regexp.MustCompile(`^(?s:` + b.String() + `)$`)
}

// TestGlobsAgree holds the matching of patterns against regular expressions.
func TestGlobsAgree(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.Bool().Draw(t, "path")
		pattern := rapid.StringMatching(`([ab*?.]|é|€|/){0,9}`).Draw(t, "pattern")
		if path {
			pattern = rapid.StringMatching(`(/(\*\*|([ab?.]|\*[ab?.]|é){0,3}\*?)){1,6}`).Draw(t, "pattern of paths")
		}
		s := rapid.StringMatching(`(/?([ab.]|é|€){0,2}){0,7}`).Draw(t, "text")
		g, err := newGlob(pattern, path)
		if err != nil {
			t.Skip(err)
		}
		want := expression(pattern, path).MatchString(s)
		if want {
			matched++
		}
		if got := g.match(s); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, s, got, want)
		}
	})
	if matched == 0 {
		t.Error("no pattern matched anything")
	}
}

// TestSearchIsBounded: what takes a backtracking search longer than anybody waits is told as well.
func TestSearchIsBounded(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		path          bool
	}{
		{strings.Repeat("*a", 30) + "*b", strings.Repeat("a", 4000), false},
		{strings.Repeat("/**/a", 30) + "/**/b", strings.Repeat("/a", 2000), true},
	} {
		g, err := newGlob(c.pattern, c.path)
		if err != nil {
			t.Fatal(err)
		}
		if g.match(c.text) || !g.match(c.text+c.text[:len(c.text)/2]+strings.Trim(c.pattern[len(c.pattern)-2:], "*")) {
			t.Errorf("%.20s is told wrongly", c.pattern)
		}
	}
}

// TestMatchesAndRefuses: a condition matches exactly where there is nothing to say against it.
func TestMatchesAndRefuses(t *testing.T) {
	words := []string{"", "a", "b"}
	rapid.Check(t, func(t *rapid.T) {
		word := func(of string) string { return rapid.SampledFrom(words).Draw(t, of) }
		list := func(of string) globs {
			var all globs
			for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b*", "?"}), 0, 2).Draw(t, of) {
				g, err := newGlob(s, false)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, g)
			}
			return all
		}
		c := condition{paths: list("paths"), jobs: list("jobs"), users: list("users"), layouts: list("layouts"), sites: list("sites"), regions: list("regions")}
		labels := map[string]string{}
		if rapid.Bool().Draw(t, "wants a label") {
			c.labels = []label{{"k", list("values")}}
		}
		if rapid.Bool().Draw(t, "has a label") {
			labels["k"] = word("label")
		}
		q := plan.Request{Path: word("path"), Job: word("job"), User: word("user"), Layout: word("layout"), Site: word("site")}
		site := Site{Region: word("region")}
		if got, why := c.matches(q, site, labels), c.refuses(q, site, labels); got != (why == "") {
			t.Fatalf("it matches: %v, but %q", got, why)
		}
	})
}
