package sampler

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
)

// SpecVersion is the newest version of Spec that this package reads and writes. Version 1 says one
// source and nothing else; version 2 says all the rest.
const SpecVersion = 2

// plainVersion is the version of a Spec that uses nothing of version 2. Its bytes, digests and order
// are a promise.
const plainVersion = 1

// The values of Spec.Shuffle and Spec.Last.
const (
	ShuffleFull  = "full"  // every epoch is a permutation of the whole source
	ShuffleBlock = "block" // chunks in random order, samples shuffled within a window of chunks
	ShuffleNone  = "none"  // ids in rising order, the same in every epoch
	LastDrop     = "drop"  // an epoch's last, incomplete batch is left out
	LastPad      = "pad"   // it is filled up from the epoch's start
	LastCarry    = "carry" // it is filled up from the next epoch of the source: nothing is lost or repeated
)

// Defaults of ShuffleBlock.
const (
	defaultChunk  = 1024
	defaultWindow = 32
)

// Errors of a Spec. ErrVersion also says that a State is of another version.
var (
	ErrVersion     = errors.New("version is not known")
	ErrUnsupported = errors.New("value is not supported")
)

// A Source is what samples are drawn from.
type Source struct {
	// Name keys the source's permutation. A single dataset has the empty name; the names of a
	// mixture are not empty and differ.
	Name string
	// Samples is the number of samples, ids 0 to Samples-1; 1 to 2^62.
	Samples uint64
	// Weight is the source's part of the mixture, in any unit: shares are weights divided by their
	// sum. When no source has a weight, the weight of each is Samples times Upsample. When one has,
	// a source without takes no part until a Change gives it a weight. 1e-18 to 1e18.
	Weight float64
	// Upsample says how often an epoch of the mixture passes over the source, where no source has a
	// Weight; default 1. It may be a fraction. 1e-18 to 1e18.
	Upsample float64
	// MaxEpochs is how often the source may be passed over; 0 is without limit. From the position at
	// which it is used up, its share goes to the other sources, in proportion to their weights; when
	// all are used up, the run ends.
	MaxEpochs uint64
}

// A Change is something that differs from a step on. What it does not name stays as it was.
type Change struct {
	// Step is the first step of the change, at least 1.
	Step int64
	// Tokens, instead of Step, puts the change at the first step before which at least so many
	// tokens were delivered. It needs Spec.SampleTokens.
	Tokens int64
	// GlobalBatch is the global batch from there on; 0 leaves it.
	GlobalBatch int64
	// Weights are the weights of sources by name; 0 takes a source out.
	Weights map[string]float64
}

// A Spec is all that the order of samples depends on.
//
// A Spec of one source whose Last is LastDrop or LastPad is plain: an epoch is one pass over the
// source. Any other is a stream: the batches run on over the ends of the sources' epochs, each source
// at its own pace, and an epoch is only a number of steps (Sampler.StepsPerEpoch).
type Spec struct {
	// Version is at most SpecVersion. New and ParseSpec lower it to the lowest that can say the Spec.
	Version int
	// Seed chooses the permutations.
	Seed uint64
	// GlobalBatch is the number of samples that all ranks together take in a step; 1 to 2^22.
	GlobalBatch int64
	// Shuffle is ShuffleFull (default), ShuffleBlock or ShuffleNone.
	Shuffle string
	// Last is LastDrop (default), LastPad, or LastCarry, which is the default and the only choice
	// where there are several sources, Changes or MaxEpochs.
	Last string
	// Sources are the sources, in the order of SampleRef.Source; 1 to 16,384.
	Sources []Source
	// Chunk is the number of neighbouring samples that ShuffleBlock keeps together; default 1,024.
	// Window is how many chunks it mixes; default 32.
	Chunk, Window uint64
	// Temperature flattens the shares: they are in proportion to weight^(1/Temperature). Default 1;
	// 0.01 to 1e6.
	Temperature float64
	// EpochSteps is the number of steps in an epoch of a stream. By default it is as many whole
	// batches as there are samples (times Upsample) in the sources that take part from the start,
	// and at least one.
	EpochSteps int64
	// SampleTokens is the number of tokens in a sample; Change.Tokens needs it.
	SampleTokens int64
	// Changes are in the order of their steps; at most 4,096.
	Changes []Change
	// Tokens, if not nil, says that samples are made of sequences of tokens, and how.
	Tokens *TokenSpec
	// GroupByLength, if not nil, has neighbouring steps exchange samples by their length (Sampler.Group).
	GroupByLength *GroupByLength
}

// isStream tells whether s needs what plain specs cannot do.
func (s *Spec) isStream() bool {
	return s.Last == LastCarry || s.mustCarry()
}

func (s *Spec) mustCarry() bool {
	limited := slices.ContainsFunc(s.Sources, func(src Source) bool { return src.MaxEpochs > 0 })
	return len(s.Sources) > 1 || len(s.Changes) > 0 || limited
}

// isWeighted tells whether the sources have weights of their own.
func (s *Spec) isWeighted() bool {
	return slices.ContainsFunc(s.Sources, func(src Source) bool { return src.Weight != 0 })
}

// needs2 tells whether version 1 cannot say s.
func (s *Spec) needs2() bool {
	plain := len(s.Sources) == 1 && s.Sources[0] == Source{Name: s.Sources[0].Name, Samples: s.Sources[0].Samples}
	return !plain || s.isStream() || s.Shuffle == ShuffleBlock || s.Chunk != 0 || s.Window != 0 ||
		s.Temperature != 0 || s.EpochSteps != 0 || s.SampleTokens != 0 || s.Tokens != nil || s.GroupByLength != nil
}

// withDefaults returns a copy in which what may be left out has one form.
func (s Spec) withDefaults() Spec {
	s = s.clone()
	if s.Shuffle == "" {
		s.Shuffle = ShuffleFull
	}
	if s.Last == "" {
		s.Last = LastDrop
		if s.mustCarry() {
			s.Last = LastCarry
		}
	}
	if s.Shuffle == ShuffleBlock {
		s.Chunk = orDefault(s.Chunk, defaultChunk)
		s.Window = orDefault(s.Window, defaultWindow)
	}
	if s.Tokens != nil && s.Tokens.Packing == "" {
		s.Tokens.Packing = PackWindows
	}
	if g := s.GroupByLength; g != nil && g.Steps == 0 {
		g.Steps = defaultGroupSteps
	}
	if s.Temperature == 1 {
		s.Temperature = 0
	}
	for i := range s.Sources {
		src := &s.Sources[i]
		src.Weight += 0 // -0 becomes 0
		if src.Upsample == 1 {
			src.Upsample = 0
		}
	}
	for _, c := range s.Changes {
		for name, w := range c.Weights {
			c.Weights[name] = w + 0
		}
	}
	if s.Version == SpecVersion && !s.needs2() {
		s.Version = plainVersion
	}
	return s
}

func orDefault(v, otherwise uint64) uint64 {
	if v == 0 {
		return otherwise
	}
	return v
}

func (s Spec) clone() Spec {
	s.Sources = slices.Clone(s.Sources)
	s.Changes = slices.Clone(s.Changes)
	s.Tokens = s.Tokens.clone()
	s.GroupByLength = s.GroupByLength.clone()
	for i := range s.Changes {
		s.Changes[i].Weights = maps.Clone(s.Changes[i].Weights)
	}
	return s
}

// Digest returns the SHA-256 of the canonical form.
func (s Spec) Digest() [32]byte { return sha256.Sum256(s.Canonical()) }
