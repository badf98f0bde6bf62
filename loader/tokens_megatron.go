package loader

import (
	"context"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/megatron"
)

// MegatronOptions have the samples come in Megatron-core's order (sampler/megatron). The datasets are
// the sources of a blend, in its order. Options.Seed and Shuffle have no effect on it.
type MegatronOptions struct {
	// Part is the split that the samples are of.
	Part megatron.Split
	// Samples is the number asked for in that split, or megatron.OneEpoch.
	Samples int64
	// Seed is Megatron's --seed.
	Seed uint32
	// Split is --split; empty: the datasets are this part's alone.
	Split string
	// Weights are those of the blend, or none.
	Weights []float64
	// Surplus is --mid-level-dataset-surplus.
	Surplus float64
	// MicroBatch deals the global batch to ranks as Megatron does: micro batches of so many samples in turn. 0: each
	// rank gets one run of it.
	MicroBatch int64
}

// planMegatron makes Megatron's order over all sources.
func (m *tokenMode) planMegatron(ctx context.Context, o Options) error {
	options := m.megatronOptions(*o.Tokens.Megatron)
	part, micro := o.Tokens.Megatron.Part, o.Tokens.Megatron.MicroBatch
	if micro < 0 || micro > 0 && o.GlobalBatch%(micro*int64(o.World)) != 0 {
		return fmt.Errorf("global batch %d, micro batch %d, %d ranks: the batch must be a multiple of the micro batches of all ranks: %w", o.GlobalBatch, micro, o.World, ErrOptions)
	}
	built, err := megatron.Build(ctx, options)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if m.megatron = built[part]; m.megatron == nil || m.megatron.Len() == 0 {
		return fmt.Errorf("split %q gives the %v part no sample: %w", options.Split, part, ErrOptions)
	}
	return nil
}

func (m *tokenMode) megatronOptions(o MegatronOptions) megatron.Options {
	blend := &megatron.Blend{Weights: o.Weights}
	for _, s := range m.sources {
		blend.Sources = append(blend.Sources, s.lengths)
	}
	options := megatron.Options{Seed: o.Seed, SequenceLength: m.length, Surplus: o.Surplus}
	options.Samples[o.Part] = o.Samples
	if o.Split != "" {
		options.Split, options.Blend = o.Split, blend
	} else {
		options.PerSplit[o.Part] = blend
	}
	return options
}

// locate returns the source and the pieces of a sample, appended to dst. In Megatron's order the first takes long, in chunks the first of an
// epoch; the error is that of ctx, if it ends first.
func (m *tokenMode) locate(ctx context.Context, ref sampler.SampleRef, dst []sampler.Piece) (*tokenSource, []sampler.Piece, error) {
	if m.megatron == nil {
		s := m.sources[ref.Source]
		pieces, err := s.order.Pieces(ctx, ref.Epoch, int64(ref.Sample), dst)
		return s, pieces, err
	}
	source, pieces, err := m.megatron.Sample(ctx, int64(ref.Sample), dst)
	return m.sources[source], pieces, err
}

// megatron returns the options of Megatron's order, if the Loader has it.
func (l *Loader) megatron() *MegatronOptions {
	if l.tokens == nil {
		return nil
	}
	return l.o.Tokens.Megatron
}

// microBatches returns this rank's part of a step.
func (l *Loader) microBatches(step int64) []sampler.SampleRef {
	micro := l.megatron().MicroBatch
	if micro == 0 {
		return l.sampler.Rank(step, l.o.Rank, l.o.World, nil)
	}
	all := l.sampler.Step(step, nil)
	ranks := megatron.Ranks{MicroBatch: micro, World: int64(l.o.World)}
	var mine []sampler.SampleRef
	for k := range ranks.MicroSteps(0, int64(len(all))) {
		first := ranks.First(0, k, int64(l.o.Rank))
		mine = append(mine, all[first:first+micro]...)
	}
	return mine
}

// megatronSpec is the order: that of Megatron's samples, whatever the number of datasets.
func (l *Loader) megatronSpec() (sampler.Spec, error) {
	if l.o.Spec != nil || l.o.Given {
		return sampler.Spec{}, fmt.Errorf("order: that of Megatron takes neither a specification nor given steps: leave them out: %w", ErrOptions)
	}
	if l.o.Seed != 0 || l.o.Shuffle != "" {
		return sampler.Spec{}, fmt.Errorf("seed: %d, shuffle: %q: Megatron's order has its own seed and shuffle: leave them out: %w", l.o.Seed, l.o.Shuffle, ErrOptions)
	}
	for _, s := range l.o.sources() {
		if s.Weight != 0 || s.Upsample != 0 || s.MaxEpochs != 0 {
			return sampler.Spec{}, fmt.Errorf("source %q: Megatron's order has weights of its own: leave weight, upsample and max_epochs out: %w", s.Name, ErrOptions)
		}
	}
	m := l.megatron()
	return sampler.Spec{
		Version: sampler.SpecVersion, GlobalBatch: l.o.GlobalBatch, Shuffle: sampler.ShuffleNone, Last: l.o.Last,
		Sources: []sampler.Source{{Samples: uint64(l.tokens.megatron.Len())}},
		Tokens: &sampler.TokenSpec{Packing: sampler.PackMegatron, SequenceLength: l.o.Tokens.SequenceLength, Megatron: &sampler.MegatronSpec{
			Part: m.Part.String(), Samples: m.Samples, Seed: m.Seed, Split: m.Split, Surplus: m.Surplus, Weights: slices.Clone(m.Weights),
		}},
	}, nil
}
