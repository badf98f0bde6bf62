package megatron

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/stepahead-io/stepahead/sampler"
)

// DefaultSurplus is Megatron-core's mid_level_dataset_surplus: what is built of each source of a
// weighted blend beyond its part.
const DefaultSurplus = 0.005

// A Blend is what a split, or all of them, are drawn from.
type Blend struct {
	// Sources are the lengths of each source's sequences. A source may occur twice.
	Sources []sampler.Lengths
	// Weights are as many numbers above 0, of any sum, or none: then each source gives one epoch.
	Weights []float64
}

// Options are all that the order depends on beside the lengths of the sequences. A job that takes
// over from Megatron's own loader must give what that was started with: another request, seed, split or
// sequence length can be another order altogether.
type Options struct {
	// Seed is Megatron's --seed (1234 unless it is given); SequenceLength its --seq-length.
	Seed           uint32
	SequenceLength int64
	// Samples are those asked for in each split: the iterations' global batches, not what was consumed. OneEpoch is None.
	Samples [3]int64
	// Split is --split, the ratio of the three splits in Blend, which is --data-path.
	Split string
	Blend *Blend
	// PerSplit is used instead of Split and Blend: --train-data-path, --valid-data-path, --test-data-path.
	PerSplit [3]*Blend
	// Surplus is --mid-level-dataset-surplus.
	Surplus float64
	// NoExtraToken is --no-add-extra-token-to-sequence.
	NoExtraToken bool
	// MaxBytes bounds the indexes of all splits together. 0 means 16 GiB.
	MaxBytes int64
}

const defaultMaxBytes = 16 << 30

// Build returns the order of each split, nil where it has no data. It counts and checks everything,
// and leaves the large indexes to the first use of each source.
func Build(ctx context.Context, o Options) ([3]*Dataset, error) {
	b := builder{o: o}
	datasets, err := b.build(ctx)
	if err != nil {
		return [3]*Dataset{}, fmt.Errorf("megatron.Build: %w", err)
	}
	return datasets, nil
}

type builder struct{ o Options }

func (b *builder) build(ctx context.Context) ([splits]*Dataset, error) {
	var built [splits]*Dataset
	if err := b.o.validate(); err != nil {
		return built, err
	}
	var shares [splits]*share
	if b.o.Blend != nil {
		var err error
		if shares, err = parseSplit(b.o.Split); err != nil {
			return built, err
		}
	}
	var errs []error
	var bytes int64
	for s := Train; s < splits; s++ {
		blend, part := b.o.Blend, shares[s]
		if blend == nil {
			blend, part = b.o.PerSplit[s], &whole
		}
		if blend == nil || part == nil {
			continue
		}
		d, err := b.split(ctx, s, *blend, *part)
		if err != nil {
			errs = append(errs, fmt.Errorf("%v split: %w", s, err))
			continue
		}
		built[s] = d
		bytes += d.Bytes()
	}
	if limit := b.o.maxBytes(); bytes > limit {
		errs = append(errs, fmt.Errorf("the indexes need %d bytes of memory, and %d are allowed: ask for fewer samples or allow more", bytes, limit))
	}
	return built, errors.Join(errs...)
}

func (o Options) maxBytes() int64 {
	if o.MaxBytes == 0 {
		return defaultMaxBytes
	}
	return o.MaxBytes
}

func (o Options) validate() error {
	var errs []error
	perSplit := o.PerSplit != [splits]*Blend{}
	if perSplit == (o.Blend != nil) {
		errs = append(errs, errors.New("give either one blend with a split, or a blend for each split"))
	}
	if perSplit && o.Split != "" {
		errs = append(errs, fmt.Errorf("split %q: each split has a blend of its own: leave it out", o.Split))
	}
	for _, b := range append(o.PerSplit[:], o.Blend) {
		errs = append(errs, b.validate())
	}
	for s, n := range o.Samples {
		if n < OneEpoch || n > maxSamples {
			errs = append(errs, fmt.Errorf("%v split: %d samples asked for: must be 0 to %d, or %d for one epoch", Split(s), n, int64(maxSamples), OneEpoch))
		}
	}
	if !(o.Surplus >= 0 && o.Surplus <= 1000) {
		errs = append(errs, fmt.Errorf("surplus %v: must be 0 to 1000 (Megatron's default is %v)", o.Surplus, DefaultSurplus))
	}
	return errors.Join(errs...)
}

