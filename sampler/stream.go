package sampler

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// maxPosition bounds the positions of a stream, which count samples through the whole run.
const maxPosition = 1 << 62

// A stream is the order of a mixture: samples come in one endless line, which the steps cut into
// batches. It is cut into spans in which the shares do not change.
type stream struct {
	paces []pace
	spans []span
	end   uint64 // position after the last sample of the run
}

// A pace is a range of steps of equal batches.
type pace struct {
	step, position, batch uint64 // the first step, its first position
}

// A span is a range of positions in which the shares do not change.
type span struct {
	position uint64
	tree     tree
	base     []uint64 // by source, how many of its samples came before
}

// newStream lays out the run. Its errors are about changes that cannot be made.
func newStream(s *Spec) (*stream, error) {
	st := &stream{paces: []pace{{batch: uint64(s.GlobalBatch)}}, end: maxPosition}
	b := newSpanBuilder(s)
	if !slices.ContainsFunc(b.weights, func(w float64) bool { return w > 0 }) {
		return nil, errors.New("sources: all weights are 0: nothing would be drawn")
	}
	for i, c := range s.Changes {
		p, err := st.after(c, s.SampleTokens)
		if err != nil {
			return nil, fmt.Errorf("changes[%d]: %w", i, err)
		}
		if err := st.layOut(b, p.position); err != nil {
			return nil, err
		}
		if st.end <= p.position {
			return nil, fmt.Errorf("changes[%d]: step %d: the run ends before, as every source reaches its max_epochs after %d samples: drop the change", i, p.step, st.end)
		}
		st.paces = append(st.paces, p)
		if err := b.change(c.Weights); err != nil {
			return nil, fmt.Errorf("changes[%d] (step %d): %w", i, p.step, err)
		}
	}
	return st, st.layOut(b, maxPosition)
}

// after returns the pace from c on.
func (st *stream) after(c Change, sampleTokens int64) (pace, error) {
	last := st.paces[len(st.paces)-1]
	p := pace{step: uint64(c.Step), batch: last.batch}
	if c.GlobalBatch != 0 {
		p.batch = uint64(c.GlobalBatch)
	}
	if c.Tokens != 0 {
		samples := (uint64(c.Tokens) + uint64(sampleTokens) - 1) / uint64(sampleTokens)
		p.step = last.step
		if samples > last.position {
			p.step += (samples - last.position + last.batch - 1) / last.batch
		}
	}
	if p.step <= last.step {
		return pace{}, fmt.Errorf("step %d: the change before it, or the start, is at step %d: changes are in the order of their steps, one a step", p.step, last.step)
	}
	hi, lo := bits.Mul64(p.step-last.step, last.batch)
	if p.position = last.position + lo; hi != 0 || lo > maxPosition || p.position > maxPosition {
		return pace{}, fmt.Errorf("step %d: beyond 2^62 samples", p.step)
	}
	return p, nil
}

// layOut appends the spans from b's position up to position: one, and one more wherever a source
// reaches its limit. Where all have, the run ends.
func (st *stream) layOut(b *spanBuilder, position uint64) error {
	for b.position < position {
		if (len(st.spans)+1)*len(b.base) > maxTable {
			return fmt.Errorf("sources: %d with %d times at which their shares change (changes, and sources that reach max_epochs): their product may be %d", len(b.base), len(st.spans)+1, maxTable)
		}
		next, ok := b.span()
		if !ok {
			st.end = b.position
			return nil
		}
		st.spans = append(st.spans, next)
		b.advance(&next, position)
	}
	return nil
}

// A spanBuilder goes through the run from one span to the next.
type spanBuilder struct {
	temperature float64
	names       map[string]int
	weights     []float64
	limits      []uint64 // by source, the most samples ever; never is without limit
	position    uint64
	base        []uint64 // by source, the samples before position
}

