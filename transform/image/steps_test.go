package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/pixel"
	"pgregory.net/rapid"
)

// noise returns n bytes that any language can make: SHA-256 over u32le seed and u32le block, block after block.
func noise(seed uint32, n int) []byte {
	b := make([]byte, 0, n+sha256.Size)
	for block := uint32(0); len(b) < n; block++ {
		sum := sha256.Sum256(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, seed), block))
		b = append(b, sum[:]...)
	}
	return b[:n]
}

// pixels is a finished picture, for the reference below.
type pixels struct {
	rgb  []byte
	w, h int
}

// The reference: one step after the other, the plainest way.

func (p pixels) apply(s transform.Step) pixels {
	switch s.Kind {
	case transform.StepCrop:
		return p.cropped(s.Box)
	case transform.StepFlip:
		return p.flipped()
	case transform.StepResize:
		return p.resized(s)
	case transform.StepBlur:
		return p.blurred(s.Blur)
	}
	im, err := pixel.Apply(s, pixel.Image{W: p.w, H: p.h, Pix: bytes.Clone(p.rgb)}, func(n int) []byte { return make([]byte, n) })
	if err != nil {
		panic(err)
	}
	return pixels{im.Pix, im.W, im.H}
}

// blurred reads whatever a window reaches, mirrored at the borders, once across and once along.
func (p pixels) blurred(b transform.Blur) pixels {
	mirrored := func(i, n int) int { return max(i, -i) - 2*max(0, max(i, -i)-(n-1)) }
	sum := func(taps int, sigma float64, value func(i int) byte) byte {
		total := int64(1) << 21
		for i, w := range gaussianWindow(taps, sigma) {
			total += int64(w*(1<<22)) * int64(value(i-taps/2))
		}
		return byte(min(255, total>>22))
	}
	across := blank(p.w, p.h).fill(func(x, y, c int) byte {
		return sum(b.KernelX, b.SigmaX, func(i int) byte { return p.at(mirrored(x+i, p.w), y, c) })
	})
	return blank(p.w, p.h).fill(func(x, y, c int) byte {
		return sum(b.KernelY, b.SigmaY, func(i int) byte { return across.at(x, mirrored(y+i, p.h), c) })
	})
}

func (p pixels) resized(s transform.Step) pixels {
	k := s.Filter
	down := p.h - s.Height
	if s.Version == 2 && down > 0 && down > 2*(p.w-s.Width) {
		return p.tall(k, s.Height).wide(k, s.Width)
	}
	return p.wide(k, s.Width).tall(k, s.Height)
}

func blank(w, h int) pixels { return pixels{make([]byte, w*h*channels), w, h} }

func (p pixels) at(x, y, c int) byte { return p.rgb[(y*p.w+x)*channels+c] }

func (p pixels) fill(value func(x, y, c int) byte) pixels {
	for y := range p.h {
		for x := range p.w {
			for c := range channels {
				p.rgb[(y*p.w+x)*channels+c] = value(x, y, c)
			}
		}
	}
	return p
}

func (p pixels) cropped(b transform.Box) pixels {
	return blank(b.W, b.H).fill(func(x, y, c int) byte {
		if x += b.X; x < 0 || x >= p.w {
			return 0
		}
		if y += b.Y; y < 0 || y >= p.h {
			return 0
		}
		return p.at(x, y, c)
	})
}

func (p pixels) flipped() pixels {
	return blank(p.w, p.h).fill(func(x, y, c int) byte { return p.at(p.w-1-x, y, c) })
}

func (p pixels) wide(k transform.Filter, w int) pixels {
	if w == p.w {
		return p
	}
	return blank(w, p.h).fill(func(x, y, c int) byte {
		return weigh(k, p.w, w, x, func(i int) byte { return p.at(i, y, c) })
	})
}

func (p pixels) tall(k transform.Filter, h int) pixels {
	if h == p.h {
		return p
	}
	return blank(p.w, h).fill(func(x, y, c int) byte {
		return weigh(k, p.h, h, y, func(i int) byte { return p.at(x, i, c) })
	})
}

func weigh(k transform.Filter, n, m, o int, value func(i int) byte) byte {
	var scaled weighing = newNearest(whole(n), m)
	if k, ok := kernelOf(k); ok {
		scaled = k.scaling(whole(n), m)
	}
	lo, w := scaled.weights(o, make([]float64, scaled.mostTaps()))
	sum := int64(1) << 21
	for i, weight := range w {
		sum += int64(math.Trunc(weight*(1<<22)+math.Copysign(0.5, weight))) * int64(value(lo+i))
	}
	return byte(max(0, min(255, sum>>22)))
}

