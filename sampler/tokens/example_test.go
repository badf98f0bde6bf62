package tokens_test

import (
	"context"
	"fmt"

	"github.com/stepahead-io/stepahead/sampler/tokens"
)

// lengths are the lengths of sequences.
type lengths []int64

func (l lengths) Sequences() int64     { return int64(len(l)) }
func (l lengths) Length(i int64) int64 { return l[i] }

func ExampleNew() {
	order, err := tokens.New(context.Background(), lengths{5, 3, 8, 2}, tokens.Options{SequenceLength: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range order.Samples() {
		pieces, err := order.Pieces(context.Background(), 0, s, nil)
		fmt.Println(pieces, err) // sequence, first token, tokens
	}
	// Output:
	// [{0 0 5} {1 0 3} {2 0 1}] <nil>
	// [{2 0 8} {3 0 1}] <nil>
}

func ExampleNew_bestFit() {
	order, err := tokens.New(context.Background(), lengths{5, 3, 20, 2}, tokens.Options{SequenceLength: 8, Packing: tokens.BestFit})
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range order.Samples() {
		pieces, err := order.Pieces(context.Background(), 0, s, nil)
		fmt.Println(pieces, err)
	}
	// Output:
	// [{2 0 8}] <nil>
	// [{2 8 8}] <nil>
	// [{0 0 5} {1 0 3}] <nil>
	// [{2 16 4} {3 0 2}] <nil>
}
