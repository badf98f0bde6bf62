package transform

import "math"

// geometryIdentity names torchvision's rules for sizes and boxes, as below.
const geometryIdentity = "geometry/torchvision@1"

// placementIdentity names how pixels get to their places: cut, mirrored and laid on black, alone and in one pass with a
// resize.
const placementIdentity = "placement/ours@1"

// colours is the number of channels of every decoded image: mode RGB is the only one.
const colours = 3

// size returns the output of a Resize for an input of w x h, and whether that is a size that pictures here may have.
func (o Resize) size(w, h int) (outW, outH int, allowed bool) {
	if len(o.Size) == 2 {
		return o.Size[1], o.Size[0], true
	}
	short, long := min(w, h), max(w, h)
	// torchvision writes int(size * long / short) in floating point. Both factors are below 2^31, so the
	// quotient's distance to the next whole number is never lost, and whole-number division is the same.
	newShort, newLong := o.Size[0], o.Size[0]*long/short
	if o.MaxSize != 0 && newLong > o.MaxSize {
		newShort, newLong = o.MaxSize*newShort/newLong, o.MaxSize
	}
	allowed = newShort >= 1 && newLong <= maxSize
	if w <= h {
		return newShort, newLong, allowed
	}
	return newLong, newShort, allowed
}

// box returns the part of a w x h input that a CenterCrop takes; it reaches outside where the input is smaller.
func (o CenterCrop) box(w, h int) Box {
	return Box{X: centre(w, o.Width), Y: centre(h, o.Height), W: o.Width, H: o.Height}
}

// centre returns where n begins in the middle of have: round half to even, as Python; and the floor of the
// padding to the left, as torchvision, when have is smaller.
func centre(have, n int) int {
	if n > have {
		return -((n - have) / 2)
	}
	half := (have - n) / 2
	if (have-n)%2 == 1 && half%2 == 1 {
		half++
	}
	return half
}

// draw returns the box of a RandomResizedCrop in a w x h input: ten tries of (area, ratio), then the
// place of the first that fits (row before column), else the largest central box whose ratio is allowed.
func (o RandomResizedCrop) draw(w, h int, s *stream) Box {
	area := float64(w * h)
	lo, hi := naturalLog(o.Ratio[0]), naturalLog(o.Ratio[1])
	for range 10 {
		target := area * s.between(o.Scale[0], o.Scale[1])
		ratio := Exp(s.between(lo, hi))
		bw := math.RoundToEven(math.Sqrt(float64(target * ratio)))
		bh := math.RoundToEven(math.Sqrt(float64(target / ratio)))
		if bw < 1 || bw > float64(w) || bh < 1 || bh > float64(h) {
			continue
		}
		b := Box{W: int(bw), H: int(bh)}
		b.Y = s.below(h - b.H + 1)
		b.X = s.below(w - b.W + 1)
		return b
	}
	return o.central(w, h)
}

func (o RandomResizedCrop) central(w, h int) Box {
	b := Box{W: w, H: h}
	ratio := float64(w) / float64(h)
	// A box is never empty: where torchvision would fail on a side of 0, it is 1.
	if ratio < o.Ratio[0] {
		b.H = max(1, int(math.RoundToEven(float64(w)/o.Ratio[0])))
	} else if ratio > o.Ratio[1] {
		b.W = max(1, int(math.RoundToEven(float64(h)*o.Ratio[1])))
	}
	b.X, b.Y = (w-b.W)/2, (h-b.H)/2
	return b
}
