package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
)

// openPlan gives each picture its own shape: kindGood's is 7x9, kindShape's 8x9 (width x height).
const openPlan = `{"op":"DecodeImage"},{"op":"RandomHorizontalFlip"}`

func TestShapesMustAgree(t *testing.T) {
	sizes := func(i int) (uint32, uint32) {
		if i == 3 {
			return 8, 9
		}
		return 7, 9
	}
	open := func(k *kit) *Loader {
		o := k.options(t)
		o.Plans["image"], o.Shuffle = plan(t, openPlan), sampler.ShuffleNone
		return mustOpen(t, o)
	}
	l := open(newKit(t, 16, 16, sizes)) // the index tells
	_, err := l.Next(t.Context())
	var shape *ShapeError
	if !errors.As(err, &shape) || shape.Sample != 3 || shape.Other != 0 || fmt.Sprint(shape.Shape, shape.OtherIs) != "[3 9 8] [3 9 7]" {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "CenterCrop") {
		t.Fatalf("no advice in %v", err)
	}
	l = open(newKit(t, 16, 16, nil)) // nothing tells: the first is decoded
	b, err := l.Next(t.Context())
	must(t, err)
	if fmt.Sprint(b.Fields[0].Shape) != "[8 3 9 7]" {
		t.Fatalf("shape %v", b.Fields[0].Shape)
	}
	b.Release()
	l = open(newKit(t, 16, 16, nil, with(3, kindShape)))
	if _, err = l.Next(t.Context()); !errors.As(err, &shape) || shape.Sample != 3 {
		t.Fatalf("only decoding tells: %v", err)
	}
}

// A bad sample has no shape that counts, whatever its header says: a batch has that of the first sample delivered, be it
// a substitute, and samples are replaced as in batches of fixed shapes, wherever the bad ones lie.
func TestBadSamplesOfOpenShapes(t *testing.T) {
	const samples = 24
	bad := func(ids ...int) []func(int, []byte) {
		changes := []func(int, []byte){func(_ int, part []byte) { part[0] = kindShape }}
		for _, id := range ids {
			changes = append(changes, with(id, kindBad))
		}
		return changes
	}
	nothing := func(int) (uint32, uint32) { return 0, 0 }
	for _, c := range []struct {
		name  string
		bad   []int
		sizes func(i int, bad bool) (uint32, uint32)
	}{
		{"nothing tells", []int{0, 1, 2, 3, 4, 5, 6, 7, 11}, func(int, bool) (uint32, uint32) { return nothing(0) }},
		{"the index tells of good ones", []int{0, 1, 2, 3, 4, 5, 6, 7, 11}, func(_ int, bad bool) (uint32, uint32) {
			if bad {
				return nothing(0)
			}
			return 8, 9
		}},
		{"a bad one's header tells another size", []int{0, 10}, func(_ int, bad bool) (uint32, uint32) {
			if bad {
				return 7, 9
			}
			return 8, 9
		}},
		{"only bad ones' headers tell", []int{0, 10}, func(_ int, bad bool) (uint32, uint32) {
			if bad {
				return 7, 9
			}
			return nothing(0)
		}},
		{"all of a batch have other headers", []int{0, 1, 2, 3, 4, 5, 6, 7}, func(_ int, bad bool) (uint32, uint32) {
			if bad {
				return 100, 90
			}
			return 8, 9
		}},
	} {
		for _, world := range []int{1, 4, 8} {
			t.Run(fmt.Sprintf("%s, %d ranks", c.name, world), func(t *testing.T) {
				k := newKit(t, samples, samples, func(i int) (uint32, uint32) { return c.sizes(i, slices.Contains(c.bad, i)) }, bad(c.bad...)...)
				var ids []uint64
				for _, id := range c.bad {
					ids = append(ids, uint64(id))
				}
				for rank := range world {
					o := k.options(t)
					o.Plans["image"], o.Shuffle, o.World, o.Rank, o.Epochs = plan(t, openPlan), sampler.ShuffleNone, world, rank, 1
					l := mustOpen(t, o)
					want := wantIDs(l, ids...)
					for step := range l.StepsPerEpoch() {
						b, err := l.Next(t.Context())
						must(t, err)
						if got := fmt.Sprint(b.Fields[0].Shape[1:]); got != "[3 9 8]" {
							t.Fatalf("step %d: shape %s", step, got)
						}
						equal(t, "samples", [][]uint64{delivered(b)}, want[step:step+1])
						b.Release()
					}
					if mapped := l.Stats().Mappings; mapped > 0 {
						t.Fatalf("%d mappings are in use after the last batch", mapped)
					}
				}
			})
		}
	}
}

