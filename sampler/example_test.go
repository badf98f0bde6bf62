package sampler_test

import (
	"fmt"

	"github.com/stepahead-io/stepahead/sampler"
)

// A rank asks for its part of any step; nothing before that step is computed.
func Example() {
	spec, err := sampler.ParseSpec([]byte(`{"spec":1,"seed":7,"global_batch":8,"sources":[{"name":"","samples":1000000000000}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := sampler.New(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank := range 2 {
		for _, ref := range s.Rank(1_000_000_000, rank, 2, nil) {
			fmt.Println(ref.Position, ref.Sample)
		}
	}
	// Output:
	// 0 746608260420
	// 1 758575389612
	// 2 190228675010
	// 3 979560689532
	// 4 454823591639
	// 5 739075418386
	// 6 719607627811
	// 7 32733588211
}

// A mixture of two sources: 70 % and 30 % at every step, until books is given less. Books, with 20
// samples, is passed over four times at most.
func Example_mixture() {
	spec, err := sampler.ParseSpec([]byte(`{"spec":2, "seed":7, "global_batch":10, "sources":[
		{"name":"web", "samples":900, "weight":0.7}, {"name":"books", "samples":20, "weight":0.3, "max_epochs":4}],
		"changes":[{"step":20, "weights":{"books":0.1}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := sampler.New(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range []int64{1, 20, 28, 1000} {
		fmt.Println(step, s.Counts(step))
	}
	fmt.Println(*s.Explain().Sources[1].FirstRepeat)
	// Output:
	// 1 [7 3]
	// 20 [140 60]
	// 28 [210 70]
	// 1000 [9920 80]
	// 6
}

// Ranks that decode the same batch finish together when each gets its part of the cost.
func ExampleBalance() {
	costs := []uint64{100, 90, 80, 1, 1, 1, 1, 1, 1}
	even, err := sampler.Balance(costs, 3, sampler.EvenCount)
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank := range 3 {
		fmt.Println(rank, even.Rank(rank))
	}
	// Output:
	// 0 [0 7 8]
	// 1 [1 5 6]
	// 2 [2 3 4]
}

// A state names what differs when it does not fit.
func ExampleState_Check() {
	spec := sampler.Spec{Version: sampler.SpecVersion, Seed: 7, GlobalBatch: 8, Sources: []sampler.Source{{Samples: 1000}}}
	saved, err := sampler.New(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	state := saved.State([32]byte{}, 300, sampler.Policy{})

	spec.Seed = 8
	loaded, err := sampler.New(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(state.Epoch, state.Step)
	fmt.Println(state.Check(loaded, [32]byte{}))
	// Output:
	// 2 300
	// sampler.Check: the state belongs to another run: seed: 7 in the state, 8 here: load the state that fits, or start without one
}
