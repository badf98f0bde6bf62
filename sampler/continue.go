package sampler

import (
	"crypto/sha256"
	"slices"
)

// A stage is what holds from a step on, until the next stage.
type stage struct {
	step, batch uint64
	weights     []float64
}

// stages returns the stages of a valid stream that begin before step.
func (s *Spec) stages(step int64) []stage {
	st, err := newStream(s)
	if err != nil {
		return nil
	}
	b := newSpanBuilder(s)
	out := []stage{{batch: st.paces[0].batch, weights: slices.Clone(b.weights)}}
	for i, p := range st.paces[1:] {
		if p.step >= uint64(step) {
			break
		}
		if b.change(s.Changes[i].Weights) != nil {
			return nil
		}
		out = append(out, stage{step: p.step, batch: p.batch, weights: slices.Clone(b.weights)})
	}
	return out
}

// settled returns the first step whose samples do not depend on those of the steps below step: step itself, but where it is
// within a window of steps that exchange samples.
func (s *Spec) settled(step int64) int64 {
	if s.GroupByLength == nil || step <= 0 {
		return step
	}
	st, err := newStream(s)
	if err != nil || uint64(step) > st.steps() {
		return step
	}
	_, end := s.GroupByLength.window(st, epochSteps(s), st.steps(), uint64(step-1))
	return int64(end)
}

// continues tells whether s gives the same order as before, another Spec, for all steps below step.
// Both are valid.
func (s *Spec) continues(before *Spec, step int64) bool {
	if step < 0 || !s.isStream() || !before.isStream() || len(s.Sources) < len(before.Sources) {
		return false
	}
	same := s.Seed == before.Seed && s.Shuffle == before.Shuffle && s.Chunk == before.Chunk && s.Window == before.Window &&
		s.Temperature == before.Temperature && s.Tokens.text() == before.Tokens.text() &&
		s.GroupByLength.text() == before.GroupByLength.text() && epochSteps(s) == epochSteps(before)
	if !same {
		return false
	}
	for i, src := range before.Sources {
		if o := s.Sources[i]; o.Name != src.Name || o.Samples != src.Samples || o.MaxEpochs != src.MaxEpochs {
			return false
		}
	}
	step = max(s.settled(step), before.settled(step))
	return slices.EqualFunc(s.stages(step), before.stages(step), func(a, b stage) bool {
		shared := len(b.weights)
		return a.step == b.step && a.batch == b.batch && slices.Equal(a.weights[:shared], b.weights) &&
			!slices.ContainsFunc(a.weights[shared:], func(w float64) bool { return w != 0 })
	})
}

// past returns the digest of s without what comes at step and later: the changes, and the last
// sources that had no weight before.
func (s *Spec) past(step int64) [32]byte {
	if step < 0 || !s.isStream() {
		return sha256.Sum256(nil)
	}
	settled := s.settled(step)
	stages := s.stages(settled)
	p := s.clone()
	p.Changes = p.Changes[:max(0, len(stages)-1)]
	for n := len(p.Sources) - 1; n > 0 && !slices.ContainsFunc(stages, func(g stage) bool { return g.weights[n] != 0 }); n-- {
		p.Sources = p.Sources[:n]
	}
	if !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Tokens != 0 }) {
		p.SampleTokens = 0
	}
	if p.settled(step) != settled {
		return sha256.Sum256(nil) // without the change, other steps would exchange samples with those before step
	}
	return p.Digest()
}
