package loader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/loader/loadertest"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// One loop is the rest of an epoch. Without media fields no worker program is needed; with them,
// Plans says what becomes of the pictures.
func Example() {
	photos, remove := loadertest.Photographs()
	defer remove()
	ctx := context.Background()

	l, err := loader.Open(ctx, loader.Options{
		Store: photos, Dir: "/photos", GlobalBatch: 2, Seed: 7, Fields: []string{"label"},
	})
	check(err)
	defer l.Close()
	for {
		batch, err := l.Next(ctx)
		if err == io.EOF {
			break
		}
		check(err)
		label := batch.Fields[0]
		fmt.Printf("step %d: %d labels of dtype %s\n", batch.Step, len(label.Bytes)/8, label.Dtype)
		batch.Release()
	}
	// Output:
	// step 0: 2 labels of dtype int64
	// step 1: 2 labels of dtype int64
	// step 2: 2 labels of dtype int64
}

// A state taken by any rank continues the run on any number of ranks.
func ExampleLoader_Load() {
	photos, remove := loadertest.Photographs()
	defer remove()
	ctx := context.Background()
	o := loader.Options{Store: photos, Dir: "/photos", GlobalBatch: 2, Shuffle: "none", Fields: []string{"label"}}

	one, err := loader.Open(ctx, o)
	check(err)
	defer one.Close()
	batch, err := one.Next(ctx)
	check(err)
	batch.Release()

	o.World = 2 // the same global batch, now on two ranks
	for o.Rank = range 2 {
		l, err := loader.Open(ctx, o)
		check(err)
		check(l.Load(one.State()))
		batch, err := l.Next(ctx)
		check(err)
		fmt.Printf("rank %d continues at step %d with sample %d of class %d\n",
			o.Rank, batch.Step, batch.Samples[0].Sample, binary.LittleEndian.Uint64(batch.Fields[0].Bytes))
		batch.Release()
		check(l.Close())
	}
	// Output:
	// rank 0 continues at step 1 with sample 2 of class 0
	// rank 1 continues at step 1 with sample 3 of class 1
}
