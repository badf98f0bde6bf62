package pybind

import (
	"encoding/json"
	"fmt"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler"
)

// given are the arguments of DataLoader.give.
type given struct {
	Number *uint64     `json:"number"` // nil: that of what was given before
	First  *int64      `json:"first"`  // nil: the next step
	Steps  []givenStep `json:"steps"`
}

// givenStep is one step. Sources are indices, none: all samples are of the first; without an epoch the step's own
// number keys what is random.
type givenStep struct {
	Sources []int32  `json:"sources"`
	Samples []uint64 `json:"samples"`
	Epoch   *uint64  `json:"epoch"`
}

// Give tells a loader whose order is given the samples of its next steps, as JSON. It must not be called
// concurrently with Next.
func Give(handle int64, steps string) (err error) {
	_, err = ask("Give", handle, func(l *loader.Loader) (any, error) {
		var g given
		if err := json.Unmarshal([]byte(steps), &g); err != nil {
			return nil, &optionError{fmt.Errorf("give: %w", err)}
		}
		number, first := l.NextGiven()
		if g.Number != nil {
			if *g.Number > number {
				first = l.State().Step
			}
			number = *g.Number
		}
		if g.First != nil {
			first = *g.First
		}
		refs, err := g.refs(first)
		if err != nil {
			return nil, &optionError{err}
		}
		return nil, l.Give(number, first, refs)
	})
	return err
}

func (g given) refs(first int64) ([][]sampler.SampleRef, error) {
	steps := make([][]sampler.SampleRef, len(g.Steps))
	for i, s := range g.Steps {
		step := first + int64(i)
		if len(s.Sources) > 0 && len(s.Sources) != len(s.Samples) {
			return nil, fmt.Errorf("step %d: %d sources for %d samples", step, len(s.Sources), len(s.Samples))
		}
		epoch := uint64(step)
		if s.Epoch != nil {
			epoch = *s.Epoch
		}
		refs := make([]sampler.SampleRef, len(s.Samples))
		for at, sample := range s.Samples {
			refs[at] = sampler.SampleRef{Sample: sample, Epoch: epoch}
			if len(s.Sources) > 0 {
				refs[at].Source = s.Sources[at]
			}
		}
		steps[i] = refs
	}
	return steps, nil
}
