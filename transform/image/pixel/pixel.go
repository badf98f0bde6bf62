// Package pixel knows what the operators that are neither a resize nor a blur do to pixels: crops beyond the
// borders, flips, affine maps, colour, tone and erasing, each equal to Pillow 13.0.0 to the bit on every machine.
//
// It is pure Go. Where Pillow computes in floating point, the same operations are done in the same order and each
// product that meets a sum is rounded on its own by an explicit conversion, so that no compiler may fuse the two; where
// the rounding can be shown not to matter, integers or tables of what every value becomes take its place.
package pixel

import (
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
)

// channels is what a pixel has: red, green, blue.
const channels = 3

const (
	maxSide  = 1 << 28 // of every picture, and every position of a box
	maxBytes = 1 << 34 // of every picture: the largest that a plan may ask for, 65,535 x 65,535
)

// Image is 8-bit RGB, rows without gaps: len(Pix) == 3*W*H.
type Image struct {
	W, H int
	Pix  []byte
}

// row returns the bytes of row y.
func (im Image) row(y int) []byte {
	n := channels * im.W
	return im.Pix[y*n : (y+1)*n : (y+1)*n]
}

// operator does one checked step to one checked picture.
type operator func(s transform.Step, im Image, alloc func(n int) []byte) (Image, error)

// operatorOf returns what executes steps of kind k, nil if it is not done here.
func operatorOf(k transform.StepKind) operator {
	switch k {
	case transform.StepCrop:
		return crop
	case transform.StepFlip:
		return inPlace(flip)
	case transform.StepFlipVertical:
		return inPlace(flipVertical)
	case transform.StepAffine:
		return affine
	case transform.StepErase:
		return erase
	case transform.StepGrayscale:
		return inPlace(grayscale)
	case transform.StepBrightness, transform.StepContrast, transform.StepSaturation, transform.StepSharpness:
		return enhance
	case transform.StepHue:
		return shiftHue
	case transform.StepInvert:
		return inPlace(invert)
	case transform.StepPosterize:
		return posterize
	case transform.StepSolarize:
		return solarize
	case transform.StepAutoContrast:
		return inPlace(autoContrast)
	case transform.StepEqualize:
		return inPlace(equalize)
	}
	return nil
}

// inPlace makes an operator of what has no parameters and overwrites its input.
func inPlace(do func(im Image)) operator {
	return func(_ transform.Step, im Image, _ func(n int) []byte) (Image, error) {
		do(im)
		return im, nil
	}
}

// Handles says which kinds of steps [Apply] executes.
func Handles(k transform.StepKind) bool { return operatorOf(k) != nil }

// Apply executes one step on im. It may work in place and return im itself, or return a new image whose
// pixels it takes from alloc, which is called at most once, with their number of bytes, after everything has been
// checked; their content does not matter. An alloc that answers with fewer bytes refuses, and so does Apply. In
// either case the pixels of im are undefined afterwards, but after an error they are as before.
//
// Errors are a [*transform.Error] of kind plan: the step is not one of those that [Handles] names, one of its
// parameters is out of its range, or its result is too large. Apply never panics for any step and image.
// It is safe for concurrent use on different images.
func Apply(s transform.Step, im Image, alloc func(n int) []byte) (Image, error) {
	if im.W < 1 || im.H < 1 || im.W > maxSide || im.H > maxSide || len(im.Pix) != channels*im.W*im.H {
		return Image{}, refuse(s, "a picture of %d x %d pixels in %d bytes; sides must be from 1 to %d, with %d bytes a pixel", im.W, im.H, len(im.Pix), maxSide, channels)
	}
	do := operatorOf(s.Kind)
	if do == nil {
		return Image{}, refuse(s, "not a step on single pixels")
	}
	return do(s, im, alloc)
}

// newImage takes the memory of a picture from alloc.
func newImage(s transform.Step, w, h int, alloc func(n int) []byte) (Image, error) {
	if w < 1 || h < 1 || w > maxSide || h > maxSide {
		return Image{}, refuse(s, "a result of %d x %d pixels; sides must be from 1 to %d", w, h, maxSide)
	}
	n := channels * w * h
	if n > maxBytes {
		return Image{}, refuse(s, "a result of %d x %d pixels, %d bytes; the most is %d", w, h, n, maxBytes)
	}
	pix := alloc(n)
	if len(pix) < n {
		return Image{}, refuse(s, "a result of %d x %d pixels, %d bytes, more than there is room for", w, h, n)
	}
	return Image{W: w, H: h, Pix: pix[:n:n]}, nil
}

func refuse(s transform.Step, detail string, args ...any) error {
	op := string(s.Kind)
	if op == "" {
		op = "step"
	}
	return &transform.Error{Kind: transform.KindPlan, Op: op, Detail: fmt.Sprintf(detail, args...)}
}
