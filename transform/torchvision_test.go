package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// torchvisionFile is what torchvision's own operators do when their random numbers come from our stream.
type torchvisionFile struct {
	Operators []struct {
		Op            json.RawMessage
		Width, Height int
		Sample        uint64
		Steps         []torchvisionStep
		Shape         []int
	}
	Tails []struct {
		Ops           json.RawMessage
		Width, Height int
		Sample        uint64
		SHA256        string
	}
}

type torchvisionStep struct {
	Kind          StepKind
	Box           [4]int
	Level         int
	Filter        Filter
	Factor, Sigma string
	Matrix        []string
	Key           string // of noise
}

func TestDrawsEqualTorchvision(t *testing.T) {
	var g torchvisionFile
	readGolden(t, "torchvision.json", &g)
	seen := map[StepKind]int{}
	for _, want := range g.Operators {
		steps, shape := resolved(t, string(want.Op), want.Width, want.Height, want.Sample)
		if !slices.Equal(shape, want.Shape) {
			t.Errorf("%s of %d x %d, sample %d: shape %v, torchvision has %v", want.Op, want.Width, want.Height, want.Sample, shape, want.Shape)
		}
		theirs := slices.DeleteFunc(want.Steps, func(s torchvisionStep) bool { return withoutEffect(t, s, want.Width, want.Height) })
		if theirs == nil { // it does not say: flips, borders, grey
			continue
		}
		if len(steps) != len(theirs) {
			t.Errorf("%s of %d x %d, sample %d: %d steps %+v, torchvision has %+v", want.Op, want.Width, want.Height, want.Sample, len(steps), steps, theirs)
			continue
		}
		for i, s := range steps {
			seen[s.Kind]++
			if why := differs(t, s, theirs[i]); why != "" {
				t.Errorf("%s of %d x %d, sample %d, step %d: %s: %+v, torchvision has %+v", want.Op, want.Width, want.Height, want.Sample, i, why, s, theirs[i])
			}
		}
	}
	for _, kind := range []StepKind{StepCrop, StepAffine, StepErase, StepBlur, StepBrightness, StepContrast, StepSaturation, StepSharpness,
		StepHue, StepPosterize, StepSolarize, StepAutoContrast, StepEqualize} {
		if seen[kind] < 3 {
			t.Errorf("%s is compared %d times", kind, seen[kind])
		}
	}
}

// withoutEffect says that Pillow does nothing, which our plans leave out.
func withoutEffect(t *testing.T, s torchvisionStep, w, h int) bool {
	switch s.Kind {
	case StepCrop:
		return s.Box == [4]int{0, 0, w, h}
	case StepErase:
		return s.Box[2] == 0 || s.Box[3] == 0
	case StepAffine:
		return matrixOf(t, s) == [6]float64{1, 0, 0, 0, 1, 0}
	case StepPosterize:
		return s.Level == 8
	}
	return s.Factor != "" && hexFloat(t, s.Factor) == 1
}

func matrixOf(t *testing.T, s torchvisionStep) (m [6]float64) {
	t.Helper()
	for i, x := range s.Matrix {
		m[i] = hexFloat(t, x)
	}
	return m
}

// differs says in what our step is not torchvision's, "" if it is.
func differs(t *testing.T, s Step, theirs torchvisionStep) string {
	t.Helper()
	if theirs.Kind == StepAffine {
		m := matrixOf(t, theirs)
		if m[0] == 1 && m[1] == 0 && m[3] == 0 && m[4] == 1 { // whole steps aside are a crop here
			theirs.Kind, theirs.Box = StepCrop, [4]int{int(m[2]), int(m[5]), s.Width, s.Height}
		}
	}
	switch {
	case s.Kind != theirs.Kind:
		return "kind"
	case s.Box != Box{theirs.Box[0], theirs.Box[1], theirs.Box[2], theirs.Box[3]}:
		return "box"
	case s.Level != theirs.Level:
		return "level"
	case s.Noise != (theirs.Key != "") || s.Noise && hex.EncodeToString(s.Key[:]) != theirs.Key:
		return "noise"
	case theirs.Factor != "" && s.Factor != hexFloat(t, theirs.Factor):
		return "factor"
	case theirs.Sigma != "" && s.Blur.SigmaX != hexFloat(t, theirs.Sigma):
		return "sigma"
	case s.Kind == StepAffine && s.Filter != theirs.Filter:
		return "filter"
	case s.Kind == StepAffine && !sameMatrix(s.Matrix, matrixOf(t, theirs)):
		return "matrix"
	}
	return ""
}

// sameMatrix allows a shear, for which torchvision goes through degrees, four units in the last place.
func sameMatrix(a, b [6]float64) bool {
	for i := range a {
		if i&1 == 1 && a[0] == 1 && math.Abs(a[i]-b[i]) <= 4*0x1p-53*math.Abs(b[i]) {
			continue
		}
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// goldenPicture is the picture of testdata/torchvision_draws.py.
func goldenPicture(width, height int) []byte {
	pixels := make([]byte, 3*width*height)
	for i, state := 0, uint32(1); i < len(pixels); i++ {
		state = state*1664525 + 1013904223
		c := uint32(i % 3)
		pixels[i] = byte(20 + 7*c + (state>>24)*(90+40*c)>>8)
	}
	return pixels
}

func TestTailsEqualTorchvision(t *testing.T) {
	var g torchvisionFile
	readGolden(t, "torchvision.json", &g)
	for _, want := range g.Tails {
		ops := strings.TrimPrefix(strings.TrimSpace(string(want.Ops)), "[")
		p, err := ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},` + ops + `}`))
		if err != nil {
			t.Fatal(err)
		}
		_, rest := p.Cut()
		f, err := NewFinisher(rest, 3)
		if err != nil {
			t.Fatal(err)
		}
		src := goldenPicture(want.Width, want.Height)
		dst := make([]byte, f.Spec(TensorSpec{Shape: []int{len(src)}}).Bytes())
		f.Apply(dst, src)
		f.Erase(dst, want.Height, want.Width, Key{Seed: 7, Sample: want.Sample})
		if sum := sha256.Sum256(dst); hex.EncodeToString(sum[:]) != want.SHA256 {
			t.Errorf("%s, sample %d: other bytes than torchvision's", want.Ops, want.Sample)
		}
	}
}

// Ours err by no more than two units in the last place of math's, which is correct to one, or where a result is near
// zero by the rounding of a number near one.
func TestAnglesEqualMath(t *testing.T) {
	for i := -2000; i <= 2000; i++ {
		x := float64(i) * 0.0099
		for name, pair := range map[string][2]float64{"sin": {sine(x), math.Sin(x)}, "cos": {cosine(x), math.Cos(x)}} {
			if d := math.Abs(pair[0] - pair[1]); d > 2*0x1p-53 {
				t.Errorf("%s(%v) is %v, math has %v: %g apart", name, x, pair[0], pair[1], d)
			}
		}
	}
}

// Rotations of the angles that RandAugment knows are Pillow's to the last bit: reference values computed with Python.
func TestRounding15(t *testing.T) {
	for x, want := range map[float64]float64{
		0.1: 0.1, 1.0 / 3: 0.333333333333333, 2.0 / 3: 0.666666666666667, -0.9999999999999999: -1, 0x1p-60: 0, 0.8660254037844387: 0.866025403784439,
	} {
		if got := round15(x); got != want {
			t.Errorf("%s: %v, want %v", fmt.Sprint(x), got, want)
		}
	}
}
