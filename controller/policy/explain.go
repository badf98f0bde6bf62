package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// Explanation says how a verdict came about.
type Explanation struct {
	Verdict plan.Verdict
	// Labels are those that were decided by.
	Labels map[string]string
	// Passed are the rules before the one that decided, and why each did not. Rule is the one that decided, Line where it stands; "" and 0 if none did.
	Passed []Passed
	Rule   string
	Line   int
}

// Passed is a rule that did not decide.
type Passed struct {
	Rule string
	Line int
	Why  string
}

// ExplainCopy says how [Rules.Copy] decides.
func (r *Rules) ExplainCopy(q plan.Request) Explanation {
	e := Explanation{Labels: r.Labels(q.Path, q.Labels)}
	e.Verdict = r.copy(q, e.tell)
	return e
}

// ExplainSpread says how [Rules.Spread] decides.
func (r *Rules) ExplainSpread(q plan.Request) Explanation {
	var e Explanation
	e.Verdict = r.spread(q, e.tell)
	return e
}

func (e *Explanation) tell(r *rule, why string) {
	if why == "" {
		e.Rule, e.Line = r.name, r.line
		return
	}
	e.Passed = append(e.Passed, Passed{r.name, r.line, why})
}

// String is the explanation for people, in lines.
func (e Explanation) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(keys(e.Labels)) {
		fmt.Fprintf(&b, "label %s: %s\n", k, e.Labels[k])
	}
	for _, p := range e.Passed {
		fmt.Fprintf(&b, "passed over %q (line %d): %s\n", p.Rule, p.Line, p.Why)
	}
	word := "denied"
	if e.Verdict.Allowed {
		word = "allowed"
	}
	switch {
	case e.Rule == "":
		fmt.Fprintf(&b, "%s: %s\n", word, e.Verdict.Rule)
	default:
		fmt.Fprintf(&b, "%s by %q (line %d)", word, e.Rule, e.Line)
		if detail := strings.TrimPrefix(e.Verdict.Rule, e.Rule+": "); detail != e.Verdict.Rule {
			b.WriteString(": " + detail)
		}
		b.WriteString("\n")
	}
	if e.Verdict.Lease > 0 {
		fmt.Fprintf(&b, "it may lie there for %v\n", e.Verdict.Lease)
	}
	if e.Verdict.Access != plan.AsOriginal {
		fmt.Fprintf(&b, "it may be read by: %s\n", e.Verdict.Access)
	}
	return b.String()
}
