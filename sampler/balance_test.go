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

func TestBucketsPermuteAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 20).Draw(t, "batch")
		steps := rapid.IntRange(1, 30).Draw(t, "steps")
		lengths := drawCosts(t, batch*steps)
		order, err := Buckets(lengths, batch, rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "window"))
		if err != nil {
			t.Fatal(err)
		}
		type span struct{ low, high uint64 }
		var spans []span
		for step := range steps {
			places := order[step*batch : (step+1)*batch]
			if !slices.IsSorted(places) {
				t.Fatalf("batch %v leaves the order", places)
			}
			s := span{low: 1 << 63}
			for _, p := range places {
				s.low, s.high = min(s.low, lengths[p]), max(s.high, lengths[p])
			}
			spans = append(spans, s)
		}
		slices.SortFunc(spans, func(a, b span) int { return int(a.low+a.high) - int(b.low+b.high) })
		for i := range spans[1:] {
			if spans[i].high > spans[i+1].low {
				t.Fatalf("the lengths of two batches overlap: %v", spans)
			}
		}
		slices.Sort(order)
		for i, p := range order {
			if int(p) != i {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// The order of buckets is a promise like that of samples.
func TestBucketsVector(t *testing.T) {
	order, err := Buckets([]uint64{5, 1, 9, 3, 7, 2, 8, 4}, 2, 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{3, 7, 2, 6, 0, 4, 1, 5}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for _, bad := range []int{0, 3} {
		if _, err := Buckets(make([]uint64, 8), bad, 0, 0); err == nil {
			t.Errorf("a batch of %d is taken", bad)
		}
	}
}
