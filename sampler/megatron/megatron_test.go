package megatron

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/sampler"
)

type lengthList []int64

func (l lengthList) Sequences() int64     { return int64(len(l)) }
func (l lengthList) Length(i int64) int64 { return l[i] }

// withOffsets is the same with the sums that a mapped index has.
type withOffsets struct{ lengthList }

func (l withOffsets) Offset(i int64) int64 {
	var sum int64
	for _, n := range l.lengthList[:i] {
		sum += n
	}
	return sum
}

func drawLengths(t *rapid.T, label string) lengthList {
	l := lengthList(rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 90)), 1, 60).Draw(t, label))
	if slices.Max(l) == 0 {
		l[0] = 1
	}
	return l
}

// The algorithm of GPTDataset written down once more, array by array, after Megatron-core's text.
func referenceGPT(lengths lengthList, o GPTOptions) [][]sampler.Piece {
	ids := make([]uint32, o.Count)
	var tokens int64
	for i := range ids {
		ids[i] = uint32(o.First) + uint32(i)
		tokens += lengths[ids[i]]
	}
	x, length := o.extra(), o.SequenceLength
	epochs := int64(1)
	for o.Samples > 0 && epochs*tokens < o.Samples*length+x {
		epochs++
	}
	before := ((epochs-1)*tokens - x) / length
	separate := epochs > 1 && o.Samples-before < int64(0.8*float64((tokens-x)/length))
	random := newTwister(o.Seed)
	shuffled := func(of []uint32, times int64) []uint32 {
		all := slices.Repeat(of, int(times))
		if err := random.shuffle(context.Background(), all); err != nil {
			panic(err)
		}
		return all
	}
	var documents []uint32
	if separate {
		documents = append(shuffled(ids, epochs-1), shuffled(ids, 1)...)
	} else {
		documents = shuffled(ids, epochs)
	}
	var stream []sampler.Piece // one token each
	for _, d := range documents {
		for off := range lengths[d] {
			stream = append(stream, sampler.Piece{Sequence: int64(d), Off: off, Len: 1})
		}
	}
	rows := (epochs*tokens - x) / length
	index := make([]uint32, rows)
	for i := range index {
		index[i] = uint32(i)
	}
	if separate {
		index = append(shuffled(index[:before], 1), shuffled(index[before:], 1)...)
	} else {
		index = shuffled(index, 1)
	}
	samples := make([][]sampler.Piece, rows)
	for i, row := range index {
		samples[i] = stream[int64(row)*length : int64(row)*length+length+x]
	}
	return samples
}

func tokensOfPieces(pieces []sampler.Piece) []sampler.Piece {
	var single []sampler.Piece
	for _, p := range pieces {
		for k := range p.Len {
			single = append(single, sampler.Piece{Sequence: p.Sequence, Off: p.Off + k, Len: 1})
		}
	}
	return single
}

func TestGPTIsThePlainAlgorithm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := drawLengths(t, "lengths")
		first := rapid.Int64Range(0, lengths.Sequences()-1).Draw(t, "first")
		o := GPTOptions{
			First: first, Count: rapid.Int64Range(1, lengths.Sequences()-first).Draw(t, "count"),
			SequenceLength: rapid.Int64Range(2, 70).Draw(t, "length"),
			Samples:        rapid.Int64Range(OneEpoch, 150).Draw(t, "samples"),
			Seed:           rapid.Uint32().Draw(t, "seed"),
			NoExtraToken:   rapid.Bool().Draw(t, "no extra token"),
		}
		if n, err := tokensOf(t.Context(), lengths, o.First, o.Count); err != nil || n == 0 {
			return
		}
		var given sampler.Lengths = lengths
		if rapid.Bool().Draw(t, "offsets") {
			given = withOffsets{lengths}
		}
		g, err := NewGPT(t.Context(), given, o)
		if err != nil {
			t.Fatal(err)
		}
		x, err := g.prepared(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := referenceGPT(lengths, o)
		if g.Len() != int64(len(want)) || g.Len() < o.Samples {
			t.Fatalf("%d samples, want %d and at least the %d asked for", g.Len(), len(want), o.Samples)
		}
		for i := range want {
			pieces := piecesOf(t, g, int64(i))
			if !slices.Equal(tokensOfPieces(pieces), want[i]) {
				t.Fatalf("sample %d is %v, want %v", i, pieces, want[i])
			}
			for _, p := range pieces {
				if p.Len < 1 {
					t.Fatalf("sample %d has an empty piece: %v", i, pieces)
				}
			}
		}
		if held := 4 * (len(x.shuffle) + len(x.stream.documents)); g.Bytes() != int64(held+16*len(x.stream.marks)) || g.Bytes() > int64(held+held/4+16) {
			t.Fatalf("Bytes says %d, held are %d and %d marks", g.Bytes(), held, len(x.stream.marks))
		}
	})
}

