package sampler

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// What Balance makes even among the ranks.
const (
	EvenCount = "count" // every rank gets the same number of samples, and the costs are as even as that allows
	EvenCost  = "cost"  // the costs are even, and the numbers of samples may differ
)

// maxCost is what a larger cost counts as, so that no sum overflows.
const maxCost = 1 << 40

// An Assignment says which places of a global batch each rank takes.
type Assignment struct {
	places []int32 // rank by rank, rising within each
	starts []int32 // where each rank's begin, and the end
}

// Rank returns the places that rank takes, in rising order. They belong to the Assignment.
func (a Assignment) Rank(rank int) []int32 {
	return a.places[a.starts[rank]:a.starts[rank+1]:a.starts[rank+1]]
}

// Balance deals the places of a global batch to world ranks so that the ranks' predicted costs are
// even; costs has one cost a place, in any unit, the same on every rank. It is a pure function, so
// every rank computes the same assignment. With EvenCount, world must divide the number of places.
//
// It takes the places from the costliest on and gives each to the rank with the least cost so far
// that has room (longest processing time first, Graham 1969): with EvenCost no rank costs more than
// 4/3 of the best that is possible. Equal costs go by place, equal ranks by number.
func Balance(costs []uint64, world int, even string) (Assignment, error) {
	room := len(costs)
	switch {
	case len(costs) > maxGlobalBatch:
		return Assignment{}, fmt.Errorf("sampler.Balance: %d places: a global batch has at most %d", len(costs), maxGlobalBatch)
	case world < 1 || world > len(costs):
		return Assignment{}, fmt.Errorf("sampler.Balance: %d ranks for %d places: every rank needs one", world, len(costs))
	case even == EvenCount && len(costs)%world != 0:
		return Assignment{}, fmt.Errorf("sampler.Balance: %d places for %d ranks: not the same number for each", len(costs), world)
	case even == EvenCount:
		room = len(costs) / world
	case even != EvenCost:
		return Assignment{}, fmt.Errorf("sampler.Balance: %w", checkValue("balance", even, []string{EvenCount, EvenCost}))
	}
	return assign(costs, rankOf(costs, world, room), world), nil
}

// rankOf returns the rank of every place.
func rankOf(costs []uint64, world, room int) []int32 {
	order := make([]int32, len(costs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(costs[b], costs[a]) })
	loads := make(loads, world)
	for r := range loads {
		loads[r].rank = int32(r) // all empty: a heap already
	}
	ranks := make([]int32, len(costs))
	for _, place := range order {
		least := &loads[0]
		ranks[place] = least.rank
		least.cost += min(max(costs[place], 1), maxCost)
		if least.count++; least.count == room {
			heap.Pop(&loads)
		} else {
			heap.Fix(&loads, 0)
		}
	}
	return ranks
}

// assign lists the places rank by rank.
func assign(costs []uint64, ranks []int32, world int) Assignment {
	a := Assignment{places: make([]int32, len(costs)), starts: make([]int32, world+1)}
	for _, r := range ranks {
		a.starts[r+1]++
	}
	for r := range world {
		a.starts[r+1] += a.starts[r]
	}
	next := slices.Clone(a.starts[:world])
	for place, r := range ranks {
		a.places[next[r]] = int32(place)
		next[r]++
	}
	return a
}

// loads is a heap of ranks, the one with the least cost first.
type loads []load

type load struct {
	cost  uint64
	rank  int32
	count int
}

func (l loads) Len() int      { return len(l) }
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l loads) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].cost, l[j].cost), cmp.Compare(l[i].rank, l[j].rank)) < 0
}
func (l *loads) Push(x any) { *l = append(*l, x.(load)) }
func (l *loads) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}
