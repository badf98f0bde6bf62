package sampler

import "math/bits"

// dealt is how many positions a dealer takes at once: enough for a source to get several, so that
// they share the keys of its permutation, and few enough for the stack.
const dealt = 256

// A dealer fills refs of neighbouring positions of one span. Its arrays keep calls free of
// allocation.
type dealer struct {
	sources []source
	span    *span
	refs    []SampleRef // of the positions, in order
	units   [dealt]uint16
	spare   [dealt]uint16
	group   [lanes]SampleRef
}

// fillStream appends the refs of count positions from position on; Position counts from first.
func (s *Sampler) fillStream(position, first, count uint64, dst []SampleRef) []SampleRef {
	d := dealer{sources: s.sources}
	for count > 0 {
		sp, end := s.stream.span(position)
		n := min(count, end-position, dealt)
		from := len(dst)
		for i := range n {
			dst = append(dst, SampleRef{Position: int64(first + i)})
			d.units[i] = uint16(i)
		}
		d.span, d.refs = sp, dst[from:]
		d.deal(sp.tree.root, position-sp.position, d.units[:n])
		position, first, count = position+n, first+n, count-n
	}
	return dst
}

// deal passes units down the tree: they are places in refs, and at this node the numbers m, m+1, ...
func (d *dealer) deal(at int32, m uint64, units []uint16) {
	if at < 0 {
		d.fill(int(^at), m, units)
		return
	}
	n := &d.span.tree.nodes[at]
	hi, lo := bits.Mul64(m, n.ratio)
	lo, carry := bits.Add64(lo, 1<<63, 0)
	left := hi + carry
	a, b := 0, 0
	for _, u := range units {
		lo, carry = bits.Add64(lo, n.ratio, 0) // 1: the unit goes left
		units[a], d.spare[b&(dealt-1)] = u, u
		a += int(carry)
		b += int(1 - carry)
	}
	copy(units[a:], d.spare[:b])
	if a > 0 {
		d.deal(n.left, left, units[:a])
	}
	if b > 0 {
		d.deal(n.right, m-left, units[a:])
	}
}

// fill gives the refs of units the source's samples from number m of the span on.
func (d *dealer) fill(i int, m uint64, units []uint16) {
	src := &d.sources[i]
	number := d.span.base[i] + m
	epoch, place := number/src.samples, number%src.samples
	for len(units) > 0 {
		n := min(uint64(len(units)), src.samples-place, lanes)
		group := d.group[:n]
		for j := range group {
			group[j].Sample = place + uint64(j)
		}
		src.order(epoch, group)
		for j := range group {
			ref := &d.refs[units[j]]
			ref.Source, ref.Epoch, ref.Sample = int32(i), epoch, group[j].Sample
		}
		units = units[n:]
		if place += n; place == src.samples {
			epoch, place = epoch+1, 0
		}
	}
}
