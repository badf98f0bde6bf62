package namenode

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What follows each failure, for calls that meet these causes one after the other.
func TestPlan(t *testing.T) {
	two := limits{nodes: 2, rounds: 3, busy: 2, base: time.Second, max: 3 * time.Second}
	one := two
	one.nodes = 1
	for _, c := range []struct {
		l      limits
		causes string
		want   string
	}{
		{two, "answer", "stop"},
		{two, "unreachable unreachable unreachable unreachable unreachable unreachable", "next next+1s next next+2s next stop"},
		{two, "unreachable standby broken standby", "next next+1s next next+2s"},
		{one, "unreachable unreachable unreachable", "next+1s next+2s stop"},
		{two, "busy busy busy", "again+1s again+2s stop"},
		{two, "standby busy busy answer", "next again+1s again+2s stop"},
		{two, "stale stale stale", "again next next+1s"}, // another connection, then another NameNode
		{one, "stale unreachable unreachable unreachable", "again next+1s next+2s stop"},
		{two, "silent silent silent silent", "next next+1s next stop"},
		{one, "silent silent", "next+1s stop"},
	} {
		var h history
		var got []string
		for _, name := range strings.Fields(c.causes) {
			k := causeNamed(name)
			m := plan(k, h, c.l)
			h = h.add(k, m)
			got = append(got, m.String())
			if m.giveUp {
				break
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%d nodes, %s: %s, want %s", c.l.nodes, c.causes, s, c.want)
		}
	}
}

func causeNamed(name string) cause {
	for k, n := range causeNames {
		if n == name {
			return cause(k)
		}
	}
	panic(name)
}

func (m move) String() string {
	s := "again"
	if m.giveUp {
		s = "stop"
	} else if m.other {
		s = "next"
	}
	if m.wait > 0 {
		s += fmt.Sprintf("+%v", m.wait)
	}
	return s
}

// Whatever a call meets, it ends.
func TestPlanEnds(t *testing.T) {
	l := limits{nodes: 3, rounds: 4, busy: 5, base: 1, max: 8}
	for first := range causes {
		for second := range causes {
			var h history
			for n := 0; ; n++ {
				k := []cause{first, second}[n%2]
				m := plan(k, h, l)
				if m.giveUp {
					break
				}
				if h = h.add(k, m); n > 100 {
					t.Fatalf("%v and %v in turn never end", first, second)
				}
			}
		}
	}
}
