package pixel

import (
	"bytes"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// drawPicture draws a picture of few or of many values.
func drawPicture(t *rapid.T) Image {
	w, h := rapid.IntRange(1, 24).Draw(t, "width"), rapid.IntRange(1, 24).Draw(t, "height")
	return madeUp(rapid.Uint32().Draw(t, "seed"), w, h, rapid.IntRange(0, 255).Draw(t, "few"))
}

func (im Image) clone() Image { return Image{W: im.W, H: im.H, Pix: bytes.Clone(im.Pix)} }

// does applies a step to a copy of im.
func does(t *rapid.T, im Image, s transform.Step) Image {
	t.Helper()
	out, err := Apply(s, im.clone(), allocate)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if len(out.Pix) != channels*out.W*out.H {
		t.Fatalf("%+v: %d bytes for %d x %d pixels", s, len(out.Pix), out.W, out.H)
	}
	return out
}

func same(t *rapid.T, what string, got, want Image) {
	t.Helper()
	if got.W != want.W || got.H != want.H || !bytes.Equal(got.Pix, want.Pix) {
		t.Fatalf("%s:\n%d x %d %v, want\n%d x %d %v", what, got.W, got.H, got.Pix, want.W, want.H, want.Pix)
	}
}

func TestWhatIsDoneTwiceIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		for _, kind := range []transform.StepKind{transform.StepFlip, transform.StepFlipVertical, transform.StepInvert} {
			s := transform.Step{Kind: kind}
			same(t, string(kind), does(t, does(t, im, s), s), im)
		}
	})
}

func TestFactorsZeroAndOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		for _, kind := range []transform.StepKind{transform.StepBrightness, transform.StepContrast, transform.StepSaturation, transform.StepSharpness} {
			same(t, string(kind), does(t, im, transform.Step{Kind: kind, Factor: 1}), im)
		}
		grey := does(t, im, transform.Step{Kind: transform.StepGrayscale})
		same(t, "saturation 0", does(t, im, transform.Step{Kind: transform.StepSaturation}), grey)
		same(t, "grey twice", does(t, grey, transform.Step{Kind: transform.StepGrayscale}), grey)
		black := does(t, im, transform.Step{Kind: transform.StepBrightness})
		same(t, "brightness 0", black, Image{W: im.W, H: im.H, Pix: make([]byte, len(im.Pix))})
		flat := does(t, im, transform.Step{Kind: transform.StepContrast})
		if bytes.Count(flat.Pix, flat.Pix[:1]) != len(flat.Pix) {
			t.Fatalf("contrast 0 is not one grey: %v", flat.Pix)
		}
	})
}

// Inside the picture every mode is the same crop; outside, a pixel depends only on how far outside it is.
func TestCropByDefinition(t *testing.T) {
	modes := map[transform.PadMode]func(i, n int) int{
		transform.PadConstant:  func(i, n int) int { return map[bool]int{true: i, false: -1}[i >= 0 && i < n] },
		transform.PadEdge:      func(i, n int) int { return max(0, min(i, n-1)) },
		transform.PadReflect:   func(i, n int) int { return walk(i, n, 0) },
		transform.PadSymmetric: func(i, n int) int { return walk(i, n, 1) },
	}
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		at, size := rapid.IntRange(-70, 70), rapid.IntRange(1, 40)
		s := transform.Step{Kind: transform.StepCrop, Fill: [3]uint8{7, 8, 9}}
		s.Box = transform.Box{X: at.Draw(t, "x"), Y: at.Draw(t, "y"), W: size.Draw(t, "w"), H: size.Draw(t, "h")}
		for mode, index := range modes {
			s.Pad = mode
			want := Image{W: s.Box.W, H: s.Box.H}
			for y := range s.Box.H {
				for x := range s.Box.W {
					p := s.Fill[:]
					if r, c := index(s.Box.Y+y, im.H), index(s.Box.X+x, im.W); r >= 0 && c >= 0 {
						p = im.row(r)[channels*c:][:channels]
					}
					want.Pix = append(want.Pix, p...)
				}
			}
			same(t, string(mode), does(t, im, s), want)
		}
	})
}

