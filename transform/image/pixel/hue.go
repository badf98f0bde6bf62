package pixel

import "github.com/stepahead-io/stepahead/transform"

// shiftHue adds s.Level to the 8-bit hue of every pixel, modulo 256, as torchvision's adjust_hue does on PIL images: to
// HSV and back with 8 bits each, which moves some colours by a little even when Level is 0.
func shiftHue(s transform.Step, im Image, _ func(n int) []byte) (Image, error) {
	w := newWheel(uint8(s.Level))
	for pix := im.Pix; len(pix) >= channels; pix = pix[channels:] {
		r, g, b := pix[0], pix[1], pix[2]
		high, low := max(r, g, b), min(r, g, b)
		if high == low {
			continue // grey has no hue
		}
		spread := float32(high - low)
		saturation := uint8(float64(spread/float32(high)) * 255)
		if saturation == 0 {
			pix[0], pix[1], pix[2] = high, high, high
			continue
		}
		h := &w[hueOf(r, g, b, high, spread)]
		pix[0], pix[1], pix[2] = h.colour(saturation, high)
	}
	return im, nil
}

// hueOf returns Pillow's 8-bit hue of a colour that is not grey: sixths of the circle from red in float32, and the
// circle has 255 parts.
func hueOf(r, g, b, high uint8, spread float32) uint8 {
	var h float32
	switch high {
	case r:
		h = float32(high-b)/spread - float32(high-g)/spread
	case g:
		h = float32(2 + float64(float32(high-r)/spread) - float64(float32(high-b)/spread))
	default:
		h = float32(4 + float64(float32(high-g)/spread) - float64(float32(high-r)/spread))
	}
	turns := float64(h)/6 + 1 // from 5/6 to 11/6
	if turns >= 1 {
		turns--
	}
	return uint8(float64(float32(turns)) * 255)
}

// spoke is one hue on the way back to RGB: the sixth of the circle it lies in, and how far into it.
type spoke struct {
	sector int
	into   float32
}

// wheel has the spoke of every hue, after the shift.
type wheel [256]spoke

func newWheel(shift uint8) *wheel {
	w := new(wheel)
	for i := range w {
		sixths := float64(uint8(i)+shift) * 6 / 255 // whole where it can be, so that into is never a rounding error
		sector := int(sixths)
		w[i] = spoke{sector: sector % 6, into: float32(sixths - float64(sector))}
	}
	return w
}

// colour is Pillow's conversion of one pixel from HSV. All that is rounded to whole numbers is positive.
func (h *spoke) colour(saturation, value uint8) (r, g, b uint8) {
	s := float32(float64(saturation) / 255)
	v := float64(value)
	low := uint8(float64(v*(1-float64(s))) + 0.5)
	var mid uint8
	if h.sector&1 == 0 { // rising
		mid = uint8(float64(v*(1-float64(float64(s)*(1-float64(h.into))))) + 0.5)
	} else {
		mid = uint8(float64(v*(1-float64(float32(s*h.into)))) + 0.5)
	}
	switch h.sector {
	case 0:
		return value, mid, low
	case 1:
		return mid, value, low
	case 2:
		return low, value, mid
	case 3:
		return low, mid, value
	case 4:
		return mid, low, value
	default:
		return value, low, mid
	}
}
