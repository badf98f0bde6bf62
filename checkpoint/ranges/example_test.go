package ranges_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stepahead-io/stepahead/checkpoint/ranges"
	"github.com/stepahead-io/stepahead/store/dir"
)

// Three tensors of one file, of which two lie close together.
func ExampleRead() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	content := make([]byte, 40<<20)
	copy(content[1000:], "bias")
	copy(content[9000:], "norm")
	copy(content[30<<20:], "head")
	if err := os.WriteFile(folder+"/shard", content, 0o600); err != nil {
		panic(err)
	}
	st, _, err := dir.Open(folder, dir.Options{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx := context.Background()
	f, err := st.Open(ctx, "/shard")
	if err != nil {
		panic(err)
	}
	defer f.Close()

	tensors := make([]byte, 12)
	wants := []ranges.Want{
		{Off: 30 << 20, Dst: tensors[8:]},
		{Off: 1000, Dst: tensors[:4]},
		{Off: 9000, Dst: tensors[4:8]},
	}
	stats, err := ranges.Read(ctx, []ranges.File{{Name: "/shard", File: f}}, wants, ranges.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s with %d reads, %d small ones avoided\n", tensors, stats.Reads, stats.SmallAvoided)
	// Output: biasnormhead with 2 reads, 1 small ones avoided
}
