package dir

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func racks() layout {
	return newLayout(Topology{Nodes: []Node{
		{Name: "dn1", Rack: "/a"}, {Name: "dn2", Rack: "/a"}, {Name: "dn3", Rack: "/b"},
		{Name: "dn4", Rack: "/b"}, {Name: "dn5", Rack: "/c"}, {Name: "dn6", Rack: "/c"},
	}})
}

func (l layout) names(nodes []int) string {
	var names []string
	for _, i := range nodes {
		names = append(names, l.nodes[i].Name)
	}
	return strings.Join(names, " ")
}

// The vectors come from a second implementation, in Python. Agents and loaders of different versions must
// agree on who holds a block, so they never change.
func TestHoldersGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		block int64
		want  string
	}{
		{"/photos/000.bin", 0, "dn1 dn4 dn3 dn5 dn2 dn6"},
		{"/photos/000.bin", 1, "dn2 dn3 dn4 dn1 dn5 dn6"},
		{"/photos/000.bin", 2, "dn6 dn2 dn1 dn5 dn3 dn4"},
		{"/photos/001.bin", 0, "dn6 dn4 dn3 dn5 dn2 dn1"},
		{"/f", 1000000, "dn3 dn6 dn5 dn2 dn4 dn1"},
	} {
		l := racks()
		for factor := 1; factor <= 8; factor++ {
			want := strings.Join(strings.Fields(c.want)[:min(factor, 6)], " ")
			if got := l.names(l.holders(c.name, c.block, factor)); got != want {
				t.Errorf("%s block %d factor %d: %s, want %s", c.name, c.block, factor, got, want)
			}
		}
	}
}

func drawLayout(t *rapid.T) layout {
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	var nodes []Node
	for i := range n {
		rack := rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "rack")
		nodes = append(nodes, Node{Name: "n" + string(rune('a'+i)), Rack: rack})
	}
	return newLayout(Topology{Nodes: nodes})
}

func TestHoldersRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		name := rapid.String().Draw(t, "name")
		block := rapid.Int64Range(0, 1<<40).Draw(t, "block")
		factor := rapid.IntRange(1, 15).Draw(t, "factor")
		got := l.holders(name, block, factor)
		if len(got) != min(factor, len(l.nodes)) {
			t.Fatalf("%d holders of %d nodes for factor %d", len(got), len(l.nodes), factor)
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(got))); len(sorted) != len(got) {
			t.Fatalf("a node twice: %v", got)
		}
		if more := l.holders(name, block, factor+1); !slices.Equal(more[:len(got)], got) {
			t.Fatalf("a higher factor moved replicas: %v, then %v", got, more)
		}
		count := map[string]int{}
		for _, n := range l.nodes {
			count[n.Rack]++
		}
		if len(got) > 1 && len(count) > 1 && l.nodes[got[0]].Rack == l.nodes[got[1]].Rack {
			t.Fatalf("the first two replicas share a rack: %s", l.names(got))
		}
		if len(got) > 2 && len(count) > 1 && count[l.nodes[got[1]].Rack] > 1 && l.nodes[got[2]].Rack != l.nodes[got[1]].Rack {
			t.Fatalf("the third replica is not beside the second: %s", l.names(got))
		}
	})
}

// Losing a node must not move the blocks of the others: it is what rendezvous hashing is for.
func TestHoldersStayWhenANodeLeaves(t *testing.T) {
	all := racks()
	fewer := newLayout(Topology{Nodes: all.nodes[:5]})
	for block := range int64(500) {
		before := all.names(all.holders("/f", block, 1))
		if after := fewer.names(fewer.holders("/f", block, 1)); before != "dn6" && before != after {
			t.Fatalf("block %d moved from %s to %s", block, before, after)
		}
	}
}

func TestHoldersAreEven(t *testing.T) {
	l := racks()
	first := make([]int, len(l.nodes))
	const blocks = 6000
	for block := range int64(blocks) {
		first[l.holders("/photos/000.bin", block, 3)[0]]++
	}
	for i, n := range first { // 1000 expected, standard deviation 29
		if n < 850 || n > 1150 {
			t.Errorf("%s holds %d first replicas of %d blocks on %d nodes", l.nodes[i].Name, n, blocks, len(first))
		}
	}
}

func TestNearest(t *testing.T) {
	l := racks()
	for _, c := range []struct{ reader, want string }{
		{"", "dn3 dn6 dn5 dn2"},
		{"dn5", "dn5 dn6 dn3 dn2"},
		{"dn1", "dn2 dn3 dn6 dn5"},
		{"dn4", "dn3 dn6 dn5 dn2"},
	} {
		var nodes []int
		for _, r := range l.nearest([]replica{{node: 2}, {node: 5}, {node: 4}, {node: 1}}, l.find(c.reader)) {
			nodes = append(nodes, r.node)
		}
		if got := l.names(nodes); got != c.want {
			t.Errorf("from %q: %s, want %s", c.reader, got, c.want)
		}
	}
}

func BenchmarkHolders(b *testing.B) {
	l := racks()
	b.ReportAllocs()
	for b.Loop() {
		l.holders("/photos/000.bin", 17, 3)
	}
}
