package megatron

import (
	"slices"
	"testing"
)

// Lengths of two sources, and what megatron-core's GPTDataset (seed 1234, sequences of 32, 60 samples
// asked for, the split 100,0,0) gives for them: the row of sample i, and where its first and last token lie.
var (
	vectorA = lengthList{
		43, 28, 22, 42, 19, 29, 28, 38, 48, 33, 38, 15, 30, 13, 39, 34, 52, 38, 6, 16,
		16, 18, 49, 52, 44, 7, 57, 11, 34, 39, 37, 6, 60, 42, 6, 31, 49, 18, 59, 23,
	}
	vectorB = lengthList{46, 8, 21, 52, 27, 46, 39, 46, 24, 49, 27, 37, 25, 23, 33, 28, 6, 59, 23, 10, 28, 33, 23, 47, 9}

	samplesA = []vector{
		{16, 27, 8, 35, 23}, {2, 39, 16, 14, 25}, {24, 22, 46, 33, 29}, {6, 17, 13, 13, 7}, {13, 6, 7, 2, 11},
		{11, 3, 23, 10, 13}, {8, 0, 8, 0, 40}, {10, 7, 29, 3, 23}, {29, 11, 3, 30, 20}, {27, 37, 17, 32, 31},
		{15, 29, 15, 27, 8}, {22, 36, 31, 22, 14}, {5, 31, 3, 17, 13}, {12, 10, 13, 6, 7}, {3, 14, 25, 1, 18},
		{36, 24, 32, 12, 20}, {31, 26, 15, 26, 47}, {19, 5, 16, 16, 19}, {30, 30, 20, 26, 15}, {9, 0, 40, 7, 29},
	}
	samplesB = []vector{
		{10, 10, 15, 22, 20}, {45, 15, 20, 12, 15}, {5, 11, 35, 4, 6}, {42, 5, 31, 23, 3}, {35, 9, 47, 5, 24}, {24, 10, 18, 14, 23},
	}
)

type vector struct {
	row                                  uint32
	first, firstOffset, last, lastOffset int64
}

func TestGPTIsMegatrons(t *testing.T) {
	for _, c := range []struct {
		lengths lengthList
		want    []vector
	}{{vectorA, samplesA}, {vectorB, samplesB}} {
		g, err := NewGPT(t.Context(), c.lengths, GPTOptions{Count: c.lengths.Sequences(), SequenceLength: 32, Samples: 60, Seed: 1234})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			pieces := piecesOf(t, g, int64(i))
			first, last := pieces[0], pieces[len(pieces)-1]
			got := vector{g.indexes.Load().shuffle[i], first.Sequence, first.Off, last.Sequence, last.Off + last.Len - 1}
			if got != want {
				t.Errorf("sample %d is %+v, want %+v", i, got, want)
			}
		}
	}
}

// The turns of megatron-core's BlendedDataset with the weights 0.7 and 0.3.
func TestBlendIsMegatrons(t *testing.T) {
	b := newBlend([]float64{0.7, 0.3}, 50)
	want := []turn{
		{0, 0}, {1, 0}, {0, 1}, {0, 2}, {1, 1}, {0, 3}, {0, 4}, {1, 2}, {0, 5}, {0, 6},
		{0, 7}, {1, 3}, {0, 8}, {0, 9}, {1, 4}, {0, 10}, {0, 11}, {1, 5}, {0, 12}, {0, 13},
	}
	for i, w := range want {
		if got := turnOf(t, b, int64(i)); got != w {
			t.Errorf("sample %d is %v, want %v", i, got, w)
		}
	}
	for sizes, want := range map[[3]int64][]uint16{{3, 2, 1}: {0, 1, 2, 0, 1, 0}} {
		b := newExhaustiveBlend(sizes[:])
		var got []uint16
		for i := range b.size {
			got = append(got, turnOf(t, b, i).source)
		}
		if !slices.Equal(got, want) {
			t.Errorf("sizes %v: %v, want %v", sizes, got, want)
		}
	}
	tenths := newBlend([]float64{.5, .3, .2}, 12)
	for i, want := range []uint16{0, 1, 2, 0, 1, 0, 2, 0, 1, 0, 0, 1} {
		if got := turnOf(t, tenths, int64(i)).source; got != want {
			t.Errorf("weights .5 .3 .2: sample %d is of source %d, want %d", i, got, want)
		}
	}
}

// Megatron-core's document and shuffle index of the lengths 5, 3, 8, 2 with sequences of 4.
func TestIndexesAreMegatrons(t *testing.T) {
	for _, c := range []struct {
		samples            int64
		documents, shuffle []uint32
	}{
		{OneEpoch, []uint32{0, 1, 2, 3}, []uint32{1, 2, 3, 0}},
		{6, []uint32{0, 1, 2, 3, 1, 2, 3, 0}, []uint32{0, 2, 3, 1, 7, 4, 6, 5}},
		{10, []uint32{2, 1, 2, 0, 0, 1, 3, 3, 0, 2, 1, 3}, []uint32{7, 5, 6, 0, 4, 3, 2, 1, 9, 12, 11, 8, 10}},
	} {
		g, err := NewGPT(t.Context(), lengthList{5, 3, 8, 2}, GPTOptions{Count: 4, SequenceLength: 4, Samples: c.samples, Seed: 1234})
		if err != nil {
			t.Fatal(err)
		}
		x, err := g.prepared(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x.stream.documents, c.documents) || !slices.Equal(x.shuffle, c.shuffle) {
			t.Errorf("%d samples: documents %v, shuffle %v; want %v, %v", c.samples, x.stream.documents, x.shuffle, c.documents, c.shuffle)
		}
	}
}
