package sampler

import (
	"fmt"
	"testing"
)

// BenchmarkMixture reports the cost of a sample of a mixture, with its place in the source's shuffle.
func BenchmarkMixture(b *testing.B) {
	for _, sources := range []int{2, 32, 1000} {
		for _, batch := range []int64{512, 4096} {
			b.Run(fmt.Sprintf("sources=%d/batch=%d", sources, batch), func(b *testing.B) {
				s := benchMixture(b, sources, batch)
				dst := make([]SampleRef, 0, batch)
				step := int64(0)
				b.ReportAllocs()
				for b.Loop() {
					step += 1_000_003
					dst = s.Step(step, dst[:0])
					sink += dst[0].Sample
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/sample")
			})
		}
	}
}

// BenchmarkMixtureRank asks for one rank's 8 samples of 512.
func BenchmarkMixtureRank(b *testing.B) {
	for _, sources := range []int{32, 1000} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			s := benchMixture(b, sources, 512)
			dst := make([]SampleRef, 0, 512)
			step := int64(0)
			for b.Loop() {
				step += 1_000_003
				dst = s.Rank(step, int(step)%64, 64, dst[:0])
				sink += dst[0].Sample
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/sample")
		})
	}
}

func BenchmarkMixtureNew(b *testing.B) {
	for _, sources := range []int{32, 1000} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			for b.Loop() {
				sink += uint64(benchMixture(b, sources, 512).StepsPerEpoch())
			}
		})
	}
}

// benchMixture has weights that fall like 1/rank, and sources of very different sizes.
func benchMixture(b *testing.B, sources int, batch int64) *Sampler {
	spec := Spec{Version: SpecVersion, Seed: 7, GlobalBatch: batch}
	for i := range sources {
		spec.Sources = append(spec.Sources, Source{
			Name: fmt.Sprint("source-", i), Samples: 100_000 + uint64(i*i)*7919, Weight: 1 / float64(1+i),
		})
	}
	s, err := New(spec)
	if err != nil {
		b.Fatal(err)
	}
	return s
}
