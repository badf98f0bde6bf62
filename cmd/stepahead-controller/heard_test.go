package main

import (
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/controller/intake"
)

// TestSilence: that no agent is there is a problem where agents are all that is heard, once they were looked for.
func TestSilence(t *testing.T) {
	agents, none := []string{"auto"}, []string{noAgents}
	for _, c := range []struct {
		name  string
		s     settings
		stats intake.Stats
		want  string // "" for no problem
	}{
		{"not looked yet", settings{agents: agents}, intake.Stats{}, ""},
		{"none registered", settings{agents: agents, registry: "/r"}, intake.Stats{Looked: true}, "none is registered in /r"},
		{"none wanted", settings{agents: none}, intake.Stats{Looked: true}, ""},
		{"a ledger is read", settings{agents: agents, ledgers: []string{"l"}}, intake.Stats{Looked: true}, ""},
		{"a folder is watched", settings{agents: agents, watch: []string{"7b=/runs"}}, intake.Stats{Looked: true}, ""},
		{"one is heard", settings{agents: agents}, intake.Stats{Looked: true, Following: 1}, ""},
		{"one is silent", settings{agents: agents}, intake.Stats{Looked: true, Following: 1, Silent: 1}, "1 of 2 hand nothing over"},
	} {
		p := program{s: c.s}
		got := strings.Join(p.silence(c.stats), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
