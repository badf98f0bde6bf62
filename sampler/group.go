package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const (
	// defaultGroupSteps is how many steps exchange their samples by default.
	defaultGroupSteps = 50
	// maxGrouped bounds the samples that exchange their places, and with them what a Grouped takes.
	maxGrouped = 1 << 22
)

// GroupByLength has steps exchange their samples so that those of one step are of about the same length, and little of a
// padded batch is padding. Which length a sample has, the Spec does not know: the datasets tell.
type GroupByLength struct {
	// Column is the column of the datasets' indexes that tells it: "caption_tokens", "audio.duration_us".
	Column string `json:"column"`
	// Steps is how many steps exchange their samples; default 50. Samples of more steps are sorted more finely, and
	// every rank looks up their lengths at once. Steps times the largest global batch is at most 2^22.
	Steps int64 `json:"steps"`
}

func (g *GroupByLength) validate(s *Spec) error {
	if g == nil {
		return nil
	}
	errs := []error{checkName("group_by_length.column", g.Column)}
	if g.Column == "" {
		errs = append(errs, errors.New("group_by_length.column: empty: name the column of the index that has the lengths"))
	}
	batch := s.GlobalBatch
	for _, c := range s.Changes {
		batch = max(batch, c.GlobalBatch)
	}
	if g.Steps < 1 || g.Steps > maxGrouped || g.Steps*min(batch, maxGlobalBatch) > maxGrouped {
		errs = append(errs, fmt.Errorf("group_by_length.steps: %d: must be at least 1, and times the global batch of %d at most %d", g.Steps, batch, maxGrouped))
	}
	if s.Tokens != nil {
		errs = append(errs, errors.New("group_by_length: samples made of tokens are of one length: leave it out"))
	}
	return errors.Join(errs...)
}

func (g *GroupByLength) clone() *GroupByLength {
	if g == nil {
		return nil
	}
	c := *g
	return &c
}

// text says for people how samples are grouped; other groups have another text.
func (g *GroupByLength) text() string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("column %q, %d steps", g.Column, g.Steps)
}

// window returns the steps from first to before end which exchange samples with step: those of an epoch, by the number
// that the Spec says, and cut at changes and at the run's end. St is nil for a plain Spec; epoch is the steps of an epoch,
// last those of the run.
func (g *GroupByLength) window(st *stream, epoch, last, step uint64) (first, end uint64) {
	if g == nil {
		return step, step + 1
	}
	within := step % epoch
	first = step - within%uint64(g.Steps)
	end = min(first+uint64(g.Steps), step-within+epoch, last)
	if st != nil {
		from, to := st.unchanged(step)
		first, end = max(first, from), min(end, to)
	}
	return first, end
}

// Window returns the first step of those that exchange samples with step, and how many there are: 1 where samples are
// not grouped.
func (s *Sampler) Window(step int64) (first, steps int64) {
	from, to := s.spec.GroupByLength.window(s.stream, s.steps, s.last, s.checkStep(step))
	return int64(from), int64(to - from)
}

// A Grouped is the order of the steps of one window, in which samples are grouped by length. It does not change, and its
// methods may be called concurrently. Those that take a step panic when it is not one of the window.
type Grouped struct {
	s     *Sampler
	first int64
	batch int64
	refs  []SampleRef // step by step
	from  []int32     // by place in refs, where the sample was before
}

// Group returns the order of the window of step. Length gives the length of a sample, in any unit; it is called once for
// every place of the window, in order, and its error ends the call. As what Group does depends on the Spec, the window and
// the lengths alone, every rank and a run that is resumed within the window get the same.
//
// The samples of the window are sorted by length, equal ones by place, and cut into batches. The batches come in an order
// that is random for every seed and window, so that lengths do not rise with the steps; within a batch the samples keep the
// order of the Spec. As it permutes the window, every sample still comes exactly once an epoch.
func (s *Sampler) Group(step int64, length func(SampleRef) (uint64, error)) (*Grouped, error) {
	first, steps := s.Window(step)
	g := &Grouped{s: s, first: first, batch: s.GlobalBatch(first)}
	before := make([]SampleRef, 0, steps*g.batch)
	for k := range steps {
		before = s.Step(first+k, before)
	}
	lengths := make([]uint64, len(before))
	for i, ref := range before {
		var err error
		if lengths[i], err = length(ref); err != nil {
			return nil, err
		}
	}
	g.from = exchange(lengths, int(g.batch), s.spec.Seed, uint64(first))
	g.refs = make([]SampleRef, len(before))
	for i, from := range g.from {
		g.refs[i] = before[from]
		g.refs[i].Position = int64(i) % g.batch
	}
	return g, nil
}

// exchange returns, for every place of a window of whole batches, the place whose sample comes there.
func exchange(lengths []uint64, batch int, seed, window uint64) []int32 {
	sorted := make([]int32, len(lengths))
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortStableFunc(sorted, func(a, b int32) int { return cmp.Compare(lengths[a], lengths[b]) })
	key := keyOf(groupDomain, seed, "")
	var p permutation
	key.permutation(&p, window, 0, uint64(len(lengths)/batch))
	out := make([]int32, 0, len(lengths))
	for len(out) < len(lengths) {
		from := int(p.at(uint64(len(out)/batch))) * batch
		out = append(out, sorted[from:from+batch]...)
		slices.Sort(out[len(out)-batch:])
	}
	return out
}

// Step is Sampler.Step of a step of the window.
func (g *Grouped) Step(step int64, dst []SampleRef) []SampleRef {
	from := g.place(step, 0)
	return append(dst, g.refs[from:from+g.batch]...)
}

// Rank is Sampler.Rank of a step of the window.
func (g *Grouped) Rank(step int64, rank, world int, dst []SampleRef) []SampleRef {
	each := g.s.share(g.batch, rank, world)
	from := g.place(step, int64(rank)*each)
	return append(dst, g.refs[from:from+each]...)
}

// Substitute is Sampler.Substitute of a step of the window: what replaces a sample follows from its place before samples
// were exchanged, and does not depend on its length.
func (g *Grouped) Substitute(step int64, ref SampleRef, attempt int) SampleRef {
	before, at := int64(g.from[g.place(step, ref.Position)]), ref.Position
	ref.Position = before % g.batch
	ref = g.s.Substitute(g.first+before/g.batch, ref, attempt)
	ref.Position = at
	return ref
}

func (g *Grouped) place(step, position int64) int64 {
	if step < g.first || step-g.first >= int64(len(g.refs))/g.batch {
		panic(fmt.Sprintf("sampler: step %d is not one of the %d steps from %d on", step, int64(len(g.refs))/g.batch, g.first))
	}
	return (step-g.first)*g.batch + position
}
