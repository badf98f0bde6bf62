package main

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/stepahead-io/stepahead/sampler"
)

// mixtureSpec has sources of 1e5 to 8e9 samples, with weights that fall as 1/rank.
func mixtureSpec(sources int) sampler.Spec {
	s := sampler.Spec{Version: sampler.SpecVersion, Seed: 7, GlobalBatch: globalBatch}
	for i := range sources {
		s.Sources = append(s.Sources, sampler.Source{
			Name: fmt.Sprintf("source-%d", i), Samples: 100_000 + uint64(i*i)*7919, Weight: 1 / float64(1+i),
		})
	}
	return s
}

// mixtureCase asks for whole global batches of a mixture, each sample with its place in its source's shuffle.
func mixtureCase(sources int, bar float64) (benchCase, error) {
	var s *sampler.Sampler
	var err error
	held := heldBy(func() { s, err = sampler.New(mixtureSpec(sources)) })
	if err != nil {
		return benchCase{}, err
	}
	dst := make([]sampler.SampleRef, 0, globalBatch)
	return benchCase{
		name: fmt.Sprintf("Mixture/sources=%d/held=%dB", sources, held), unit: lookUp, bar: bar, per: globalBatch, calls: 200,
		call: func(i int64) { dst = s.Step(i*1_000_003, dst[:0]) },
	}, nil
}

// heldBy returns how many bytes of the heap what make makes keeps.
func heldBy(make func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc
}

// A resumption goes from the bytes of a state to the batch of its step.
type resumption struct {
	name string
	spec sampler.Spec
	step int64
}

// resumes are a late step of a large source, and 90 % of the first epoch of 10^9 samples, of one source
// and of 32. None may cost more than another because of its step.
func resumes() []resumption {
	const step = 9 * (1_000_000_000 / globalBatch) / 10
	mixed := mixtureSpec(32)
	mixed.EpochSteps = 1_000_000_000 / globalBatch
	return []resumption{{"Resume", spec(1e12), 1e9}, {"Resume90/sources=1", spec(1e9), step}, {"Resume90/sources=32", mixed, step}}
}

func (r resumption) benchCase() (benchCase, error) {
	first, err := sampler.New(r.spec)
	if err != nil {
		return benchCase{}, err
	}
	saved := first.State([32]byte{}, r.step, sampler.Policy{}).Marshal()
	want := first.Step(r.step, nil)
	return benchCase{name: fmt.Sprintf("%s/state=%dB", r.name, len(saved)), unit: "ns/resume", bar: 1e6, per: 1, calls: 100,
		call: func(int64) {
			if err := resume(r.spec, saved, want); err != nil {
				panic(err)
			}
		}}, nil
}

func resume(spec sampler.Spec, saved []byte, want []sampler.SampleRef) error {
	st, err := sampler.ParseState(saved)
	if err != nil {
		return err
	}
	s, err := sampler.New(spec)
	if err != nil {
		return err
	}
	if err := st.Check(s, [32]byte{}); err != nil {
		return err
	}
	if got := s.Step(st.Step, nil); !slices.Equal(got, want) {
		return fmt.Errorf("resumed at %v, want %v", got[0], want[0])
	}
	return nil
}
