// Package sampler knows, as a pure function of a Spec, which samples every rank needs at every step.
package sampler

import (
	"fmt"
	"slices"
)

// A SampleRef is one place of a global batch and the sample that fills it.
type SampleRef struct {
	// Source is the index of the sample's source in Spec.Sources.
	Source int32 `json:"source"`
	// Epoch counts the passes over the source, from 0.
	Epoch uint64 `json:"epoch"`
	// Sample is the id inside the source, from 0.
	Sample uint64 `json:"sample"`
	// Position is the place in the global batch, from 0; it does not depend on the world size.
	Position int64 `json:"position"`
}

// A Sampler gives the order of a Spec. It holds nothing but the Spec and what is derived from it,
// so every method is pure, costs the same at any step, and may be called concurrently.
//
// Methods that take a step panic when it is negative, and Rank when the world size is not one that
// CheckWorld accepts: both are mistakes of the caller, never of the data.
type Sampler struct {
	spec    Spec
	samples uint64
	batch   uint64
	steps   uint64 // in an epoch
	key     sourceKey
}

// New returns the Sampler of spec, or every reason why spec cannot be used.
func New(spec Spec) (*Sampler, error) {
	spec = spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("sampler.New: %w", err)
	}
	spec.Sources = slices.Clone(spec.Sources)
	source := spec.Sources[0]
	s := &Sampler{
		spec:    spec,
		samples: source.Samples,
		batch:   uint64(spec.GlobalBatch),
		key:     newSourceKey(spec.Seed, source.Name),
	}
	s.steps = s.samples / s.batch
	if spec.Last == LastPad && s.samples%s.batch != 0 {
		s.steps++
	}
	return s, nil
}

// Spec returns the Spec, with its defaults filled in.
func (s *Sampler) Spec() Spec {
	spec := s.spec
	spec.Sources = slices.Clone(spec.Sources)
	return spec
}

// StepsPerEpoch returns the number of global batches in an epoch: every epoch has the same.
func (s *Sampler) StepsPerEpoch() int64 { return int64(s.steps) }

// Epoch returns the epoch that step belongs to. Steps count on through the epochs.
func (s *Sampler) Epoch(step int64) int64 { return int64(s.checkStep(step) / s.steps) }

// CheckWorld tells whether the global batch can be dealt evenly to world ranks.
func (s *Sampler) CheckWorld(world int) error {
	switch {
	case world < 1:
		return fmt.Errorf("sampler.CheckWorld: world size %d: at least 1 rank is needed", world)
	case uint64(world) > s.samples:
		return fmt.Errorf("sampler.CheckWorld: world size %d, samples %d: fewer samples than ranks: use fewer ranks or more data", world, s.samples)
	case s.batch%uint64(world) != 0:
		return fmt.Errorf("sampler.CheckWorld: world size %d, global batch %d: the world size must divide the global batch, so that all ranks get equal batches: change one of them", world, s.batch)
	}
	return nil
}

// Step appends the global batch of step to dst, in order of position, and returns it. It allocates
// only when dst lacks the capacity.
func (s *Sampler) Step(step int64, dst []SampleRef) []SampleRef {
	return s.fill(step, 0, s.batch, dst)
}

// Rank appends the part of step's global batch that belongs to rank of world, positions
// [rank*B/world, (rank+1)*B/world) of B, to dst and returns it. It allocates only when dst lacks
// the capacity.
func (s *Sampler) Rank(step int64, rank, world int, dst []SampleRef) []SampleRef {
	if err := s.CheckWorld(world); err != nil {
		panic(err.Error())
	}
	if rank < 0 || rank >= world {
		panic(fmt.Sprintf("sampler.Rank: rank %d is outside 0..%d", rank, world-1))
	}
	each := s.batch / uint64(world)
	return s.fill(step, uint64(rank)*each, each, dst)
}

// Substitute returns the sample that takes the place of ref, as Step or Rank gave it for step, when
// the content of ref is bad. Attempt 1 is the first substitute, attempt 2 the one to take when that
// is bad too, and so on; attempt 0 is ref itself. Attempts 0 to N-1 are N different samples of the
// same source; later ones repeat the substitutes. Every rank, restart and world size gets the same.
// A source with one sample has no substitute: ref comes back.
func (s *Sampler) Substitute(step int64, ref SampleRef, attempt int) SampleRef {
	if attempt < 0 {
		panic(fmt.Sprintf("sampler.Substitute: attempt %d is negative", attempt))
	}
	if attempt == 0 || s.samples == 1 {
		return ref
	}
	others := s.samples - 1
	place := s.checkStep(step)%s.steps*s.batch + uint64(ref.Position)
	var p permutation
	s.key.permutation(&p, s.checkStep(step)/s.steps, place+1, others)
	away := 1 + p.at(uint64(attempt-1)%others) // in 1..N-1: never back at ref
	ref.Sample = (ref.Sample + away) % s.samples
	return ref
}

// fill appends the refs of positions [first, first+count) of step's global batch.
func (s *Sampler) fill(step int64, first, count uint64, dst []SampleRef) []SampleRef {
	at := s.checkStep(step)
	epoch, start := at/s.steps, at%s.steps*s.batch+first
	from := len(dst)
	for i := range count {
		place := start + i // below samples + batch, which Validate keeps below 2^63
		if place >= s.samples {
			place -= s.samples // last="pad": repeat from the epoch's start
		}
		dst = append(dst, SampleRef{Epoch: epoch, Sample: place, Position: int64(first + i)})
	}
	if s.spec.Shuffle == ShuffleFull {
		var p permutation
		s.key.permutation(&p, epoch, 0, s.samples)
		p.apply(dst[from:])
	}
	return dst
}

func (s *Sampler) checkStep(step int64) uint64 {
	if step < 0 {
		panic(fmt.Sprintf("sampler: step %d is negative", step))
	}
	return uint64(step)
}
