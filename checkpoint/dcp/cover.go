package dcp

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Covered checks that chunks make the whole tensor: none overlaps another, and none is missing. A tensor that is not covered
// matches ErrFormat.
func (t *Tensor) Covered() error {
	whole, ok := volume(t.Shape)
	if !ok {
		return formatf("%q: a tensor of shape %s has more elements than can be counted", clip(t.Name), clip(fmt.Sprint(t.Shape)))
	}
	total := uint64(0)
	boxes := make([]Chunk, 0, len(t.Chunks))
	for _, c := range t.Chunks {
		n, _ := volume(c.Sizes) // at most that of the tensor
		if total += n; n > 0 {
			boxes = append(boxes, c)
		}
		if total > whole {
			return t.overlap(boxes)
		}
	}
	if err := t.overlap(boxes); err != nil {
		return err
	}
	if total != whole {
		return formatf("%q: its %d chunks have %d of %d elements: a rank's part is missing", clip(t.Name), len(t.Chunks), total, whole)
	}
	return nil
}

// volume is the number of elements of a box.
func volume(sizes []int64) (uint64, bool) {
	if slices.Contains(sizes, 0) {
		return 0, true
	}
	n := uint64(1)
	for _, s := range sizes {
		hi, lo := bits.Mul64(n, uint64(s))
		if hi != 0 || lo > 1<<62 {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// maxCompared bounds the pairs of chunks of a tensor that are compared: 100,000 chunks in a grid of three dimensions are.
const maxCompared = 1 << 28

// overlap names two chunks that share elements. Along the dimension that is cut most often, only chunks that share a slice are
// compared.
func (t *Tensor) overlap(boxes []Chunk) error {
	along := t.mostCut(boxes)
	if along < 0 {
		if len(boxes) > 1 {
			return t.overlapError(boxes[0], boxes[1])
		}
		return nil
	}
	slices.SortFunc(boxes, func(a, b Chunk) int { return cmp.Compare(a.Offsets[along], b.Offsets[along]) })
	var open []Chunk
	compared := 0
	for _, c := range boxes {
		open = slices.DeleteFunc(open, func(o Chunk) bool { return o.Offsets[along]+o.Sizes[along] <= c.Offsets[along] })
		if compared += len(open); compared > maxCompared {
			return formatf("%q: %d chunks, cut in so many dimensions that it would take too long to compare them", clip(t.Name), len(t.Chunks))
		}
		for _, o := range open {
			if meet(o, c) {
				return t.overlapError(o, c)
			}
		}
		open = append(open, c)
	}
	return nil
}

// mostCut is the dimension in which chunks begin at the most different places; -1 of a scalar.
func (t *Tensor) mostCut(boxes []Chunk) int {
	best, most := -1, 0
	for d := range t.Shape {
		starts := map[int64]bool{}
		for _, b := range boxes {
			starts[b.Offsets[d]] = true
		}
		if best < 0 || len(starts) > most {
			best, most = d, len(starts)
		}
	}
	return best
}

func meet(a, b Chunk) bool {
	for d := range a.Offsets {
		if a.Offsets[d]+a.Sizes[d] <= b.Offsets[d] || b.Offsets[d]+b.Sizes[d] <= a.Offsets[d] {
			return false
		}
	}
	return true
}

func (t *Tensor) overlapError(a, b Chunk) error {
	return formatf("%q: its chunks at %s (%s) and at %s (%s) overlap", clip(t.Name), clip(fmt.Sprint(a.Offsets)), a.File, clip(fmt.Sprint(b.Offsets)), b.File)
}
