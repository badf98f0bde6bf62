package tokens_test

import (
	"fmt"

	"github.com/stepahead-io/stepahead/sampler/tokens"
)

// lengths are the lengths of sequences.
type lengths []int64

func (l lengths) Sequences() int64     { return int64(len(l)) }
func (l lengths) Length(i int64) int64 { return l[i] }

func ExampleNew() {
	order, err := tokens.New(lengths{5, 3, 8, 2}, tokens.Options{SequenceLength: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range order.Samples() {
		fmt.Println(order.Pieces(0, s, nil)) // sequence, first token, tokens
	}
	// Output:
	// [{0 0 5} {1 0 3} {2 0 1}]
	// [{2 0 8} {3 0 1}]
}

func ExampleNew_bestFit() {
	order, err := tokens.New(lengths{5, 3, 20, 2}, tokens.Options{SequenceLength: 8, Packing: tokens.BestFit})
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range order.Samples() {
		fmt.Println(order.Pieces(0, s, nil))
	}
	// Output:
	// [{2 0 8}]
	// [{2 8 8}]
	// [{0 0 5} {1 0 3}]
	// [{2 16 4} {3 0 2}]
}