func delivered(b *Batch) []uint64 {
	ids := make([]uint64, len(b.Samples))
	for i, ref := range b.Samples {
		ids[i] = ref.Sample
	}
	return ids
}

func TestOpenShapesOfNothingButBadSamples(t *testing.T) {
	all := func(_ int, part []byte) { part[0] = kindBad }
	for policy, text := range map[string]string{
		sampler.OnBadSubstitute: "12 samples in a row are bad, with the keys \"photos/00000.jpg\", ",
		sampler.OnBadRaise:      "on_bad=\"substitute\"",
	} {
		o := newKit(t, 12, 12, nil, all).options(t)
		o.Plans["image"], o.Shuffle, o.OnBad = plan(t, openPlan), sampler.ShuffleNone, policy
		_, err := mustOpen(t, o).Next(t.Context())
		var bad *BadSampleError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), text) || bad.Key == "" {
			t.Errorf("%s: %v, want a bad sample and %q", policy, err, text)
		}
	}
}

// A substitute of another shape than the good samples have cannot be stacked with them, on whatever rank.
func TestSubstituteOfAnotherShape(t *testing.T) {
	open := func(bad uint64) *Loader {
		o := newKit(t, 16, 16, nil, with(int(bad), kindBad), func(i int, part []byte) {
			if i >= 8 {
				part[0] = kindShape
			}
		}).options(t)
		o.Plans["image"], o.Shuffle = plan(t, openPlan), sampler.ShuffleNone
		return mustOpen(t, o)
	}
	first := open(0)
	for bad := range uint64(8) {
		substitute := wantIDs(first, bad)[0][bad]
		if substitute < 8 {
			continue
		}
		_, err := open(bad).Next(t.Context())
		var shape *ShapeError
		if !errors.As(err, &shape) || max(shape.Sample, shape.Other) != substitute {
			t.Fatalf("sample %d, substitute %d: got %v", bad, substitute, err)
		}
		return
	}
	t.Fatal("no substitute comes from the other half")
}

// Too small a picture stops the run before anything is decoded only if it is not bad.
func TestTooSmallByTheIndex(t *testing.T) {
	small := func(i int) (uint32, uint32) {
		if i == 3 {
			return 7, 2
		}
		return 7, 9
	}
	open := func(kind byte) *Loader {
		o := newKit(t, 16, 16, small, with(3, kind)).options(t)
		o.Plans["image"], o.Shuffle = plan(t, `{"op":"DecodeImage"},{"op":"GaussianBlur","kernel_size":[9,9]}`), sampler.ShuffleNone
		return mustOpen(t, o)
	}
	l := open(kindBad)
	b, err := l.Next(t.Context())
	must(t, err)
	equal(t, "samples", [][]uint64{delivered(b)}, wantIDs(l, 3)[:1])
	b.Release()
	_, err = open(kindSmall).Next(t.Context())
	if err == nil || !strings.Contains(err.Error(), `sample 3 (key "photos/00003.jpg")`) || !strings.Contains(err.Error(), "on_bad does not apply") {
		t.Fatalf("got %v", err)
	}
}
