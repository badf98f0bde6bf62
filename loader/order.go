package loader

import (
	"context"
	"math"
	"slices"

	"github.com/stepahead-io/stepahead/sampler"
)

// specOf returns the specification of the order that the options ask for, over the datasets that were opened.
func (l *Loader) specOf() (spec sampler.Spec, err error) {
	if l.megatron() != nil {
		return l.megatronSpec()
	}
	if l.o.Spec != nil {
		spec, err = l.completed(*l.o.Spec)
	} else {
		spec = l.specified()
	}
	if l.tokens != nil {
		spec.Tokens = l.o.Tokens.spec()
	}
	return spec, err
}

// whole is what the options say of the order, beside its sources.
func (o Options) whole() sampler.Spec {
	if o.Spec != nil {
		return *o.Spec
	}
	return sampler.Spec{
		Version: sampler.SpecVersion, Seed: o.Seed, GlobalBatch: o.GlobalBatch, Shuffle: o.Shuffle, Last: o.Last, GroupByLength: o.GroupByLength,
	}
}

// samples is how many samples the dataset of a source has.
func (l *Loader) samples(source int) uint64 {
	if l.tokens != nil {
		return uint64(l.tokens.sources[source].order.Samples())
	}
	return l.data.samples(source)
}

// specified is the order that single options say.
func (l *Loader) specified() sampler.Spec {
	spec := l.o.whole()
	for i, s := range l.o.sources() {
		spec.Sources = append(spec.Sources, sampler.Source{
			Name: s.Name, Samples: l.samples(i), Weight: s.Weight, Upsample: s.Upsample, MaxEpochs: s.MaxEpochs,
		})
	}
	if l.o.Given { // the sources are all that counts; a batch may be larger than they are
		spec.Shuffle, spec.Last = sampler.ShuffleNone, sampler.LastCarry
		for i := range spec.Sources {
			spec.Sources[i].Weight, spec.Sources[i].Upsample, spec.Sources[i].MaxEpochs = 0, 0, 0
		}
	}
	return spec
}

// completed fills in how many samples the sources have, and holds what spec says of them against the datasets.
func (l *Loader) completed(spec sampler.Spec) (sampler.Spec, error) {
	spec.Sources = slices.Clone(spec.Sources)
	members := l.data.Members()
	if len(spec.Sources) != len(members) {
		return spec, misfit("spec: %d sources, and %d datasets are given: give the datasets in the order of the sources", len(spec.Sources), len(members))
	}
	for i := range spec.Sources {
		s, has := &spec.Sources[i], l.samples(i)
		if s.Name != members[i].Name {
			return spec, misfit("spec: sources[%d] is %q, and the dataset in its place %q: give the datasets in the order of the sources, by their names", i, s.Name, members[i].Name)
		}
		if s.Samples != 0 && s.Samples != has {
			return spec, misfit("spec: sources[%d] %q has %d samples, its dataset %d: leave samples out, or give the dataset that the specification was made for", i, s.Name, s.Samples, has)
		}
		s.Samples = has
	}
	return spec, nil
}

// known returns the number that the order has now, and the first step of which it does not know the samples.
func (l *Loader) known(step int64) (number uint64, end int64) {
	if l.given != nil {
		return l.given.known()
	}
	if end := l.end(); end >= 0 {
		return 0, end
	}
	return 0, math.MaxInt64
}

// stepOrder is an order as far as it is known for some steps.
type stepOrder interface {
	Step(step int64, dst []sampler.SampleRef) []sampler.SampleRef
	Rank(step int64, rank, world int, dst []sampler.SampleRef) []sampler.SampleRef
	Substitute(step int64, ref sampler.SampleRef, attempt int) sampler.SampleRef
}

// orderAt is the order of the specification at a step.
func (l *Loader) orderAt(ctx context.Context, step int64) (stepOrder, error) {
	if l.groups != nil {
		return l.groups.at(ctx, step)
	}
	return l.sampler, nil
}

// refs appends the global batch of a step to dst, in order of position; nil if the order has another number now.
func (l *Loader) refs(ctx context.Context, step int64, number uint64, dst []sampler.SampleRef) ([]sampler.SampleRef, error) {
	if l.given != nil {
		return l.given.refs(step, number, dst), nil
	}
	order, err := l.orderAt(ctx, step)
	if err != nil {
		return nil, err
	}
	return order.Step(step, dst), nil
}

// share is the part of a step's global batch that this rank gets.
func (l *Loader) share(ctx context.Context, step int64) ([]sampler.SampleRef, error) {
	switch {
	case l.o.Balance != "":
		return l.balanced(ctx, step)
	case l.given != nil:
		return l.given.share(step, l.o.Rank, l.o.World), nil
	case l.megatron() != nil:
		return l.microBatches(step), nil
	}
	order, err := l.orderAt(ctx, step)
	if err != nil {
		return nil, err
	}
	return order.Rank(step, l.o.Rank, l.o.World, nil), nil
}

// epoch is the epoch of a step.
func (l *Loader) epoch(step int64) int64 {
	if l.given != nil {
		return 0
	}
	return l.sampler.Epoch(step)
}
