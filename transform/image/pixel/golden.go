package pixel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
)

// vector is a made-up picture and what is done to it.
type vector struct {
	w, h int
	few  int // so many different values in the middle of the range; 0 for all 256
	step transform.Step
}

// pictures are those that were made up already, by their width, height and number of values.
type pictures map[[3]int]Image

// Golden returns, for every pixel operator identity whose pixels this package makes, the SHA-256 (hex) over what it
// makes of small made-up pictures. A vector that fails contributes its error instead of pixels.
func Golden() map[string]string {
	golden, made := map[string]string{}, pictures{}
	for id, vectors := range goldenVectors() {
		h := sha256.New()
		for _, v := range vectors {
			out, err := v.run(made)
			fmt.Fprintln(h, v.step.Kind, out.W, out.H, err)
			h.Write(out.Pix)
		}
		golden[id] = hex.EncodeToString(h.Sum(nil))
	}
	return golden
}

func (v vector) run(made pictures) (Image, error) {
	im, known := made[[3]int{v.w, v.h, v.few}]
	if !known {
		im = madeUp(1, v.w, v.h, v.few)
		made[[3]int{v.w, v.h, v.few}] = im
	}
	im.Pix = bytes.Clone(im.Pix) // steps work in place
	return Apply(v.step, im, func(n int) []byte { return make([]byte, n) })
}

// madeUp returns a picture whose every byte is a hash of its position.
func madeUp(seed uint32, w, h, few int) Image {
	im := Image{W: w, H: h, Pix: make([]byte, channels*w*h)}
	for i := range im.Pix {
		v := uint32(i)*2654435761 + seed*40503
		v = (v ^ v>>15) * 2246822519
		v = (v ^ v>>13) * 3266489917
		im.Pix[i] = uint8(v >> 24)
		if few > 0 {
			im.Pix[i] = uint8(int(im.Pix[i])%few + 128 - few/2)
		}
	}
	return im
}

func goldenVectors() map[string][]vector {
	return map[string][]vector{
		"pad/torchvision@1": padVectors(),
		"grayscale/pil@1":   {{w: 61, h: 47, step: transform.Step{Kind: transform.StepGrayscale}}},
		"colour/pil@1":      colourVectors(),
		"hue/pil@1":         hueVectors(),
		"tone/pil@1":        toneVectors(),
		"affine/pil@1":      affineVectors(),
		"erase/ours@1":      eraseVectors(),
	}
}

// padVectors hold flips too, which no identity of their own vouches for.
func padVectors() (all []vector) {
	for _, mode := range []transform.PadMode{transform.PadConstant, transform.PadEdge, transform.PadReflect, transform.PadSymmetric} {
		for _, box := range []transform.Box{{X: -3, Y: -4, W: 21, H: 22}, {X: 5, Y: -30, W: 40, H: 80}, {X: 40, Y: 50, W: 9, H: 7}} {
			all = append(all, vector{w: 13, h: 11, step: transform.Step{Kind: transform.StepCrop, Box: box, Pad: mode, Fill: [3]uint8{124, 116, 104}}})
		}
		all = append(all, vector{w: 1, h: 2, step: transform.Step{Kind: transform.StepCrop, Box: transform.Box{X: -3, Y: -4, W: 7, H: 8}, Pad: mode}})
	}
	return append(all, vector{w: 13, h: 11, step: transform.Step{Kind: transform.StepFlip}}, vector{w: 13, h: 11, step: transform.Step{Kind: transform.StepFlipVertical}})
}

func colourVectors() (all []vector) {
	for _, kind := range []transform.StepKind{transform.StepBrightness, transform.StepContrast, transform.StepSaturation, transform.StepSharpness} {
		for _, factor := range []float64{0, 0.1, 0.6, 1. / 3, 0.95, 1.4, 1.9, 10, -0.5} {
			all = append(all, vector{w: 37, h: 29, step: transform.Step{Kind: kind, Factor: factor}})
		}
	}
	return all
}

func hueVectors() (all []vector) {
	for _, level := range []int{0, 1, 25, 100, 179, 255} {
		all = append(all, vector{w: 61, h: 47, step: transform.Step{Kind: transform.StepHue, Level: level}})
	}
	return append(all, vector{w: 61, h: 47, few: 9, step: transform.Step{Kind: transform.StepHue, Level: 7}})
}

func toneVectors() (all []vector) {
	for level := 1; level <= 8; level++ {
		all = append(all, vector{w: 37, h: 29, step: transform.Step{Kind: transform.StepPosterize, Level: level}},
			vector{w: 37, h: 29, step: transform.Step{Kind: transform.StepSolarize, Level: 33 * level}})
	}
	for _, few := range []int{0, 1, 2, 30, 120} {
		for _, kind := range []transform.StepKind{transform.StepInvert, transform.StepAutoContrast, transform.StepEqualize} {
			all = append(all, vector{w: 37, h: 29, few: few, step: transform.Step{Kind: kind}})
		}
	}
	return all
}

func affineVectors() (all []vector) {
	for _, m := range [][6]float64{
		{0.37, 0, -1.25, 0, 1.5, 0.1}, {0, 1, 0, -1, 0, 29}, {0.8, -0.6, 9.3, 0.6, 0.8, -7.7},
		{1, 0.29999999999999999, -3, 0, 1, 0}, {0.5, 1400.3, -1400.9, 0.25, 1.01, 0}, {-1.3, 0.01, 39.2, 0.4, -0.7, 22},
	} {
		for _, filter := range []transform.Filter{transform.Nearest, transform.Bilinear} {
			all = append(all, vector{w: 37, h: 29, step: transform.Step{Kind: transform.StepAffine, Width: 33, Height: 31, Matrix: m, Filter: filter, Fill: [3]uint8{1, 99, 250}}})
		}
	}
	return all
}

func eraseVectors() []vector {
	box := transform.Box{X: 3, Y: 2, W: 23, H: 17}
	key := [16]byte([]byte("sixteen byte key"))
	return []vector{
		{w: 37, h: 29, step: transform.Step{Kind: transform.StepErase, Box: box, Fill: [3]uint8{124, 116, 104}}},
		{w: 37, h: 29, step: transform.Step{Kind: transform.StepErase, Box: box, Noise: true, Key: key}},
	}
}