// walk goes from 0 to i step by step and turns round at the ends, staying there for so many steps.
func walk(i, n, stay int) int {
	at, forward := 0, i > 0
	for range max(i, -i) {
		if n == 1 {
			return 0
		}
		if next := at + map[bool]int{true: 1, false: -1}[forward]; next >= 0 && next < n {
			at = next
			continue
		}
		forward = !forward
		if stay == 0 {
			at += map[bool]int{true: 1, false: -1}[forward]
		}
	}
	return at
}

// Moving by whole pixels is a crop, and turning by right angles moves pixels without changing them, in either filter.
func TestAffineOfWholePixels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		dx, dy := rapid.IntRange(-30, 30).Draw(t, "dx"), rapid.IntRange(-30, 30).Draw(t, "dy")
		fill := [3]uint8{3, 2, 1}
		moved := does(t, im, transform.Step{Kind: transform.StepCrop, Box: transform.Box{X: dx, Y: dy, W: im.W, H: im.H}, Fill: fill})
		around := does(t, does(t, im, transform.Step{Kind: transform.StepFlip}), transform.Step{Kind: transform.StepFlipVertical})
		for _, f := range []transform.Filter{transform.Nearest, transform.Bilinear} {
			s := transform.Step{Kind: transform.StepAffine, Filter: f, Width: im.W, Height: im.H, Fill: fill}
			s.Matrix = [6]float64{1, 0, float64(dx), 0, 1, float64(dy)}
			same(t, "moved "+string(f), does(t, im, s), moved)
			s.Matrix = [6]float64{-1, 0, float64(im.W), 0, -1, float64(im.H)}
			same(t, "turned by 180 "+string(f), does(t, im, s), around)
			s.Matrix, s.Width, s.Height = [6]float64{0, 1, 0, -1, 0, float64(im.H)}, im.H, im.W
			quarter := does(t, im, s)
			s.Matrix, s.Width, s.Height = [6]float64{0, -1, float64(im.H), 1, 0, 0}, im.W, im.H
			same(t, "turned by 90 and back "+string(f), does(t, quarter, s), im)
		}
	})
}

// Every way of nearest finds the same pixels where no rounding decides.
func TestNearestWaysAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		part := func(name string) float64 { return float64(rapid.IntRange(-512, 512).Draw(t, name))/128 + 1./1024 }
		m := [6]float64{part("m0"), part("m1"), part("m2"), part("m3"), part("m4"), part("m5")}
		fixed, float := newTestImage(20, 20), newTestImage(20, 20)
		fixedNearest(fixed, im, m)
		floatNearest(float, im, m)
		same(t, "fixed and float", fixed, float)
		m[1], m[3] = 0, 0
		fixed, float = newTestImage(20, 20), newTestImage(20, 20)
		scaleNearest(fixed, im, m)
		floatNearest(float, im, m)
		same(t, "scaled and float", fixed, float)
	})
}

func newTestImage(w, h int) Image { return Image{W: w, H: h, Pix: make([]byte, channels*w*h)} }

// What a pixel becomes by an operator of single values or colours does not depend on its neighbours.
func TestPixelsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawPicture(t)
		for _, s := range []transform.Step{
			{Kind: transform.StepGrayscale}, {Kind: transform.StepInvert}, {Kind: transform.StepPosterize, Level: 3},
			{Kind: transform.StepSolarize, Level: 99}, {Kind: transform.StepHue, Level: 77},
			{Kind: transform.StepBrightness, Factor: 1.7}, {Kind: transform.StepSaturation, Factor: 0.3},
		} {
			out := does(t, im, s)
			for i := 0; i < len(im.Pix); i += channels {
				one := does(t, Image{W: 1, H: 1, Pix: im.Pix[i : i+channels]}, s)
				if !bytes.Equal(one.Pix, out.Pix[i:i+channels]) {
					t.Fatalf("%+v: pixel %d alone becomes %v, among others %v", s, i, one.Pix, out.Pix[i:i+channels])
				}
			}
		}
	})
}

