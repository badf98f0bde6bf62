package sampler

import (
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"sort"
)

// An Explanation says in numbers what a Spec means.
type Explanation struct {
	// Version and Digest are those of the canonical form.
	Version int    `json:"version"`
	Digest  string `json:"digest"`
	// Stream tells whether batches run on over the ends of source epochs.
	Stream bool `json:"stream"`
	// StepsPerEpoch is the number of steps in an epoch.
	StepsPerEpoch int64 `json:"steps_per_epoch"`
	// Steps is the number of steps after which the run ends by itself; nil: it never does.
	Steps *int64 `json:"steps"`
	// GroupByLength says which steps exchange samples: a sample may then come in any of them, and Stages and Sources say
	// in which it would come without. Nil: none do.
	GroupByLength *GroupByLength `json:"group_by_length,omitempty"`
	// Stages are the parts of the run in which nothing changes, in order.
	Stages []Stage `json:"stages"`
	// Sources are the sources, in the order of the Spec.
	Sources []SourceExplanation `json:"sources"`
}

// A Stage is a part of the run in which the shares and the global batch stay the same.
type Stage struct {
	// Step is its first step. Where a source is used up within a batch, the stage begins there.
	Step int64 `json:"step"`
	// GlobalBatch is the number of samples in a step.
	GlobalBatch int64 `json:"global_batch"`
	// Shares are the parts of the samples, by source, that sum to 1; 0 where a source takes no part.
	Shares []float64 `json:"shares"`
}

// A SourceExplanation says how often the samples of a source come.
type SourceExplanation struct {
	Name    string `json:"name"`
	Samples uint64 `json:"samples"`
	// Taken is how many samples the first epoch of the run takes, and Passes how many passes over the
	// source that is.
	Taken  uint64  `json:"taken"`
	Passes float64 `json:"passes"`
	// Repeats is how many of them were taken before.
	Repeats uint64 `json:"repeats"`
	// FirstRepeat is the step of the first sample that was taken before; nil: there is none.
	FirstRepeat *int64 `json:"first_repeat"`
	// UsedUp is the step that takes the last sample of a source with MaxEpochs; nil: there is none.
	UsedUp *int64 `json:"used_up"`
}

// Explain says what the Spec of s means.
func (s *Sampler) Explain() Explanation {
	digest := s.spec.Digest()
	e := Explanation{
		Version: s.spec.Version, Digest: hex.EncodeToString(digest[:]), Stream: s.stream != nil,
		StepsPerEpoch: s.StepsPerEpoch(), GroupByLength: s.spec.GroupByLength.clone(), Stages: s.explainStages(),
	}
	steps, ends := s.Steps()
	if ends {
		e.Steps = &steps
	}
	taken := s.Counts(min(steps, s.StepsPerEpoch()))
	for i, src := range s.spec.Sources {
		once := src.Samples // taken before the first repeat
		if s.stream == nil && s.spec.Last == LastDrop {
			once = s.steps * uint64(s.spec.GlobalBatch)
		}
		x := SourceExplanation{
			Name: src.Name, Samples: src.Samples, Taken: taken[i], Passes: float64(taken[i]) / float64(src.Samples),
			Repeats: taken[i] - min(taken[i], once), FirstRepeat: s.stepOf(i, once),
		}
		if src.MaxEpochs != 0 && src.MaxEpochs < math.MaxUint64/src.Samples {
			x.UsedUp = s.stepOf(i, src.MaxEpochs*src.Samples-1)
		}
		e.Sources = append(e.Sources, x)
	}
	return e
}

// Counts returns, by source, how many samples the steps before step take. Step is at most Steps. Where samples are grouped by
// length, that is so at the first step of a window.
func (s *Sampler) Counts(step int64) []uint64 {
	if step == 0 {
		return make([]uint64, len(s.sources))
	}
	at := s.checkStep(step - 1)
	if s.stream == nil {
		return []uint64{(at + 1) * uint64(s.spec.GlobalBatch)}
	}
	end := s.stream.position(at) + s.stream.pace(at).batch
	sp, _ := s.stream.span(end - 1)
	counts := make([]uint64, len(s.sources))
	copy(counts, sp.base)
	sp.tree.counts(sp.tree.root, end-sp.position, counts)
	return counts
}

// stepOf returns the step that takes the n-th sample of a source, from 0, or nil when none does.
func (s *Sampler) stepOf(source int, n uint64) *int64 {
	step := n / uint64(s.spec.GlobalBatch)
	if s.stream != nil {
		position, ok := s.stream.positionOf(source, n)
		if !ok {
			return nil
		}
		step = s.stream.stepAt(position)
	}
	if step >= s.last {
		return nil
	}
	found := int64(step)
	return &found
}

// positionOf returns the position of the n-th sample of a source, from 0, or false when there is none.
func (st *stream) positionOf(source int, n uint64) (uint64, bool) {
	i := sort.Search(len(st.spans), func(i int) bool { return st.spans[i].base[source] > n })
	s := &st.spans[i-1] // the base of the first is 0
	nth := make([]uint64, len(s.base))
	for j := range nth {
		nth[j] = never
	}
	nth[source] = n - s.base[source]
	unit := s.tree.units(nth)[source]
	if _, end := st.span(s.position); unit >= end-s.position {
		return 0, false
	}
	return s.position + unit, true
}

// stepAt returns the step that position is in.
func (st *stream) stepAt(position uint64) uint64 {
	i := sort.Search(len(st.paces), func(i int) bool { return st.paces[i].position > position })
	p := &st.paces[i-1]
	return p.step + (position-p.position)/p.batch
}

// explainStages lists the stages: one for every span and every change of the batch.
func (s *Sampler) explainStages() []Stage {
	if s.stream == nil {
		return []Stage{{GlobalBatch: s.spec.GlobalBatch, Shares: []float64{1}}}
	}
	starts := make(map[uint64]bool)
	for i := range s.stream.spans {
		starts[s.stream.spans[i].position] = true
	}
	for _, p := range s.stream.paces {
		starts[p.position] = true
	}
	var out []Stage
	for _, p := range slices.Sorted(maps.Keys(starts)) {
		step := s.stream.stepAt(p)
		if step >= s.last {
			break
		}
		sp, _ := s.stream.span(p)
		shares := make([]float64, len(s.sources))
		sp.tree.fractions(sp.tree.root, 1, shares)
		out = append(out, Stage{Step: int64(step), GlobalBatch: int64(s.stream.pace(step).batch), Shares: shares})
	}
	return out
}

// fractions sets, by source, what part of the root's units it gets.
func (t *tree) fractions(at int32, part float64, out []float64) {
	if at < 0 {
		out[^at] = part
		return
	}
	n := &t.nodes[at]
	left := part * (float64(n.ratio) / (1 << 64))
	t.fractions(n.left, left, out)
	t.fractions(n.right, part-left, out)
}
