package loader

import (
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/megatron"
)

// megatronKit is a dataset of two files with sequences of many lengths, some without a token.
func megatronKit(t *testing.T) (*tokenKit, TokenOptions) {
	t.Helper()
	bins := [2][]int64{}
	for i := range 90 {
		bins[i%2] = append(bins[i%2], int64(i*i*7%23))
	}
	return newTokenKit(t, "uint16", bins[0], bins[1]), TokenOptions{
		SequenceLength: 8, Megatron: &MegatronOptions{Part: megatron.Train, Samples: 150, Seed: 1234, Split: "969,30,1", Surplus: 0.005},
	}
}

// megatron is the order that a loader of the kit has.
func (k *tokenKit) megatron(t *testing.T, o TokenOptions) *megatron.Dataset {
	t.Helper()
	built, err := megatron.Build(t.Context(), megatron.Options{
		Seed: o.Megatron.Seed, SequenceLength: o.SequenceLength, Samples: [3]int64{o.Megatron.Samples, 0, 0}, Split: o.Megatron.Split,
		Blend: &megatron.Blend{Sources: []sampler.Lengths{k.lengths()}}, Surplus: o.Megatron.Surplus,
	})
	must(t, err)
	return built[megatron.Train]
}

func TestTokensInMegatronsOrder(t *testing.T) {
	k, o := megatronKit(t)
	order := k.megatron(t, o)
	pieces := func(ref sampler.SampleRef) []sampler.Piece {
		_, pieces, err := order.Sample(t.Context(), int64(ref.Sample), nil)
		must(t, err)
		return pieces
	}
	for _, c := range []struct{ world, micro int64 }{{1, 0}, {2, 0}, {1, 2}, {2, 2}, {4, 1}} {
		o.Megatron.MicroBatch = c.micro
		taken := map[uint64]bool{}
		for rank := range c.world {
			options := k.options(o, 8)
			options.Rank, options.World = int(rank), int(c.world)
			l := mustOpen(t, options)
			for step := range int64(3) {
				b, err := l.Next(t.Context())
				must(t, err)
				checkTokenBatch(t, k, o, pieces, b)
				for slot, ref := range b.Samples {
					place := int64(slot) + rank*8/c.world
					if c.micro > 0 {
						place = (int64(slot)/c.micro*c.world+rank)*c.micro + int64(slot)%c.micro
					}
					if want := step*8 + place; int64(ref.Sample) != want || ref.Position != place {
						t.Fatalf("%+v, rank %d, step %d: slot %d is sample %d at position %d, want %d", c, rank, step, slot, ref.Sample, ref.Position, want)
					}
					taken[ref.Sample] = true
				}
				b.Release()
			}
			must(t, l.Close())
		}
		if len(taken) != 24 {
			t.Fatalf("%+v: %d samples in 3 steps of 8", c, len(taken))
		}
	}
}

func TestMegatronsOrderResumes(t *testing.T) {
	k, o := megatronKit(t)
	l := mustOpen(t, k.options(o, 8))
	for range 2 {
		b, err := l.Next(t.Context())
		must(t, err)
		b.Release()
	}
	state := l.State()
	must(t, l.Close())
	options := k.options(o, 8)
	options.Resume = &state
	resumed := mustOpen(t, options)
	batch, err := resumed.Next(t.Context())
	must(t, err)
	if batch.Step != 2 || batch.Samples[0].Sample != 16 {
		t.Errorf("step %d begins at sample %d, want step 2 at 16", batch.Step, batch.Samples[0].Sample)
	}
	batch.Release()
	must(t, resumed.Close())
	other := o
	other.Megatron = &MegatronOptions{}
	*other.Megatron = *o.Megatron
	other.Megatron.Seed++
	options.Tokens = &other
	if _, err := Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), "1235") {
		t.Errorf("another seed: %v", err)
	}
}

func TestMegatronsOrderRefuses(t *testing.T) {
	k, o := megatronKit(t)
	for want, change := range map[string]func(*Options, *MegatronOptions){
		"weight 0 is -1":          func(_ *Options, m *MegatronOptions) { m.Weights = []float64{-1} },
		"1 sources and 2 weights": func(_ *Options, m *MegatronOptions) { m.Weights = []float64{1, 1} },
		"must be up to three":     func(_ *Options, m *MegatronOptions) { m.Split = "1,2,3,4" },
		"gives the test part no":  func(_ *Options, m *MegatronOptions) { m.Split, m.Part = "1,1,0", megatron.Test },
		"micro batches of all":    func(_ *Options, m *MegatronOptions) { m.MicroBatch = 3 },
		"fewer samples than one":  func(o *Options, m *MegatronOptions) { o.GlobalBatch = 1 << 20 },
		"9 samples asked for":     func(_ *Options, m *MegatronOptions) { m.Split, m.Part, m.Samples = "999999,1,0", megatron.Valid, 9 },
		"part 3: must be":         func(_ *Options, m *MegatronOptions) { m.Part = megatron.Test + 1 },
		"part -1: must be":        func(_ *Options, m *MegatronOptions) { m.Part = -1 },
		"seed: 7, shuffle":        func(o *Options, _ *MegatronOptions) { o.Seed = 7 },
		`shuffle: "full"`:         func(o *Options, _ *MegatronOptions) { o.Shuffle = sampler.ShuffleFull },
		"leave the packing out":   func(o *Options, _ *MegatronOptions) { o.Tokens.Packing = "chunk" },
	} {
		m, tokens := *o.Megatron, o
		tokens.Megatron = &m
		options := k.options(tokens, 8)
		change(&options, options.Tokens.Megatron)
		if _, err := Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