func drawBlend(t *rapid.T) (build func() *blend, weights []float64, sizes []int64, size int64) {
	n := rapid.IntRange(1, 40).Draw(t, "sources")
	if rapid.Bool().Draw(t, "exhaustive") {
		sizes = rapid.SliceOfN(rapid.Int64Range(1, 3000), n, n).Draw(t, "sizes")
		for _, s := range sizes {
			size += s
		}
		for _, s := range sizes {
			weights = append(weights, float64(s)/float64(size))
		}
		return func() *blend { return newExhaustiveBlend(sizes) }, weights, sizes, size
	}
	raw := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(1e-3, 1), rapid.SampledFrom([]float64{.1, .2, .25, .3, .5, 1, 7})), n, n).Draw(t, "weights")
	size = rapid.Int64Range(0, 20000).Draw(t, "size")
	return func() *blend { return newBlend(raw, size) }, normalise(raw), nil, size
}

// Any sample asked for at any time is the one that going through all of them gives.
func TestBlendAnywhereIsTheScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build, weights, sizes, size := drawBlend(t)
		b := build()
		b.block = rapid.SampledFrom([]int64{1, 7, 100, b.block}).Draw(t, "block")
		want := referenceBlend(weights, sizes, size)
		if b.size != size {
			t.Fatalf("size %d, want %d", b.size, size)
		}
		check := func(i int64) {
			if got := turnOf(t, b, i); got != want[i] {
				t.Fatalf("sample %d is %v, want %v", i, got, want[i])
			}
		}
		for range min(size, 20) {
			check(rapid.Int64Range(0, size-1).Draw(t, "sample"))
		}
		for i := range size {
			check(i)
		}
	})
}

func referenceBlend(weights []float64, sizes []int64, size int64) []turn {
	counts := make([]int64, len(weights))
	turns := make([]turn, size)
	for i := range turns {
		x, best, most := math.Max(float64(i), 1), -1, -math.MaxFloat64
		for d, w := range weights {
			if sizes != nil && counts[d] == sizes[d] {
				continue
			}
			if behind := float64(w*x) - float64(counts[d]); behind > most {
				best, most = d, behind
			}
		}
		turns[i] = turn{uint16(best), counts[best]}
		counts[best]++
	}
	return turns
}

// What fits says for certain is true.
func TestBlendFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build, _, _, size := drawBlend(t)
		b := build()
		counts := make([]int64, len(b.weights))
		for i := range size {
			counts[turnOf(t, b, i).source]++
		}
		have := slices.Clone(counts)
		if err := b.checkSizes(t.Context(), have); err != nil {
			t.Fatalf("exactly enough: %v", err)
		}
		if b.sizes != nil {
			return
		}
		d := rapid.IntRange(0, len(have)-1).Draw(t, "source")
		if counts[d] == 0 {
			return
		}
		have[d]--
		if err := build().checkSizes(t.Context(), have); err == nil || !strings.Contains(err.Error(), "mid_level_dataset_surplus") {
			t.Fatalf("one sample too few of source %d: %v", d, err)
		}
	})
}

