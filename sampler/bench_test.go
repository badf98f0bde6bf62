package sampler

import (
	"fmt"
	"testing"
)

// benchSizes are two sizes close below a power of two, where nearly every value is in range at the
// first pass, and two directly above one, where every second value walks on.
var benchSizes = []uint64{1e6, 1<<20 + 1, 1e12, 1<<40 + 1}

var sink uint64

// BenchmarkStep reports the cost of a look-up when a whole global batch is asked for.
func BenchmarkStep(b *testing.B) { benchLookUps(b, 512, 1) }

// BenchmarkRank reports the cost of a look-up when one rank asks for its 8 samples.
func BenchmarkRank(b *testing.B) { benchLookUps(b, 512, 64) }

// BenchmarkSingle reports the cost of a look-up when every call asks for one sample.
func BenchmarkSingle(b *testing.B) { benchLookUps(b, 1, 1) }

func benchLookUps(b *testing.B, batch int64, world int) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s, err := New(testSpec(n, batch))
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]SampleRef, 0, batch)
			step := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				step += 1_000_003 // anywhere: every call is a seek
				dst = s.Rank(step, int(step)%world, world, dst[:0])
				sink += dst[0].Sample
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch)*float64(world), "ns/look-up")
		})
	}
}

// BenchmarkResume reports the time from the bytes of a state to the first batch of the rest of the run.
func BenchmarkResume(b *testing.B) {
	spec := testSpec(1e12, 512)
	first, err := New(spec)
	if err != nil {
		b.Fatal(err)
	}
	saved := first.State([32]byte{}, 1e9, Policy{}).Marshal()
	dst := make([]SampleRef, 0, 512)
	b.ReportMetric(float64(len(saved)), "state-bytes")
	for b.Loop() {
		st, err := ParseState(saved)
		if err != nil {
			b.Fatal(err)
		}
		s, err := New(spec)
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Check(s, [32]byte{}); err != nil {
			b.Fatal(err)
		}
		dst = s.Step(st.Step, dst[:0])
		sink += dst[0].Sample
	}
}
