package sampler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawCosts(t *rapid.T, n int) []uint64 {
	costs := make([]uint64, n)
	for i := range costs {
		costs[i] = rapid.Uint64Range(0, 1<<rapid.IntRange(0, 20).Draw(t, "bits")).Draw(t, "cost")
	}
	return costs
}

func sumOf(costs []uint64, places []int32) (sum uint64) {
	for _, p := range places {
		sum += max(costs[p], 1)
	}
	return sum
}

func TestBalanceGivesEveryPlaceOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 12).Draw(t, "world")
		even := rapid.SampledFrom([]string{EvenCount, EvenCost}).Draw(t, "even")
		costs := drawCosts(t, world*rapid.IntRange(1, 20).Draw(t, "each"))
		a, err := Balance(costs, world, even)
		if err != nil {
			t.Fatal(err)
		}
		var all []int32
		var total, worst, top uint64
		for r := range world {
			places := a.Rank(r)
			if even == EvenCount && len(places) != len(costs)/world || len(places) == 0 || !slices.IsSorted(places) {
				t.Fatalf("rank %d gets %v of %d", r, places, len(costs))
			}
			all = append(all, places...)
			total += sumOf(costs, places)
			worst = max(worst, sumOf(costs, places))
		}
		slices.Sort(all)
		for i, p := range all {
			if int(p) != i {
				t.Fatalf("places %v", all)
			}
			top = max(top, costs[p])
		}
		// No rank is above the mean by more than one sample: what the greedy rule guarantees.
		if even == EvenCost && worst > total/uint64(world)+max(top, 1) {
			t.Fatalf("a rank costs %d, the mean is %d, the costliest sample %d", worst, total/uint64(world), top)
		}
	})
}

func TestBalanceMakesTheSlowestRankFaster(t *testing.T) {
	costs := []uint64{100, 90, 80, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	for even, want := range map[string]uint64{EvenCount: 103, EvenCost: 100} {
		a, err := Balance(costs, 3, even)
		if err != nil {
			t.Fatal(err)
		}
		worst := uint64(0)
		for r := range 3 {
			worst = max(worst, sumOf(costs, a.Rank(r)))
		}
		if worst != want {
			t.Errorf("%s: the slowest rank costs %d, want %d", even, worst, want)
		}
	}
	for _, bad := range []struct {
		world int
		even  string
	}{{0, EvenCost}, {13, EvenCost}, {5, EvenCount}, {3, "luck"}} {
		if _, err := Balance(costs, bad.world, bad.even); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