func newSpanBuilder(s *Spec) *spanBuilder {
	n := len(s.Sources)
	b := &spanBuilder{
		temperature: s.Temperature, names: make(map[string]int, n),
		weights: startWeights(s), limits: make([]uint64, n), base: make([]uint64, n),
	}
	for i, src := range s.Sources {
		b.names[src.Name] = i
		b.limits[i] = never
		if src.MaxEpochs != 0 {
			if hi, lo := bits.Mul64(src.Samples, src.MaxEpochs); hi == 0 {
				b.limits[i] = lo
			}
		}
	}
	return b
}

// startWeights returns the weights before the first change.
func startWeights(s *Spec) []float64 {
	weighted := s.isWeighted()
	weights := make([]float64, len(s.Sources))
	for i, src := range s.Sources {
		switch {
		case weighted:
			weights[i] = src.Weight
		case src.Upsample != 0:
			weights[i] = float64(src.Samples) * src.Upsample
		default:
			weights[i] = float64(src.Samples)
		}
	}
	return weights
}

func (b *spanBuilder) change(weights map[string]float64) error {
	for name, w := range weights {
		b.weights[b.names[name]] = w
	}
	if !slices.ContainsFunc(b.weights, func(w float64) bool { return w > 0 }) {
		return errors.New("weights: all weights are 0: nothing would be drawn")
	}
	return nil
}

// span returns the span that starts at the position, or false when no source is left.
func (b *spanBuilder) span() (span, bool) {
	weights := slices.Clone(b.weights)
	left := false
	for i := range weights {
		if b.base[i] >= b.limits[i] {
			weights[i] = 0
		}
		left = left || weights[i] > 0
	}
	if !left {
		return span{}, false
	}
	return span{position: b.position, tree: newTree(shares(weights, b.temperature)), base: slices.Clone(b.base)}, true
}

// advance moves to the end of s: to position, or to where the first of its sources is used up.
func (b *spanBuilder) advance(s *span, position uint64) {
	length := position - s.position
	if slices.ContainsFunc(b.limits, func(l uint64) bool { return l != never }) {
		last := make([]uint64, len(b.base)) // the number, in the span, of each source's last sample
		for i := range last {
			last[i] = never
			if left := b.limits[i] - b.base[i]; b.limits[i] != never && left > 0 {
				last[i] = left - 1
			}
		}
		for _, unit := range s.tree.units(last) {
			if unit != never {
				length = min(length, unit+1)
			}
		}
	}
	s.tree.counts(s.tree.root, length, b.base)
	b.position = s.position + length
}

// pace returns the pace of step.
func (st *stream) pace(step uint64) *pace {
	i := sort.Search(len(st.paces), func(i int) bool { return st.paces[i].step > step })
	return &st.paces[i-1]
}

// unchanged returns the steps around step, from first to before end, between which nothing changes.
func (st *stream) unchanged(step uint64) (first, end uint64) {
	i := sort.Search(len(st.paces), func(i int) bool { return st.paces[i].step > step })
	end = never
	if i < len(st.paces) {
		end = st.paces[i].step
	}
	return st.paces[i-1].step, end
}

// span returns the span of position, and where it ends.
func (st *stream) span(position uint64) (s *span, end uint64) {
	i := sort.Search(len(st.spans), func(i int) bool { return st.spans[i].position > position })
	end = st.end
	if i < len(st.spans) {
		end = st.spans[i].position
	}
	return &st.spans[i-1], end
}

// position returns the first position of step, which is below steps.
func (st *stream) position(step uint64) uint64 {
	p := st.pace(step)
	return p.position + (step-p.step)*p.batch
}

// steps returns the number of whole batches before the end.
func (st *stream) steps() uint64 {
	p := st.paces[len(st.paces)-1]
	return p.step + (st.end-p.position)/p.batch
}

// find returns the source of the sample at position, and how many of the source's came before.
func (st *stream) find(position uint64) (source int, count uint64) {
	s, _ := st.span(position)
	source, count = s.tree.find(position - s.position)
	return source, s.base[source] + count
}
