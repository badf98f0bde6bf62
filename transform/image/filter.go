package image

import (
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// kernel is a resampling filter: its half width, and its value at a distance.
type kernel struct {
	support float64
	at      func(x float64) float64
	linear  bool // at is bilinear, the filter of nearly all plans: it is computed in place
}

// kernelOf returns the kernel of a resize. Nearest has none.
func kernelOf(f transform.Filter) (kernel, bool) {
	switch f {
	case transform.BoxFilter:
		return kernel{0.5, box, false}, true
	case transform.Bilinear:
		return kernel{1, bilinear, true}, true
	case transform.Bicubic:
		return kernel{2, bicubic, false}, true
	case transform.Lanczos:
		return kernel{3, lanczos, false}, true
	}
	return kernel{}, false
}

// Every product below that meets a sum is converted, which forbids the compiler to fuse the two and
// so keeps coefficients equal on all processors.

func box(x float64) float64 {
	if x > -0.5 && x <= 0.5 {
		return 1
	}
	return 0
}

func bilinear(x float64) float64 {
	if x = math.Abs(x); x < 1 {
		return 1 - x
	}
	return 0
}

// bicubic is Catmull and Rom's, a = -1/2.
func bicubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

// lanczos is a sinc under the middle of another, three times as wide.
func lanczos(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return float64(sinc(x) * sinc(x/3))
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x = float64(x * math.Pi)
	return sine(x) / x
}

// weighing gives the weights of one axis of a pass.
type weighing interface {
	// mostTaps returns how many inputs an output can depend on.
	mostTaps() int
	// weights returns those of output o and the input that the first belongs to. Outputs are asked for in
	// ascending order. The result lies in scratch, which holds mostTaps numbers.
	weights(o int, scratch []float64) (int, []float64)
}

// span is the part of an axis that a resize takes: [from, to) of n inputs.
type span struct {
	n        int
	from, to float32
}

// whole is all of n inputs.
func whole(n int) span { return span{n, 0, float32(n)} }

// changed reports whether m outputs are anything but the inputs.
func (s span) changed(m int) bool { return m != s.n || s.from != 0 || s.to != float32(s.n) }

// scaling is a kernel stretched so that a span becomes m outputs.
type scaling struct {
	kernel
	n                              int
	start, scale, support, inverse float64
}

func (k kernel) scaling(s span, m int) *scaling {
	scale := float64(s.to-s.from) / float64(m)
	stretch := max(scale, 1)
	return &scaling{kernel: k, n: s.n, start: float64(s.from), scale: scale, support: float64(k.support * stretch), inverse: 1 / stretch}
}

func (s *scaling) mostTaps() int { return int(math.Ceil(s.support))*2 + 1 }

func (s *scaling) weights(o int, scratch []float64) (int, []float64) {
	center := s.start + float64((float64(o)+0.5)*s.scale)
	lo := max(0, int(center-s.support+0.5))
	hi := min(s.n, int(center+s.support+0.5))
	w, sum := scratch[:hi-lo], 0.0
	if s.linear {
		for i := range w {
			w[i] = 0
			if v := 1 - math.Abs(float64((float64(lo+i)-center+0.5)*s.inverse)); v > 0 {
				w[i] = v
			}
			sum += w[i]
		}
	} else {
		for i := range w {
			w[i] = s.at(float64((float64(lo+i) - center + 0.5) * s.inverse))
			sum += w[i]
		}
	}
	if sum != 0 {
		for i := range w {
			w[i] /= sum
		}
	}
	return lo, w
}

// nearest takes one input an output. Pillow finds it by adding up steps, rounding each time; so do we.
type nearest struct {
	n          int
	step, next float64
	done       int
}

func newNearest(s span, m int) *nearest {
	step := float64(s.to-s.from) / float64(m)
	return &nearest{n: s.n, step: step, next: float64(s.from) + float64(step*0.5)}
}

func (*nearest) mostTaps() int { return 1 }

func (s *nearest) weights(o int, scratch []float64) (int, []float64) {
	for ; s.done < o; s.done++ {
		s.next += s.step
	}
	scratch[0] = 1
	return min(int(s.next), s.n-1), scratch[:1]
}