func TestSplitsAreMegatrons(t *testing.T) {
	for _, c := range []struct {
		text      string
		sequences int64
		want      string
	}{
		{"969,30,1", 1000, "0+969 969+30 999+1"},
		{"969, 30, 1", 10, "0+10 10+0 10+0"},
		{"1,1,1", 5, "0+2 2+1 3+2"},
		{"1,1", 5, "0+2 2+3 -"}, // 2.5 rounds to 2
		{"1,1", 7, "0+4 4+3 -"}, // 3.5 rounds to 4
		{"100", 7, "0+7 - -"},
		{"0,0,2", 7, "- - 0+7"},
		{"99,1,0", 100, "0+99 99+1 -"},
		{".5 .25 .25", 8, "0+4 4+2 6+2"},
	} {
		shares, err := parseSplit(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []string
		for _, s := range shares {
			if s == nil {
				got = append(got, "-")
				continue
			}
			first, n := s.of(c.sequences)
			got = append(got, fmt.Sprintf("%d+%d", first, n))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q of %d: %v, want %s", c.text, c.sequences, got, c.want)
		}
	}
	for _, bad := range []string{"", ",", "1,2,3,4", "-1,2", "1e3,1", "a", "1.2.3", "0,0,0", "nan", strings.Repeat("9", 400)} {
		if _, err := parseSplit(bad); err == nil || !strings.Contains(err.Error(), "split") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("969,30,1", int64(1000))
	f.Add("0.1,.2", int64(7))
	f.Fuzz(func(t *testing.T, text string, sequences int64) {
		shares, err := parseSplit(text)
		if err != nil || sequences < 0 || sequences > maxSequences {
			return
		}
		var end int64
		for _, s := range shares {
			if s == nil {
				continue
			}
			first, n := s.of(sequences)
			if first != end || n < 0 || first+n > sequences {
				t.Fatalf("%q of %d: %d+%d after %d", text, sequences, first, n, end)
			}
			end = first + n
		}
	})
}

func TestBuildRefuses(t *testing.T) {
	some := &Blend{Sources: []sampler.Lengths{lengthList{40, 50}}}
	two := func(w ...float64) *Blend {
		return &Blend{Sources: []sampler.Lengths{lengthList{40, 50}, lengthList{3}}, Weights: w}
	}
	good := func(change func(*Options)) Options {
		o := Options{Seed: 1, SequenceLength: 8, Samples: [3]int64{10, 0, 0}, Split: "1,0,0", Blend: some, Surplus: DefaultSurplus}
		change(&o)
		return o
	}
	for _, c := range []struct {
		want   string
		change func(*Options)
	}{
		{"give either one blend", func(o *Options) { o.Blend = nil }},
		{"give either one blend", func(o *Options) { o.PerSplit[0] = some }},
		{"leave it out", func(o *Options) { o.Blend = nil; o.PerSplit[0] = some }},
		{"up to three numbers", func(o *Options) { o.Split = "" }},
		{"0 sources", func(o *Options) { o.Blend = &Blend{} }},
		{"2 sources and 1 weights", func(o *Options) { o.Blend = two(1) }},
		{"weight 1 is 0", func(o *Options) { o.Blend = two(1, 0) }},
		{"weight 0 is -1", func(o *Options) { o.Blend = two(-1, 1) }},
		{"weight 0 is NaN", func(o *Options) { o.Blend = two(math.NaN(), 1) }},
		{"weight 1 is +Inf", func(o *Options) { o.Blend = two(1, math.Inf(1)) }},
		{"add up to infinity", func(o *Options) { o.Blend = two(math.MaxFloat64, math.MaxFloat64) }},
		{"train split: -2 samples", func(o *Options) { o.Samples[0] = -2 }},
		{"surplus NaN", func(o *Options) { o.Surplus = math.NaN() }},
		{"surplus -1", func(o *Options) { o.Surplus = -1 }},
		{"sequence length 1", func(o *Options) { o.SequenceLength = 1 }},
		{"one epoch of a blend with weights", func(o *Options) { o.Blend = two(1, 1); o.Samples[0] = OneEpoch }},
		{"source 1: 3 tokens in this split are not one sample of 8", func(o *Options) { o.Blend = two() }},
		{"valid split: source 0: 5 samples asked for, and the sequences 2 to 2 have no token", func(o *Options) { o.Split = "999,1"; o.Samples[1] = 5 }},
		{"Megatron's order is reproduced up to", func(o *Options) { o.Blend = two(1, 1); o.SequenceLength = 1 << 20; o.Samples[0] = 1 << 31 }},
		{"mid_level_dataset_surplus", func(o *Options) {
			o.Blend = &Blend{Sources: []sampler.Lengths{lengthList{9}, lengthList{9}, lengthList{9}}, Weights: []float64{98, 1, 1}}
			o.Surplus, o.Samples[0] = 0, 1
		}},
		{"bytes of memory, and 100 are allowed", func(o *Options) { o.Samples[0], o.MaxBytes = 1000, 100 }},
	} {
		_, err := Build(t.Context(), good(c.change))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
	if _, err := Build(t.Context(), good(func(*Options) {})); err != nil {
		t.Error(err)
	}
}

// Whatever the world and the micro batch, a global step takes the same samples.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ranks{MicroBatch: rapid.Int64Range(1, 8).Draw(t, "micro batch"), World: rapid.Int64Range(1, 16).Draw(t, "world")}
		consumed := rapid.Int64Range(0, 1000).Draw(t, "consumed")
		total := consumed + rapid.Int64Range(0, 1000).Draw(t, "left")
		steps := r.MicroSteps(consumed, total)
		next := consumed
		for k := range steps {
			for rank := range r.World {
				if got := r.First(consumed, k, rank); got != next {
					t.Fatalf("rank %d of micro-step %d begins at %d, want %d", rank, k, got, next)
				}
				next += r.MicroBatch
			}
		}
		if left := total - next; left < 0 || left >= r.MicroBatch*r.World {
			t.Fatalf("%d samples are left after %d micro-steps", left, steps)
		}
	})
	if (Ranks{MicroBatch: 1}).Validate() == nil || (Ranks{1, 1}).Validate() != nil {
		t.Error("Validate")
	}
}

