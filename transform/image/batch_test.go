package image

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"pgregory.net/rapid"
)

// Whatever is in a batch, every image comes out as it would alone: broken ones, refused ones, results too large for their
// room, plans of one stage and of many.
func TestBatchEqualsOneByOne(t *testing.T) {
	plans := []*transform.Plan{
		mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"}]}`),
		mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[24,40]},{"op":"RandomHorizontalFlip"}]}`),
		mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"Resize","size":[60,50]},{"op":"RandomHorizontalFlip","p":1.0},{"op":"Resize","size":[9,11]}]}`),
		mustPlan(t, `{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"CenterCrop","size":[12,90]},{"op":"Resize","size":[31,30]},{"op":"CenterCrop","size":[40,20]},{"op":"Resize","size":[17]}]}`),
	}
	for _, text := range []string{
		`{"op":"DecodeImage"},{"op":"ColorJitter","brightness":0.5,"hue":0.1},{"op":"RandomResizedCrop","size":[24,40],"interpolation":"lanczos"},{"op":"Grayscale"}`,
		`{"op":"DecodeImage","orientation":"apply","jpeg":"dct-scaled"},{"op":"RandomResizedCrop","size":[8,9]},{"op":"GaussianBlur","kernel_size":5},{"op":"RandAugment"}`,
		`{"op":"DecodeImage","truncated":"fill"},{"op":"Pad","padding":7,"padding_mode":"reflect"},{"op":"Resize","size":[20,31],"interpolation":"nearest"}`,
	} {
		plans = append(plans, mustPlan(t, `{"plan":1,"ops":[`+text+`]}`))
	}
	names, err := filepath.Glob("vectors/*")
	if err != nil || len(names) == 0 {
		t.Fatal("no vectors", err)
	}
	var inputs [][]byte
	for _, name := range names {
		in, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, in, in[:len(in)*2/3])
	}
	inputs = append(inputs, nil, []byte("<html>"), pngHeader(1<<30, 1<<30))
	rapid.Check(t, func(t *rapid.T) {
		items := make([]Item, rapid.IntRange(0, 40).Draw(t, "items"))
		for i := range items {
			items[i] = Item{
				Plan: rapid.SampledFrom(plans).Draw(t, "plan"), Key: transform.Key{Seed: 3, Sample: uint64(i)},
				In:  rapid.SampledFrom(inputs).Draw(t, "in"),
				Out: make([]byte, rapid.SampledFrom([]int{0, 3000, 10000}).Draw(t, "room")),
			}
		}
		results := make([]Result, len(items))
		RunBatch(items, Limits{}, results)
		for i, item := range items {
			out := make([]byte, len(item.Out))
			spec, err := Run(item.Plan, item.Key, item.In, out, Limits{})
			if fmt.Sprint(err) != fmt.Sprint(results[i].Err) || spec.Dtype != results[i].Spec.Dtype || !slices.Equal(spec.Shape, results[i].Spec.Shape) {
				t.Fatalf("item %d: %+v; alone %+v, %v", i, results[i], spec, err)
			}
			if n := spec.Bytes(); err == nil && !bytes.Equal(out[:n], item.Out[:n]) {
				t.Fatalf("item %d: other pixels than alone", i)
			}
		}
	})
}

func TestBatchRefusesBadLimits(t *testing.T) {
	results := make([]Result, 2)
	RunBatch(make([]Item, 2), Limits{MaxScans: -1}, results)
	for _, r := range results {
		if r.Err == nil {
			t.Error("negative limits are taken")
		}
	}
}
