package sampler

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What Explain says is what the steps give.
func TestExplainIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawMixture(t)
		for i := range spec.Sources {
			spec.Sources[i].Samples = min(spec.Sources[i].Samples, 40)
			spec.Sources[i].MaxEpochs = rapid.Uint64Range(0, 3).Draw(t, "max epochs")
		}
		spec.EpochSteps = rapid.Int64Range(1, 20).Draw(t, "epoch steps")
		s := mustNew(t, spec)
		e := s.Explain()
		steps, _ := s.Steps()
		counts := make([]uint64, len(spec.Sources))
		for step := range min(steps, spec.EpochSteps) {
			for _, r := range s.Step(step, nil) {
				n := counts[r.Source]
				counts[r.Source]++
				x, src := e.Sources[r.Source], spec.Sources[r.Source]
				if n == src.Samples && (x.FirstRepeat == nil || *x.FirstRepeat != step) {
					t.Fatalf("source %d repeats in step %d, said %v", r.Source, step, x.FirstRepeat)
				}
				if src.MaxEpochs > 0 && n+1 == src.Samples*src.MaxEpochs && (x.UsedUp == nil || *x.UsedUp != step) {
					t.Fatalf("source %d is used up in step %d, said %v", r.Source, step, x.UsedUp)
				}
			}
		}
		for i, x := range e.Sources {
			if x.Taken != counts[i] || x.Repeats != counts[i]-min(counts[i], x.Samples) {
				t.Fatalf("source %d: %d taken, said %+v", i, counts[i], x)
			}
		}
		for _, stage := range e.Stages {
			sum := 0.0
			for _, share := range stage.Shares {
				sum += share
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("the shares of %+v sum to %v", stage, sum)
			}
		}
	})
}