var filters = []transform.Filter{transform.Nearest, transform.BoxFilter, transform.Bilinear, transform.Bicubic, transform.Lanczos}

func drawSteps(t *rapid.T, w, h, most int) []transform.Step {
	side := rapid.IntRange(1, most)
	var steps []transform.Step
	for range rapid.IntRange(0, 5).Draw(t, "steps") {
		s := transform.Step{Op: len(steps), Pad: transform.PadConstant, Filter: rapid.SampledFrom(filters).Draw(t, "filter")}
		s.Kind = rapid.SampledFrom([]transform.StepKind{transform.StepCrop, transform.StepResize, transform.StepFlip, transform.StepBlur, transform.StepInvert, transform.StepSharpness}).Draw(t, "kind")
		switch s.Kind {
		case transform.StepCrop:
			s.Box.X, s.Box.Y = rapid.IntRange(-5, w-1).Draw(t, "x"), rapid.IntRange(-5, h-1).Draw(t, "y")
			s.Box.W = rapid.IntRange(max(1, 1-s.Box.X), w-s.Box.X+5).Draw(t, "w")
			s.Box.H = rapid.IntRange(max(1, 1-s.Box.Y), h-s.Box.Y+5).Draw(t, "h")
			w, h = s.Box.W, s.Box.H
		case transform.StepResize:
			s.Width, s.Height, s.Version = side.Draw(t, "width"), side.Draw(t, "height"), rapid.IntRange(1, 2).Draw(t, "version")
			w, h = s.Width, s.Height
		case transform.StepBlur:
			s.Blur.KernelX = 1 + 2*rapid.IntRange(0, w-1).Draw(t, "half of kernel x")
			s.Blur.KernelY = 1 + 2*rapid.IntRange(0, h-1).Draw(t, "half of kernel y")
			s.Blur.SigmaX, s.Blur.SigmaY = rapid.Float64Range(0.01, 9).Draw(t, "sigma x"), rapid.Float64Range(0.01, 9).Draw(t, "sigma y")
		case transform.StepSharpness: // makes a new picture; inverting does not
			s.Factor = 1.5
		}
		steps = append(steps, s)
	}
	return steps
}

// stepsOnPixels runs steps as Run does, on a finished picture.
func stepsOnPixels(p pixels, v variant, steps []transform.Step) (pixels, error) {
	j := job{lim: Limits{}.withDefaults(), variant: v}
	whole := transform.Resolved{Steps: steps}
	parts, err := partsOf(p.w, p.h, steps)
	if err != nil {
		return pixels{}, err
	}
	w, h := parts[len(parts)-1].size()
	out := blank(w, h)
	for i := range out.rgb {
		out.rgb[i] = 0xA5 // whatever is not written shows
	}
	work, err := j.arrange(pixelsOf(p.rgb, p.w, p.h), whole, out.rgb)
	if err != nil {
		return pixels{}, err
	}
	var memory buffers
	memory.begin(work.out)
	first, err := j.then(work.parts[0], p.rgb, p.w, p.h, &memory)
	if err == nil {
		_, err = j.finish(work, &memory, first)
	}
	return out, err
}

func TestStepsEqualTheReferenceInEveryVariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 90).Draw(t, "width0"), rapid.IntRange(1, 90).Draw(t, "height0")
		in := pixels{noise(rapid.Uint32().Draw(t, "seed"), w*h*channels), w, h}
		if rapid.Bool().Draw(t, "extremes") {
			for i := range in.rgb {
				in.rgb[i] = byte(int8(in.rgb[i]) >> 7)
			}
		}
		steps := drawSteps(t, w, h, 70)
		want := in
		for _, s := range steps {
			want = want.apply(s)
		}
		for _, v := range variants() {
			got, err := stepsOnPixels(in, v, steps)
			if err != nil {
				t.Fatalf("%v: %+v: %v", v, steps, err)
			}
			if got.w != want.w || got.h != want.h || !bytes.Equal(got.rgb, want.rgb) {
				t.Fatalf("%v kernels differ from the reference after %+v: %s", v, steps, firstDifference(got, want))
			}
		}
	})
}

func firstDifference(got, want pixels) string {
	if got.w != want.w || got.h != want.h {
		return fmt.Sprintf("%d x %d, want %d x %d", got.w, got.h, want.w, want.h)
	}
	for i := range want.rgb {
		if got.rgb[i] != want.rgb[i] {
			p := i / channels
			return fmt.Sprintf("(%d, %d) channel %d is %d, want %d", p%want.w, p/want.w, i%channels, got.rgb[i], want.rgb[i])
		}
	}
	return "none"
}