// The noise of an erased box is the stream of words that draws take, byte by byte.
func TestNoiseIsOneStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key"))
		whole := make([]byte, 300)
		(&noise{key: key}).read(whole)
		parts := noise{key: key}
		for at := 0; at < len(whole); {
			n := min(rapid.IntRange(0, 70).Draw(t, "n"), len(whole)-at)
			got := make([]byte, n)
			parts.read(got)
			if !bytes.Equal(got, whole[at:at+n]) {
				t.Fatalf("bytes %d to %d differ when they are read in parts", at, at+n)
			}
			at += n
		}
	})
}

// Smoothing in integers is Pillow's rounding of its float32 sum, for every sum that nine pixels can have.
func TestSmoothRounds(t *testing.T) {
	for sum := range uint32(13*255 + 1) {
		if want := uint8(math.Floor(float64(sum)/13 + 0.5)); smooth(sum) != want {
			t.Errorf("%d/13 rounds to %d, want %d", sum, smooth(sum), want)
		}
	}
}

// Whole numbers give the hue of Pillow's floating point for every colour. Only differences count, so one of the
// channels is 0.
func TestHueEqualsFloat(t *testing.T) {
	w := newWheel(0)
	for value := 1; value < 256; value++ {
		for middle := range value + 1 {
			for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
				var p [channels]byte
				p[order[0]], p[order[1]] = byte(value), byte(middle)
				if got, want := w.hueOf(&p, byte(value), uint32(value)), floatHue(p[0], p[1], p[2]); got != want {
					t.Fatalf("%v has hue %d, Pillow computes %d", p, got, want)
				}
			}
		}
	}
}

// floatHue is Pillow's arithmetic.
func floatHue(r, g, b uint8) uint8 {
	value := max(r, g, b)
	spread := float32(value - min(r, g, b))
	rc, gc, bc := float32(value-r)/spread, float32(value-g)/spread, float32(value-b)/spread
	var h float32
	switch value {
	case r:
		h = bc - gc
	case g:
		h = float32(2 + float64(rc) - float64(bc))
	default:
		h = float32(4 + float64(gc) - float64(rc))
	}
	return uint8(float64(float32(math.Mod(float64(h)/6+1, 1))) * 255)
}

// Whole numbers give the colour of Pillow's floating point for every hue and saturation, and, in the long run, every value.
func TestColourEqualsFloat(t *testing.T) {
	step := 17
	if os.Getenv(testdata.SoakEnv) != "" {
		step = 1
	}
	w := newWheel(0)
	for v := 0; v < 256; v += step {
		for s := range 256 {
			if v > 0 && w.divide(uint32(255*(s*v/255)), uint8(v)) != uint32(float64(float32(s*v/255)/float32(v))*255) {
				t.Fatalf("the saturation of %d in %d differs", s*v/255, v)
			}
			for h := range 256 {
				var got [channels]byte
				w.spokes[h].paint(&got, uint32(v), uint32(s))
				if want := floatColour(uint8(h), uint8(s), uint8(v)); got != want {
					t.Fatalf("hue %d, saturation %d, value %d: %v, Pillow computes %v", h, s, v, got, want)
				}
			}
		}
	}
}

// floatColour is Pillow's arithmetic.
func floatColour(h, s, v uint8) [channels]byte {
	sector := int(float64(h) * 6 / 255)
	into, share := float32(float64(h)*6/255-float64(sector)), float32(float64(s)/255)
	p := uint8(math.Round(float64(v) * (1 - float64(share))))
	q := uint8(math.Round(float64(v) * (1 - float64(float32(share*into)))))
	t := uint8(math.Round(float64(v) * (1 - float64(float64(share)*(1-float64(into))))))
	return [][channels]byte{{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}[sector%6]
}
