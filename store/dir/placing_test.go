package dir

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Choosing replicas one by one gives what holders gives at once.
func TestMoreIsHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		name, block, factor := rapid.String().Draw(t, "name"), rapid.Int64Range(0, 1<<40).Draw(t, "block"), rapid.IntRange(1, 15).Draw(t, "factor")
		var got []int
		for _, r := range l.more(nil, name, block, make([]string, factor), nil, func(int) bool { return true }) {
			got = append(got, r.node)
		}
		if want := l.holders(name, block, factor); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// What is raised under a policy of other types goes again, whatever the first replicas were.
func TestRaisedTypesGoFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		for i := range l.nodes {
			l.nodes[i].Types = []string{typeArchive, typeDisk}
			l.nodes[i].FreeBytes = rapid.Int64Range(0, 5).Draw(t, "free")
		}
		first := l.usual("/f", 0, rapid.IntRange(1, 5).Draw(t, "factor"))
		cold, hot := storagePolicies["COLD"], storagePolicies["HOT"]
		n := rapid.IntRange(len(first), 15).Draw(t, "raised")
		raised := l.more(first, "/f", 0, cold.missing(n, storagesOf(first)), cold.fallback, func(int) bool { return true })
		if len(raised) != min(n, len(l.nodes)) {
			t.Fatalf("%d replicas, want %d of %d nodes", len(raised), n, len(l.nodes))
		}
		lowered := l.fewer(raised, len(first), hot.excess(len(first), storagesOf(raised)))
		if !slices.Equal(lowered, first) {
			t.Fatalf("%v, want %v", lowered, first)
		}
	})
}
