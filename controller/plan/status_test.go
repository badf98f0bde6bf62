package plan

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBest: the first of many are those that sorting all would give.
func TestBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(t, "all")
		b := best[int]{most: rapid.IntRange(0, 20).Draw(t, "most"), compare: cmp.Compare[int]}
		for _, x := range all {
			b.add(x)
		}
		got := slices.Clone(b.sorted())
		slices.Sort(all)
		if want := all[:min(b.most, len(all))]; !slices.Equal(got, want) || b.n != len(all) {
			t.Errorf("%v of %d, want %v of %d", got, b.n, want, len(all))
		}
	})
}
