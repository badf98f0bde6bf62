package image

import (
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// kernel is a resampling filter: its half width, and its value at a distance.
type kernel struct {
	support float64
	at      func(x float64) float64
}

// kernelOf returns the kernel of a resize.
func kernelOf(f transform.Filter) (kernel, bool) {
	switch f {
	case transform.BoxFilter:
		return box(), true
	case transform.Bilinear:
		return bilinear(), true
	case transform.Bicubic:
		return bicubic(), true
	}
	return kernel{}, false
}

// Every product below that meets a sum is converted, which forbids the compiler to fuse the two and
// so keeps coefficients equal on all processors.

func box() kernel {
	return kernel{0.5, func(x float64) float64 {
		if x > -0.5 && x <= 0.5 {
			return 1
		}
		return 0
	}}
}

func bilinear() kernel {
	return kernel{1, func(x float64) float64 {
		if x = math.Abs(x); x < 1 {
			return 1 - x
		}
		return 0
	}}
}

// bicubic is Catmull and Rom's, a = -1/2.
func bicubic() kernel {
	const a = -0.5
	return kernel{2, func(x float64) float64 {
		x = math.Abs(x)
		switch {
		case x < 1:
			return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
		case x < 2:
			return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
		}
		return 0
	}}
}

const (
	coefBits  = 22 // fractional bits of a coefficient
	coefSplit = 11 // bits of its low half
)

// axis is the coefficients of one pass for consecutive outputs, as the kernels read them.
type axis struct {
	count  int     // outputs
	stride int     // pairs of taps that each owns in coef
	first  []int32 // position of the first tap
	pairs  []int32 // pairs that the output really has
	coef   []int16 // two high halves, two low halves a pair
}

// scaling is a kernel stretched so that n inputs become m outputs.
type scaling struct {
	kernel
	n                       int
	scale, support, inverse float64
}

func (k kernel) scaling(n, m int) scaling {
	scale := float64(float32(n)) / float64(m)
	stretch := max(scale, 1)
	return scaling{kernel: k, n: n, scale: scale, support: float64(k.support * stretch), inverse: 1 / stretch}
}

// mostTaps returns how many inputs an output can depend on.
func (s scaling) mostTaps() int { return int(math.Ceil(s.support))*2 + 1 }

// weights returns the normalised weights of output o and the input that the first belongs to. The
// result lies in scratch, which holds mostTaps numbers.
func (s *scaling) weights(o int, scratch []float64) (int, []float64) {
	center := float64((float64(o) + 0.5) * s.scale)
	lo := max(0, int(center-s.support+0.5))
	hi := min(s.n, int(center+s.support+0.5))
	w, sum := scratch[:hi-lo], 0.0
	for i := range w {
		w[i] = s.at(float64((float64(lo+i) - center + 0.5) * s.inverse))
		sum += w[i]
	}
	if sum != 0 {
		for i := range w {
			w[i] /= sum
		}
	}
	return lo, w
}

// fill computes outputs [from, from+count), the last one first if mirrored, and returns the inputs [lo, hi)
// that they depend on. Positions are in units, relative to lo.
func (a *axis) fill(s scaling, from, count, unit int, mirrored bool) (lo, hi int) {
	scratch := make([]float64, s.mostTaps())
	lo = s.n
	for i := range count {
		slot := i
		if mirrored {
			slot = count - 1 - i
		}
		first, w := s.weights(from+i, scratch)
		a.set(slot, first, w)
		lo = min(lo, int(a.first[slot]))
		hi = max(hi, int(a.first[slot]+2*a.pairs[slot]))
	}
	for i := range a.first[:count] {
		a.first[i] = (a.first[i] - int32(lo)) * int32(unit)
	}
	return lo, min(hi, s.n)
}

// set rounds the weights of an output and stores them, without those at the ends that round to nothing.
func (a *axis) set(slot, lo int, w []float64) {
	row := a.coef[slot*a.stride*4 : (slot+1)*a.stride*4]
	taps, used := 0, 1
	for _, weight := range w {
		c := fixed(weight)
		if c == 0 && taps == 0 {
			lo++
			continue
		}
		at := taps/2*4 + taps%2
		row[at], row[at+2] = int16(c>>coefSplit), int16(c&(1<<coefSplit-1))
		if taps++; c != 0 {
			used = taps
		}
	}
	a.first[slot], a.pairs[slot] = int32(lo), int32(used+1)/2
}

// fixed rounds a weight half away from zero.
func fixed(w float64) int32 {
	if w < 0 {
		return int32(float64(w*(1<<coefBits)) - 0.5)
	}
	return int32(float64(w*(1<<coefBits)) + 0.5)
}
