package pixel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
)

func TestRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		says string
		step transform.Step
	}{
		{"not a step", transform.Step{}},
		{"not a step", transform.Step{Kind: "sepia"}},
		{"not a step", transform.Step{Kind: transform.StepResize, Width: 3, Height: 3}},
		{"not a step", transform.Step{Kind: transform.StepBlur}},
		{"pad", transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 1, H: 1}, Pad: "wrap"}},
		{"0 x 1", transform.Step{Kind: transform.StepCrop, Box: transform.Box{H: 1}}},
		{"3 x -1", transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 3, H: -1}}},
		{"sides", transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: math.MaxInt, H: math.MaxInt}}},
		{"the most", transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: maxSide, H: maxSide}}},
		{"more than there is room", transform.Step{Kind: transform.StepCrop, Box: transform.Box{W: 1 << 15, H: 1 << 15}}},
		{"positions", transform.Step{Kind: transform.StepCrop, Box: transform.Box{X: math.MinInt, W: 1, H: 1}}},
		{"positions", transform.Step{Kind: transform.StepCrop, Box: transform.Box{Y: math.MaxInt, W: 1, H: 1}}},
		{"inside", transform.Step{Kind: transform.StepErase}},
		{"inside", transform.Step{Kind: transform.StepErase, Box: transform.Box{X: -1, W: 1, H: 1}}},
		{"inside", transform.Step{Kind: transform.StepErase, Box: transform.Box{X: 1, W: 5, H: 1}}},
		{"inside", transform.Step{Kind: transform.StepErase, Box: transform.Box{X: math.MaxInt, Y: math.MinInt, W: math.MaxInt, H: math.MaxInt}}},
		{"finite", transform.Step{Kind: transform.StepBrightness, Factor: nan}},
		{"finite", transform.Step{Kind: transform.StepContrast, Factor: inf}},
		{"finite", transform.Step{Kind: transform.StepSaturation, Factor: -1e39}},
		{"finite", transform.Step{Kind: transform.StepSharpness, Factor: nan}},
		{"bits", transform.Step{Kind: transform.StepPosterize}},
		{"bits", transform.Step{Kind: transform.StepPosterize, Level: 9}},
		{"bits", transform.Step{Kind: transform.StepPosterize, Level: math.MinInt}},
		{"filter", transform.Step{Kind: transform.StepAffine, Width: 1, Height: 1}},
		{"filter", transform.Step{Kind: transform.StepAffine, Width: 1, Height: 1, Filter: transform.Lanczos}},
		{"finite", transform.Step{Kind: transform.StepAffine, Width: 1, Height: 1, Filter: transform.Nearest, Matrix: [6]float64{4: nan}}},
		{"finite", transform.Step{Kind: transform.StepAffine, Width: 1, Height: 1, Filter: transform.Nearest, Matrix: [6]float64{2: -inf}}},
		{"0 x 0", transform.Step{Kind: transform.StepAffine, Filter: transform.Nearest}},
	} {
		im := madeUp(1, 5, 4, 0)
		_, err := Apply(c.step, im, small)
		var e *transform.Error
		if !errors.As(err, &e) || e.Kind != transform.KindPlan || !strings.Contains(e.Detail, c.says) {
			t.Errorf("%+v: %v, want an error of kind plan that says %q", c.step, err, c.says)
		}
		if !bytes.Equal(im.Pix, madeUp(1, 5, 4, 0).Pix) {
			t.Errorf("%+v: the picture has changed", c.step)
		}
	}
}

func TestRefusesPictures(t *testing.T) {
	for _, im := range []Image{{}, {W: 1, H: 1}, {W: 2, H: 1, Pix: make([]byte, 3)}, {W: -1, H: -1, Pix: make([]byte, 3)}, {W: 1 << 32, H: 1 << 32}, {W: maxSide + 1, H: 1}} {
		if _, err := Apply(transform.Step{Kind: transform.StepInvert}, im, small); err == nil {
			t.Errorf("%d x %d pixels in %d bytes: no error", im.W, im.H, len(im.Pix))
		}
	}
}

func TestHandles(t *testing.T) {
	for _, k := range everyKind {
		if !Handles(k) {
			t.Errorf("%s is not handled", k)
		}
	}
	for _, k := range []transform.StepKind{transform.StepResize, transform.StepBlur, ""} {
		if Handles(k) {
			t.Errorf("%q is handled", k)
		}
	}
}

// small refuses more than a mebibyte.
func small(n int) []byte {
	if n > 1<<20 {
		return nil
	}
	return make([]byte, n)
}

// FuzzApply runs any step on any small picture. It ends, with a picture of the size it says or an error of kind plan, and
// gives the same twice.
func FuzzApply(f *testing.F) {
	for i, k := range everyKind {
		for _, v := range []int64{0, 1, -1, 5, 200, math.MaxInt64, math.MinInt64, 1 << 27} {
			f.Add(uint8(i), uint8(v), uint8(3*v+2), v, v+1, v+3, v, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v)/3)), 7), string(k))
		}
	}
	f.Add(uint8(3), uint8(20), uint8(9), int64(0), int64(0), int64(9), int64(20), bytes.Repeat([]byte{0xff}, 56), "nearest")
	f.Fuzz(func(t *testing.T, kind, w, h uint8, x, y, bw, bh int64, numbers []byte, word string) {
		s := transform.Step{
			Kind: everyKind[int(kind)%len(everyKind)], Box: transform.Box{X: int(x), Y: int(y), W: int(bw), H: int(bh)}, Width: int(bw), Height: int(bh),
			Level: int(x), Noise: y&1 == 1, Fill: [3]uint8{w, h, kind}, Filter: transform.Filter(word), Pad: transform.PadMode(word),
		}
		if kind&0x80 != 0 {
			s.Filter, s.Pad = transform.Bilinear, transform.PadReflect
		} else if kind&0x40 != 0 {
			s.Filter, s.Pad = transform.Nearest, transform.PadSymmetric
		}
		for i := 0; len(numbers) >= 8; i, numbers = i+1, numbers[8:] {
			v := math.Float64frombits(binary.LittleEndian.Uint64(numbers))
			if i < len(s.Matrix) {
				s.Matrix[i] = v
			}
			s.Factor = v
		}
		first, err := Apply(s, madeUp(uint32(w), int(w), int(h), 0), small)
		second, err2 := Apply(s, madeUp(uint32(w), int(w), int(h), 0), small)
		var e *transform.Error
		if err != nil {
			if !errors.As(err, &e) || e.Kind != transform.KindPlan || e.Detail == "" || err.Error() != err2.Error() {
				t.Fatalf("%+v: %v, the second time %v", s, err, err2)
			}
			return
		}
		if len(first.Pix) != channels*first.W*first.H || !bytes.Equal(first.Pix, second.Pix) {
			t.Fatalf("%+v: %d x %d pixels in %d bytes, or two runs differ", s, first.W, first.H, len(first.Pix))
		}
	})
}
