package pixel

import (
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// shiftHue adds s.Level to the 8-bit hue of every pixel, modulo 256, as torchvision's adjust_hue does on PIL images: to
// HSV and back with 8 bits each, which moves some colours by a little even when Level is 0.
//
// Pillow computes in float32 and float64. Its results are those of whole numbers, for every hue, saturation and value and
// for every colour, but where a hue is exactly a multiple of 1/255 of the circle: there float32 may end just below it.
func shiftHue(s transform.Step, im Image, _ func(n int) []byte) (Image, error) {
	w := newWheel(uint8(s.Level))
	for pix := im.Pix; len(pix) >= channels; pix = pix[channels:] {
		p := (*[channels]byte)(pix)
		value, least := max(p[0], p[1], p[2]), min(p[0], p[1], p[2])
		if value == least {
			continue // grey has no hue
		}
		spread := uint32(value - least)
		saturation := w.divide(255*spread, value)
		w.spokes[w.hueOf(p, value, spread)].paint(p, uint32(value), saturation)
	}
	return im, nil
}

// wheel is what turns colours into hues and, after a shift, back.
type wheel struct {
	inverse [256]uint64 // 2^32 / i, rounded up
	below   [256]uint8  // 1 where an exact hue becomes the one below
	spokes  [256]spoke
}

// spoke is one hue on the way back: where it lies in its sixth of the circle, which has 85 parts, counted from the end
// where the channel in the middle has the value; and which channels have the value, the middle and the least.
type spoke struct {
	part                uint32
	first, middle, last uint8
}

func newWheel(shift uint8) *wheel {
	w := new(wheel)
	orders := [6]spoke{{0, 0, 1, 2}, {0, 1, 0, 2}, {0, 1, 2, 0}, {0, 2, 1, 0}, {0, 2, 0, 1}, {0, 0, 2, 1}}
	for i := range 255 {
		w.inverse[i+1] = (1<<32-1)/uint64(i+1) + 1
		w.below[i] = uint8(i) - wholeHue(i)
	}
	for i := range w.spokes {
		sector, part := 2*int(uint8(i)+shift)/85, 2*uint32(uint8(i)+shift)%85
		w.spokes[i] = orders[sector%6]
		w.spokes[i].part = part
		if sector%2 == 0 { // the middle rises
			w.spokes[i].part = 85 - part
		}
	}
	return w
}

// wholeHue returns Pillow's 8-bit hue, in its arithmetic, of a colour that lies at exactly i/255 of the circle.
func wholeHue(i int) uint8 {
	sector, part := 2*i/85, 2*i%85
	h := float64((sector + 1) / 2 * 2 % 6) // of red, green or blue, in sixths
	if sector%2 == 0 {
		h += 1 - float64(float32(85-part)/85)
	} else {
		h += float64(float32(part)/85) - 1
	}
	turns := float64(float32(h))/6 + 1
	return uint8(float64(float32(turns-math.Floor(turns))) * 255)
}

// divide returns n / d, rounded down, for n below 2^24.
func (w *wheel) divide(n uint32, d uint8) uint32 { return uint32(uint64(n) * w.inverse[d] >> 32) }

// ways are red, green and blue on the circle: where they lie, in sixths, and the channels before and after them.
var ways = [channels]struct{ sixths, before, after uint8 }{{0, 2, 1}, {2, 0, 2}, {4, 1, 0}}

// hueOf returns Pillow's 8-bit hue of a colour that is not grey.
func (w *wheel) hueOf(p *[channels]byte, value uint8, spread uint32) uint8 {
	most := 2 // the channel that has the value
	if p[1] == value {
		most = 1
	}
	if p[0] == value {
		most = 0
	}
	way := &ways[most]
	n := int32(way.sixths)*int32(spread) + int32(p[way.after]) - int32(p[way.before])
	n += n >> 31 & int32(6*spread) // from red backwards
	parts := 85 * uint32(n)        // of 2 * spread
	h := w.divide(parts/2, uint8(spread))
	if 2*spread*h == parts {
		h -= uint32(w.below[h])
	}
	return uint8(h)
}

// paint writes the colour of a hue.
func (h *spoke) paint(p *[channels]byte, value, saturation uint32) {
	p[h.first] = uint8(value)
	p[h.middle] = uint8((2*value*(255*85-saturation*h.part) + 255*85) / (2 * 255 * 85))
	p[h.last] = uint8((2*value*(255-saturation) + 255) / (2 * 255))
}
