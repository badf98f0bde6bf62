package megatron_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/megatron"
)

// A goldenCase is one line of testdata/golden.json, which megatron-core itself made (testdata/golden.py).
type goldenCase struct {
	Name           string
	Seed           uint32
	SequenceLength int64 `json:"sequence_length"`
	ExtraToken     bool  `json:"extra_token"`
	Surplus        float64
	Split          string
	Weights        []float64
	Sources        []goldenSource
	Samples        [3]*int64
	PerSplit       []*goldenBlend `json:"per_split"`
	Splits         map[string]*goldenSplit
}

type goldenSource struct {
	Sequences, Limit, Salt, Zeros int64
}

type goldenBlend struct {
	Sources []int
	Weights []float64
}

type goldenSplit struct {
	Samples int64
	SHA256  string
	Shown   [][]int64 // the first and last samples: source and pieces, shortened in the middle
}

type lengthList []int64

func (l lengthList) Sequences() int64     { return int64(len(l)) }
func (l lengthList) Length(i int64) int64 { return l[i] }

// lengths are those that golden.py gave the source.
func (s goldenSource) lengths() lengthList {
	out := make(lengthList, s.Sequences)
	for i := range out {
		mixed := uint32(uint64(i+1)*2654435761 + uint64(s.Salt)*40503)
		mixed ^= mixed >> 15
		if s.Zeros == 0 || int64(i)%s.Zeros != 0 {
			out[i] = 1 + int64(mixed)%s.Limit
		}
	}
	return out
}

func (c goldenCase) options() megatron.Options {
	o := megatron.Options{
		Seed: c.Seed, SequenceLength: c.SequenceLength, Split: c.Split, Surplus: c.Surplus, NoExtraToken: !c.ExtraToken,
	}
	all := make([]sampler.Lengths, len(c.Sources))
	for i, s := range c.Sources {
		all[i] = s.lengths()
	}
	for i, n := range c.Samples {
		o.Samples[i] = megatron.OneEpoch
		if n != nil {
			o.Samples[i] = *n
		}
	}
	if c.PerSplit == nil {
		o.Blend = &megatron.Blend{Sources: all, Weights: c.Weights}
	}
	for i, b := range c.PerSplit {
		if b != nil {
			o.PerSplit[i] = &megatron.Blend{Weights: b.Weights}
			for _, s := range b.Sources {
				o.PerSplit[i].Sources = append(o.PerSplit[i].Sources, all[s])
			}
		}
	}
	return o
}

func TestOrderIsMegatrons(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			built, err := megatron.Build(t.Context(), c.options())
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range built {
				compare(t, megatron.Split(i).String(), d, c.Splits[megatron.Split(i).String()])
			}
		})
	}
}

func compare(t *testing.T, split string, got *megatron.Dataset, want *goldenSplit) {
	t.Helper()
	if got == nil || want == nil {
		if (got == nil) != (want == nil) {
			t.Errorf("%s: built %v, Megatron's %v", split, got, want)
		}
		return
	}
	if got.Len() != want.Samples {
		t.Errorf("%s: %d samples, want %d", split, got.Len(), want.Samples)
		return
	}
	sum := sha256.New()
	var shown [][]int64
	for i := range got.Len() {
		source, pieces, err := got.Sample(t.Context(), i, nil)
		if err != nil {
			t.Fatal(err)
		}
		values := flat(source, pieces)
		digested := slices.Concat([]int64{values[0], int64(len(values) / 3)}, values[1:])
		if err := binary.Write(sum, binary.LittleEndian, digested); err != nil {
			t.Fatal(err)
		}
		if i < 3 || i >= got.Len()-3 {
			if len(values) > 16 {
				values = slices.Concat(values[:7], values[len(values)-6:])
			}
			shown = append(shown, values)
		}
	}
	if digest := hex.EncodeToString(sum.Sum(nil)); digest != want.SHA256 {
		t.Errorf("%s: order %s, want %s\nends %v\nwant %v", split, digest, want.SHA256, shown, want.Shown)
	}
}

func flat(source int, pieces []sampler.Piece) []int64 {
	values := []int64{int64(source)}
	for _, p := range pieces {
		values = append(values, p.Sequence, p.Off, p.Len)
	}
	return values
}
