package pixel

import (
	"bytes"
	"fmt"
	"math"
	"testing"

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

func BenchmarkApply(b *testing.B) {
	source := madeUp(3, 224, 224, 0)
	for _, s := range timed() {
		b.Run(label(s), func(b *testing.B) {
			pix, out := bytes.Clone(source.Pix), make([]byte, 1<<18)
			b.SetBytes(int64(len(pix)))
			for b.Loop() {
				copy(pix, source.Pix) // steps work in place
				if _, err := Apply(s, Image{W: 224, H: 224, Pix: pix}, func(n int) []byte { return out[:n] }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
