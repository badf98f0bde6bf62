package pixel

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// timed are the steps that benchmarks and the comparison with Pillow's speed take.
func timed() []transform.Step {
	sin, cos := math.Sincos(math.Pi / 9)
	turned := [6]float64{cos, sin, -30, -sin, cos, 45}
	return []transform.Step{
		{Kind: transform.StepCrop, Box: transform.Box{X: -16, Y: -16, W: 256, H: 256}, Pad: transform.PadReflect},
		{Kind: transform.StepFlip},
		{Kind: transform.StepFlipVertical},
		{Kind: transform.StepAffine, Width: 224, Height: 224, Matrix: turned, Filter: transform.Nearest},
		{Kind: transform.StepAffine, Width: 224, Height: 224, Matrix: turned, Filter: transform.Bilinear},
		{Kind: transform.StepErase, Box: transform.Box{X: 50, Y: 50, W: 100, H: 100}},
		{Kind: transform.StepErase, Box: transform.Box{X: 50, Y: 50, W: 100, H: 100}, Noise: true},
		{Kind: transform.StepGrayscale},
		{Kind: transform.StepBrightness, Factor: 1.3},
		{Kind: transform.StepContrast, Factor: 1.3},
		{Kind: transform.StepSaturation, Factor: 1.3},
		{Kind: transform.StepSharpness, Factor: 1.3},
		{Kind: transform.StepHue, Level: 25},
		{Kind: transform.StepInvert},
		{Kind: transform.StepPosterize, Level: 4},
		{Kind: transform.StepSolarize, Level: 128},
		{Kind: transform.StepAutoContrast},
		{Kind: transform.StepEqualize},
	}
}

func label(s transform.Step) string {
	return fmt.Sprint(s.Kind, s.Filter, map[bool]string{true: "-noise"}[s.Noise])
}

// BenchmarkApply reports the least time too, which a busy machine disturbs least.
func BenchmarkApply(b *testing.B) {
	for _, s := range timed() {
		b.Run(label(s), func(b *testing.B) { timeStep(b, s) })
	}
}

func timeStep(b *testing.B, s transform.Step) {
	source, out := madeUp(3, 224, 224, 0), make([]byte, 1<<18)
	least := time.Duration(math.MaxInt64)
	for b.Loop() {
		im := source.clone() // steps work in place
		start := time.Now()
		if _, err := Apply(s, im, func(n int) []byte { return out[:n] }); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(start))
	}
	b.ReportMetric(float64(least.Nanoseconds())/1e6, "least-ms")
}

// TestSpeedBesidePillow prints the least time of each step here and in Pillow, for docs/operators.md.
func TestSpeedBesidePillow(t *testing.T) {
	testdata.Soak(t)
	var cases []reference
	for _, s := range timed() {
		cases = append(cases, reference{Seed: 3, Width: 224, Height: 224, Steps: []stepRow{rowOf(s)}})
	}
	theirs := ask[float64](t, cases, "--time")
	for i, s := range timed() {
		ours := testing.Benchmark(func(b *testing.B) { timeStep(b, s) }).Extra["least-ms"]
		t.Logf("%-20s %.3f ms, Pillow %.3f ms", label(s), ours, theirs[i])
	}
}