var sink int64

func BenchmarkSample(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	lengths := make(lengthList, 1<<20)
	for i := range lengths {
		lengths[i] = random.Int64N(2000)
	}
	g, err := NewGPT(b.Context(), lengths, GPTOptions{Count: 1 << 20, SequenceLength: 4096, Samples: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	var pieces []sampler.Piece
	for i := 0; b.Loop(); i++ {
		if pieces, err = g.Sample(b.Context(), int64(i)&(1<<18-1), pieces[:0]); err != nil {
			b.Fatal(err)
		}
		sink += int64(len(pieces))
	}
	b.ReportMetric(float64(g.Bytes())/float64(g.Len()), "B/sample")
}

func BenchmarkBuild(b *testing.B) {
	lengths := slices.Repeat(lengthList{1000, 3000}, 1<<19)
	for b.Loop() {
		g, err := NewGPT(b.Context(), lengths, GPTOptions{Count: 1 << 20, SequenceLength: 2048, Samples: 4 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Prepare(b.Context()); err != nil {
			b.Fatal(err)
		}
		sink += g.Len()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(8<<20), "ns/place")
}

func BenchmarkBlend(b *testing.B) {
	for _, n := range []int{2, 10, 100, 1000} {
		b.Run(fmt.Sprintf("sources=%d", n), func(b *testing.B) {
			weights := make([]float64, n)
			for i := range weights {
				weights[i] = rand.New(rand.NewPCG(uint64(i), 0)).Float64() + 0.01
			}
			blend := newBlend(weights, 1<<40)
			for i := 0; b.Loop(); i++ {
				sink += turnOf(b, blend, int64(i)).sample
			}
		})
	}
}
