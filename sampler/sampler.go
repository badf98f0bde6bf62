// Package sampler knows, as a pure function of a Spec, which samples every rank needs at every step.
package sampler

import "fmt"

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
// so every method is pure, costs the same at any step, and may be called concurrently. It takes
// memory in proportion to the sources, times the changes.
//
// Methods that take a step panic when it is negative or not below Steps, and Rank when the world size
// is not one that CheckWorld accepts: both are mistakes of the caller, never of the data.
type Sampler struct {
	spec    Spec
	sources []source
	steps   uint64  // in an epoch
	last    uint64  // the number of steps there are
	stream  *stream // nil for a plain Spec
}

// New returns the Sampler of spec, or every reason why spec cannot be used.
func New(spec Spec) (*Sampler, error) {
	spec = spec.withDefaults()
	st, err := spec.check()
	if err != nil {
		return nil, fmt.Errorf("sampler.New: %w", err)
	}
	s := &Sampler{spec: spec, sources: newSources(&spec), steps: epochSteps(&spec), last: 1 << 63, stream: st}
	if st != nil {
		s.last = st.steps()
	}
	return s, nil
}

// epochSteps returns the number of steps in an epoch.
func epochSteps(s *Spec) uint64 {
	batch := uint64(s.GlobalBatch)
	if !s.isStream() {
		n := s.Sources[0].Samples
		if s.Last == LastPad && n%batch != 0 {
			return n/batch + 1
		}
		return n / batch
	}
	if s.EpochSteps != 0 {
		return uint64(s.EpochSteps)
	}
	weights, samples := startWeights(s), 0.0
	for i, src := range s.Sources {
		switch {
		case weights[i] == 0:
		case src.Upsample != 0:
			samples += weights[i]
		default:
			samples += float64(src.Samples)
		}
	}
	return uint64(min(max(1, samples/float64(batch)), 1<<62))
}

// Spec returns the Spec, with its defaults filled in.
func (s *Sampler) Spec() Spec { return s.spec.clone() }

// StepsPerEpoch returns the number of global batches in an epoch: every epoch has the same. That of a
// plain Spec is one pass over the source; that of a stream is a number of steps to count and report
// by, while each source passes through its own epochs (SampleRef.Epoch).
func (s *Sampler) StepsPerEpoch() int64 { return int64(s.steps) }

// Steps returns the number of steps of the whole run, and whether it ends there: only where every
// source has reached MaxEpochs. A run that does not end has more steps than anyone can take.
func (s *Sampler) Steps() (steps int64, ends bool) {
	return int64(min(s.last, 1<<63-1)), s.stream != nil && s.stream.end != maxPosition
}

// Epoch returns the epoch that step belongs to. Steps count on through the epochs; the step after the
// last of a run has one too.
func (s *Sampler) Epoch(step int64) int64 {
	if step < 0 {
		panic(fmt.Sprintf("sampler: step %d is negative", step))
	}
	return int64(uint64(step) / s.steps)
}

// GlobalBatch returns the number of samples in the global batch of step.
func (s *Sampler) GlobalBatch(step int64) int64 {
	at := s.checkStep(step)
	if s.stream == nil {
		return s.spec.GlobalBatch
	}
	return int64(s.stream.pace(at).batch)
}

// CheckWorld tells whether the global batch of every step can be dealt evenly to world ranks.
func (s *Sampler) CheckWorld(world int) error {
	if world < 1 {
		return fmt.Errorf("sampler.CheckWorld: world size %d: at least 1 rank is needed", world)
	}
	if s.stream == nil {
		if n := s.sources[0].samples; uint64(world) > n {
			return fmt.Errorf("sampler.CheckWorld: world size %d, samples %d: fewer samples than ranks: use fewer ranks or more data", world, n)
		}
		return checkShares(world, uint64(s.spec.GlobalBatch))
	}
	for _, p := range s.stream.paces {
		if err := checkShares(world, p.batch); err != nil {
			return err
		}
	}
	return nil
}

