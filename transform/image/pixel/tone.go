package pixel

import (
	"encoding/binary"

	"github.com/stepahead-io/stepahead/transform"
)

// table says what each value becomes.
type table [256]uint8

func identity() (t table) {
	for i := range t {
		t[i] = uint8(i)
	}
	return t
}

// apply replaces every value, eight at a time.
func (t *table) apply(pix []byte) {
	for ; len(pix) >= 8; pix = pix[8:] {
		v := binary.LittleEndian.Uint64(pix)
		pix[0], pix[1], pix[2], pix[3] = t[uint8(v)], t[uint8(v>>8)], t[uint8(v>>16)], t[uint8(v>>24)]
		pix[4], pix[5], pix[6], pix[7] = t[uint8(v>>32)], t[uint8(v>>40)], t[uint8(v>>48)], t[uint8(v>>56)]
	}
	for i, v := range pix {
		pix[i] = t[v]
	}
}

// applyTables replaces every value by the table of its channel.
func applyTables(t *[channels]table, pix []byte) {
	for ; len(pix) >= channels; pix = pix[channels:] {
		pix[0], pix[1], pix[2] = t[0][pix[0]], t[1][pix[1]], t[2][pix[2]]
	}
}

// invert is ImageOps.invert.
func invert(im Image) {
	pix := im.Pix
	for ; len(pix) >= 8; pix = pix[8:] {
		binary.LittleEndian.PutUint64(pix, ^binary.LittleEndian.Uint64(pix))
	}
	for i, v := range pix {
		pix[i] = ^v
	}
}

// posterize is ImageOps.posterize: it keeps the upper s.Level bits.
func posterize(s transform.Step, im Image, _ func(n int) []byte) (Image, error) {
	if s.Level < 1 || s.Level > 8 {
		return Image{}, refuse(s, "%d bits; it must keep from 1 to 8", s.Level)
	}
	mask := byte(0xff) << (8 - s.Level)
	wide := uint64(mask) * 0x0101010101010101
	pix := im.Pix
	for ; len(pix) >= 8; pix = pix[8:] {
		binary.LittleEndian.PutUint64(pix, binary.LittleEndian.Uint64(pix)&wide)
	}
	for i := range pix {
		pix[i] &= mask
	}
	return im, nil
}

// solarize is ImageOps.solarize: it inverts values of s.Level and above.
func solarize(s transform.Step, im Image, _ func(n int) []byte) (Image, error) {
	t := identity()
	for i := range t {
		if i >= s.Level {
			t[i] = uint8(255 - i)
		}
	}
	t.apply(im.Pix)
	return im, nil
}

// autoContrast is ImageOps.autocontrast without a cutoff: each channel's least value becomes 0 and its greatest 255.
func autoContrast(im Image) {
	var seen [channels][256]bool
	for pix := im.Pix; len(pix) >= channels; pix = pix[channels:] {
		seen[0][pix[0]], seen[1][pix[1]], seen[2][pix[2]] = true, true, true
	}
	var t [channels]table
	for c := range t {
		t[c] = stretch(&seen[c])
	}
	applyTables(&t, im.Pix)
}

// stretch computes as Python does, in float64, and truncates.
func stretch(seen *[256]bool) table {
	lo, hi := 0, 255
	for lo < 255 && !seen[lo] {
		lo++
	}
	for hi > 0 && !seen[hi] {
		hi--
	}
	t := identity()
	if hi <= lo {
		return t
	}
	scale := 255 / float64(hi-lo)
	offset := float64(float64(-lo) * scale)
	for i := range t {
		t[i] = uint8(min(max(int(float64(float64(i)*scale)+offset), 0), 255))
	}
	return t
}

// equalize is ImageOps.equalize: each channel's histogram becomes as even as its values allow.
func equalize(im Image) {
	h := histogram(im.Pix)
	var t [channels]table
	for c := range t {
		t[c] = even(&h[c])
	}
	applyTables(&t, im.Pix)
}

// histogram counts in two halves, so that equal neighbours do not wait for each other.
func histogram(pix []byte) (h [channels][256]int) {
	var other [channels][256]int
	for ; len(pix) >= 2*channels; pix = pix[2*channels:] {
		h[0][pix[0]]++
		h[1][pix[1]]++
		h[2][pix[2]]++
		other[0][pix[3]]++
		other[1][pix[4]]++
		other[2][pix[5]]++
	}
	for i, v := range pix {
		h[i][v]++
	}
	for c := range h {
		for i := range h[c] {
			h[c][i] += other[c][i]
		}
	}
	return h
}

// even gives each value its share of the values below it; the largest value's pixels take no part in the step.
func even(h *[256]int) table {
	total, last := 0, 0
	for _, n := range h {
		total += n
		if n > 0 {
			last = n
		}
	}
	t := identity()
	step := (total - last) / 255
	if step == 0 {
		return t
	}
	n := step / 2
	for i := range t {
		t[i] = uint8(min(n/step, 255))
		n += h[i]
	}
	return t
}