func (b *Blend) validate() error {
	switch {
	case b == nil:
		return nil
	case len(b.Sources) == 0 || len(b.Sources) > maxSources:
		return fmt.Errorf("blend: %d sources: must be 1 to %d", len(b.Sources), maxSources)
	case b.Weights != nil && len(b.Weights) != len(b.Sources):
		return fmt.Errorf("blend: %d sources and %d weights: give one weight for each source, or none", len(b.Sources), len(b.Weights))
	}
	if err := checkWeights(b.Weights); err != nil {
		return fmt.Errorf("blend: %w", err)
	}
	return nil
}

// split builds the order of one split as BlendedMegatronDatasetBuilder does.
func (b *builder) split(ctx context.Context, s Split, blend Blend, part share) (*Dataset, error) {
	asked := b.o.Samples[s]
	if len(blend.Sources) == 1 && (blend.Weights == nil || b.o.Blend == nil) {
		sources, err := b.sources(ctx, blend, part, []int64{asked})
		return &Dataset{sources: sources}, err
	}
	if blend.Weights != nil {
		return b.weighted(ctx, blend, part, asked)
	}
	return b.unweighted(ctx, blend, part, asked)
}

// weighted builds a little more of each source than its part of the samples asked for.
func (b *builder) weighted(ctx context.Context, blend Blend, part share, asked int64) (*Dataset, error) {
	if asked == OneEpoch {
		return nil, errors.New("one epoch of a blend with weights: give the number of samples, or no weights")
	}
	weights := normalise(blend.Weights)
	built := make([]int64, len(weights))
	var size int64
	for i, w := range weights {
		target := int64(math.Ceil(float64(asked) * w))
		built[i] = int64(math.Ceil(float64(target) * (1 + b.o.Surplus)))
		size += target
	}
	sources, err := b.sources(ctx, blend, part, built)
	if err != nil {
		return nil, err
	}
	return newDataset(ctx, sources, newBlend(weights, size))
}

// unweighted builds an epoch of each source; the blend follows their sizes.
func (b *builder) unweighted(ctx context.Context, blend Blend, part share, asked int64) (*Dataset, error) {
	epoch := make([]int64, len(blend.Sources))
	for i := range epoch {
		epoch[i] = OneEpoch
	}
	sources, err := b.sources(ctx, blend, part, epoch)
	if err != nil {
		return nil, err
	}
	sizes, weights := make([]int64, len(sources)), make([]float64, len(sources))
	var sum int64
	for i, g := range sources {
		if g.Len() == 0 {
			return nil, fmt.Errorf("source %d: %d tokens in this split are not one sample of %d: leave the source out or give it a larger share", i, g.counts.tokens, b.o.SequenceLength)
		}
		sizes[i], weights[i] = g.Len(), float64(g.Len())
		sum += g.Len()
	}
	if asked == OneEpoch {
		return newDataset(ctx, sources, newExhaustiveBlend(sizes))
	}
	return newDataset(ctx, sources, newBlend(weights, min(asked, sum)))
}

func newDataset(ctx context.Context, sources []*GPT, blend *blend) (*Dataset, error) {
	have := make([]int64, len(sources))
	for i, g := range sources {
		have[i] = g.Len()
	}
	if err := blend.checkSizes(ctx, have); err != nil {
		return nil, err
	}
	return &Dataset{sources: sources, blend: blend}, nil
}

func (b *builder) sources(ctx context.Context, blend Blend, part share, samples []int64) ([]*GPT, error) {
	sources := make([]*GPT, len(blend.Sources))
	var errs []error
	for i, lengths := range blend.Sources {
		first, count := part.of(lengths.Sequences())
		g, err := newGPT(ctx, lengths, GPTOptions{
			First: first, Count: count, SequenceLength: b.o.SequenceLength, Samples: samples[i], Seed: b.o.Seed, NoExtraToken: b.o.NoExtraToken,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("source %d: %w", i, err))
		}
		sources[i] = g
	}
	return sources, errors.Join(errs...)
}