func checkShares(world int, batch uint64) error {
	if batch%uint64(world) != 0 {
		return fmt.Errorf("sampler.CheckWorld: world size %d, global batch %d: the world size must divide the global batch, so that all ranks get equal batches: change one of them", world, batch)
	}
	return nil
}

// Step appends the global batch of step to dst, in order of position, and returns it. It allocates
// only when dst lacks the capacity. Where samples are grouped by length (Spec.GroupByLength), Step and Rank give the order
// before they are exchanged within their window: Group gives the one that is delivered.
func (s *Sampler) Step(step int64, dst []SampleRef) []SampleRef {
	return s.fill(step, 0, uint64(s.GlobalBatch(step)), dst)
}

// Rank appends the part of step's global batch that belongs to rank of world, positions
// [rank*B/world, (rank+1)*B/world) of B, to dst and returns it. It allocates only when dst lacks
// the capacity.
func (s *Sampler) Rank(step int64, rank, world int, dst []SampleRef) []SampleRef {
	each := uint64(s.share(s.GlobalBatch(step), rank, world))
	return s.fill(step, uint64(rank)*each, each, dst)
}

// share returns how many samples of a batch a rank gets.
func (s *Sampler) share(batch int64, rank, world int) int64 {
	if err := s.CheckWorld(world); err != nil {
		panic(err.Error())
	}
	if rank < 0 || rank >= world {
		panic(fmt.Sprintf("sampler.Rank: rank %d is outside 0..%d", rank, world-1))
	}
	return batch / int64(world)
}

// Substitute returns the sample that takes the place of ref, as Step or Rank gave it for step, when
// the content of ref is bad. Attempt 1 is the first substitute, attempt 2 the one to take when that
// is bad too, and so on; attempt 0 is ref itself. Attempts 0 to N-1 are N different samples of the
// same source; later ones repeat the substitutes. Every rank, restart and world size gets the same.
// A source with one sample has no substitute: ref comes back.
func (s *Sampler) Substitute(step int64, ref SampleRef, attempt int) SampleRef {
	at := s.checkStep(step)
	if attempt < 0 {
		panic(fmt.Sprintf("sampler.Substitute: attempt %d is negative", attempt))
	}
	if attempt == 0 {
		return ref
	}
	src := &s.sources[ref.Source]
	var place uint64
	if s.stream == nil {
		place = at%s.steps*uint64(s.spec.GlobalBatch) + uint64(ref.Position)
	} else {
		_, number := s.stream.find(s.stream.position(at) + uint64(ref.Position))
		place = number % src.samples
	}
	ref.Sample = src.substitute(ref.Epoch, place, ref.Sample, uint64(attempt))
	return ref
}

// fill appends the refs of positions [first, first+count) of step's global batch.
func (s *Sampler) fill(step int64, first, count uint64, dst []SampleRef) []SampleRef {
	at := s.checkStep(step)
	if s.stream != nil {
		return s.fillStream(s.stream.position(at)+first, first, count, dst)
	}
	src := &s.sources[0]
	epoch, start := at/s.steps, at%s.steps*uint64(s.spec.GlobalBatch)+first
	from := len(dst)
	for i := range count {
		place := start + i // below samples + batch, which Validate keeps below 2^63
		if place >= src.samples {
			place -= src.samples // last="pad": repeat from the epoch's start
		}
		dst = append(dst, SampleRef{Epoch: epoch, Sample: place, Position: int64(first + i)})
	}
	src.order(epoch, dst[from:])
	return dst
}

func (s *Sampler) checkStep(step int64) uint64 {
	if step < 0 {
		panic(fmt.Sprintf("sampler: step %d is negative", step))
	}
	if uint64(step) >= s.last {
		panic(fmt.Sprintf("sampler: step %d: the run has %d steps", step, s.last))
	}
	return uint64(step)
}
