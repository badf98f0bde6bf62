package image

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

func blurStep(b transform.Blur) []transform.Step {
	return []transform.Step{{Kind: transform.StepBlur, Blur: b}}
}

// torchvision blurs in float32 and rounds once; two roundings of 8 bits can be off by one level.
func TestBlurIsWithinOneLevelOfTorchvision(t *testing.T) {
	data, err := os.ReadFile("testdata/blur.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Seed          uint32
			Width, Height int
			Kernel        [2]int
			Sigma         [2]float64
			Pixels        []byte
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Cases) < 10 {
		t.Fatal(len(golden.Cases), err)
	}
	for _, c := range golden.Cases {
		in := pixels{noise(c.Seed, c.Width*c.Height*channels), c.Width, c.Height}
		b := transform.Blur{KernelX: c.Kernel[0], KernelY: c.Kernel[1], SigmaX: c.Sigma[0], SigmaY: c.Sigma[1]}
		got, err := stepsOnPixels(in, bestVariant(), blurStep(b))
		if err != nil {
			t.Fatal(err)
		}
		most, differ := 0, 0
		for i, v := range got.rgb {
			d := int(math.Abs(float64(v) - float64(c.Pixels[i])))
			most = max(most, d)
			differ += d
		}
		if most > 1 || differ > len(got.rgb)/3 {
			t.Errorf("%+v: off by up to %d, %d of %d values differ", b, most, differ, len(got.rgb))
		}
		t.Logf("%+v: off by up to %d, %d of %d values differ", b, most, differ, len(got.rgb))
	}
}

// A picture of one colour stays as it is, however wide the window.
func TestBlurKeepsOneColour(t *testing.T) {
	for value := range 256 {
		in := pixels{bytes.Repeat([]byte{byte(value)}, 33*29*channels), 33, 29}
		got, err := stepsOnPixels(in, bestVariant(), blurStep(transform.Blur{KernelX: 65, KernelY: 57, SigmaX: 0.3 + float64(value)/9, SigmaY: 12}))
		if err != nil || !bytes.Equal(got.rgb, in.rgb) {
			t.Fatalf("%d becomes %v, %v", value, got.rgb[:3], err)
		}
	}
}

func TestBlurRefuses(t *testing.T) {
	in := pixels{make([]byte, 5*4*channels), 5, 4}
	for _, b := range []transform.Blur{
		{KernelX: 4, KernelY: 3, SigmaX: 1, SigmaY: 1}, {KernelX: 11, KernelY: 3, SigmaX: 1, SigmaY: 1}, {KernelX: 3, KernelY: 9, SigmaX: 1, SigmaY: 1},
		{KernelX: 3, KernelY: 3, SigmaY: 1}, {KernelX: 3, KernelY: 3, SigmaX: 1, SigmaY: math.NaN()}, {KernelX: -1, KernelY: 3, SigmaX: 1, SigmaY: 1}, {},
	} {
		if _, err := stepsOnPixels(in, bestVariant(), blurStep(b)); kindOf(err) != transform.KindPlan {
			t.Errorf("%+v: %v, want kind plan", b, err)
		}
	}
}
