package image

import "math"

// kernel is a resampling filter: its half width, and its value at a distance.
type kernel struct {
	support float64
	at      func(x float64) float64
}

// Every product below that meets a sum is converted, which forbids the compiler to fuse the two and
// so keeps coefficients equal on all processors.

func bilinear() kernel {
	return kernel{1, func(x float64) float64 {
		if x = math.Abs(x); x < 1 {
			return 1 - x
		}
		return 0
	}}
}

// bicubic is Catmull and Rom's, a = -1/2. No plan offers it yet; it keeps the kernels honest about
// negative weights.
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
	count  int // outputs
	stride int // pairs of taps that each owns in coef
	first  []int32
	pairs  []int32
	coef   []int16
}

// mostTaps returns how many inputs an output can depend on when n become m.
func (k kernel) mostTaps(n, m int) int {
	scale := max(float64(float32(n))/float64(m), 1)
	return int(math.Ceil(float64(k.support*scale)))*2 + 1
}

// axisOf returns the coefficients of outputs [from, to) when n inputs become m.
func (k kernel) axisOf(n, m, from, to int) axis {
	most := k.mostTaps(n, m)
	a := axis{count: to - from, stride: (most + 1) / 2}
	a.first = make([]int32, a.count)
	a.pairs = make([]int32, a.count)
	a.coef = make([]int16, a.count*a.stride*4)
	weights := make([]float64, most)
	for i := range a.count {
		lo, w := k.weights(n, m, from+i, weights)
		a.set(i, lo, w)
	}
	return a
}

// weights returns the normalised weights of output o and the input that the first belongs to. The
// result lies in scratch.
func (k kernel) weights(n, m, o int, scratch []float64) (int, []float64) {
	scale := float64(float32(n)) / float64(m)
	stretch := max(scale, 1)
	support, inverse := float64(k.support*stretch), 1/stretch
	center := float64((float64(o) + 0.5) * scale)
	lo := max(0, int(center-support+0.5))
	hi := min(n, int(center+support+0.5))
	w, sum := scratch[:hi-lo], 0.0
	for i := range w {
		w[i] = k.at(float64((float64(lo+i) - center + 0.5) * inverse))
		sum += w[i]
	}
	for i := range w {
		if sum != 0 {
			w[i] /= sum
		}
	}
	return lo, w
}

// set rounds the weights of output i, drops those at the ends that round to nothing, and stores them.
func (a *axis) set(i, lo int, w []float64) {
	for len(w) > 1 && fixed(w[len(w)-1]) == 0 {
		w = w[:len(w)-1]
	}
	for len(w) > 1 && fixed(w[0]) == 0 {
		w, lo = w[1:], lo+1
	}
	a.first[i] = int32(lo)
	a.pairs[i] = int32(len(w)+1) / 2
	row := a.coef[i*a.stride*4:]
	for t, weight := range w {
		c := fixed(weight)
		at := t/2*4 + t%2
		row[at], row[at+2] = int16(c>>coefSplit), int16(c&(1<<coefSplit-1))
	}
}

// fixed rounds a weight half away from zero.
func fixed(w float64) int32 {
	if w < 0 {
		return int32(float64(w*(1<<coefBits)) - 0.5)
	}
	return int32(float64(w*(1<<coefBits)) + 0.5)
}

// span returns the inputs [lo, hi) that the outputs depend on.
func (a *axis) span(n int) (lo, hi int) {
	lo = n
	for i, first := range a.first {
		lo = min(lo, int(first))
		hi = max(hi, int(first+2*a.pairs[i]))
	}
	return lo, min(hi, n)
}

// shift makes input lo the new first one and multiplies positions by unit.
func (a *axis) shift(lo, unit int) {
	for i := range a.first {
		a.first[i] = (a.first[i] - int32(lo)) * int32(unit)
	}
}

// mirror reverses the outputs.
func (a *axis) mirror() {
	row := 4 * a.stride
	for i, j := 0, a.count-1; i < j; i, j = i+1, j-1 {
		a.first[i], a.first[j] = a.first[j], a.first[i]
		a.pairs[i], a.pairs[j] = a.pairs[j], a.pairs[i]
		for c := range row {
			a.coef[i*row+c], a.coef[j*row+c] = a.coef[j*row+c], a.coef[i*row+c]
		}
	}
}

// pad adds outputs without taps until the count is a multiple of unit.
func (a *axis) pad(unit int) {
	for a.count%unit != 0 {
		a.count++
		a.first = append(a.first, 0)
		a.pairs = append(a.pairs, 0)
	}
	a.coef = append(a.coef, make([]int16, a.count*a.stride*4-len(a.coef))...)
}
