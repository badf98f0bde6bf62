package nodecache_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stepahead-io/stepahead/checkpoint/nodecache"
)

// Two ranks of one host want the same bytes: the second finds what the first has read.
func ExampleCache_Read() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	for rank := range 2 {
		cache, err := nodecache.Open(nodecache.Options{Dir: folder + "/shared"})
		if err != nil {
			panic(err)
		}
		defer cache.Close()
		metadata := make([]byte, 8)
		key := nodecache.Key{Store: "hdfs://prod", Name: "/ckpt/.metadata", Identity: "inode 77, 8 bytes", Len: 8}
		err = cache.Read(context.Background(), key, [][]byte{metadata}, func(context.Context) error {
			fmt.Println("rank", rank, "reads")
			copy(metadata, "metadata")
			return nil
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("rank %d has %q\n", rank, metadata)
	}
	// Output:
	// rank 0 reads
	// rank 0 has "metadata"
	// rank 1 has "metadata"
}
