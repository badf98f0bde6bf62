package image

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

// fill computes outputs [from, from+count), the last one first if mirrored, and returns the inputs [lo, hi)
// that they depend on, of n. Positions are in units, relative to lo.
func (a *axis) fill(s weighing, n, from, count, unit int, mirrored bool) (lo, hi int) {
	scratch := make([]float64, s.mostTaps())
	lo = n
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
	return lo, min(hi, n)
}

// set rounds the weights of an output and stores them, without those at the ends that round to nothing.
func (a *axis) set(slot, lo int, w []float64) {
	row := a.coef[slot*a.stride*4 : (slot+1)*a.stride*4]
	for len(w) > 1 && fixed(w[0]) == 0 {
		w, lo = w[1:], lo+1
	}
	used := 1
	for i, weight := range w {
		c := fixed(weight)
		if c != 0 {
			used = i + 1
		}
		pair := row[i>>1<<2+i&1:]
		pair[0], pair[2] = int16(c>>coefSplit), int16(c&(1<<coefSplit-1))
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
