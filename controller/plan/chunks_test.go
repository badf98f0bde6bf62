package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestChunks: the list is what a slice would be, nothing of it moves, and memory goes back.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list chunks[*int]
		var model []*int
		for range rapid.IntRange(1, 20).Draw(t, "turns") {
			for range rapid.IntRange(0, 3*chunkLen).Draw(t, "more") {
				v := new(int)
				list.push(v)
				model = append(model, v)
			}
			var first **int
			if len(model) > 0 {
				first = list.at(0)
			}
			for range rapid.IntRange(0, len(model)).Draw(t, "fewer") {
				list.pop()
				model = model[:len(model)-1]
			}
			if got := slices.Collect(list.each()); !slices.Equal(got, model) {
				t.Fatalf("%d elements, want %d", len(got), len(model))
			}
			if len(model) > 0 && list.at(0) != first {
				t.Fatal("the first has moved")
			}
			if most := (list.len+chunkLen-1)/chunkLen + 1; len(list.all) > most {
				t.Fatalf("%d chunks for %d elements", len(list.all), list.len)
			}
		}
	})
}
