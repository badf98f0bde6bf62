package pixel

import (
	"encoding/binary"
	"math"

	"github.com/stepahead-io/stepahead/transform"
)

// enhance does what Pillow's ImageEnhance does: it blends the picture with a degenerate form of it, which is black
// for brightness, the mean grey for contrast, the grey picture for saturation, and the smoothed one for sharpness. A
// factor of 0 gives that form, 1 the picture itself, and beyond it goes on in the same direction.
func enhance(s transform.Step, im Image, alloc func(n int) []byte) (Image, error) {
	factor := float32(s.Factor) // Pillow blends in float32
	if f := float64(factor); math.IsNaN(f) || math.IsInf(f, 0) {
		return Image{}, refuse(s, "a factor of %v; it must be finite, as a float32 too", s.Factor)
	}
	b := newBlend(factor)
	switch s.Kind {
	case transform.StepBrightness:
		b.table(0).apply(im.Pix)
	case transform.StepContrast:
		b.table(meanLuma(im)).apply(im.Pix)
	case transform.StepSaturation:
		saturation(b, im)
	case transform.StepSharpness:
		return sharpness(s, b, im, alloc)
	}
	return im, nil
}

// blend holds factor * d for every difference d from -255 to 255, rounded to float32. What is beyond +-256 is clipped
// to that, which changes no result: added to a value from 0 to 255 it stays below 0, or above 255.
type blend struct {
	products [511]float32
}

func newBlend(factor float32) *blend {
	b := new(blend)
	for i := range b.products {
		b.products[i] = min(max(float32(factor*float32(i-255)), -256), 256)
	}
	return b
}

// mix returns from + factor * (to - from), the sum rounded to float32, clipped and truncated.
func (b *blend) mix(from, to uint8) uint8 {
	v := int32(float32(from) + b.products[int(to)-int(from)+255])
	return uint8(min(max(v, 0), 255))
}

// table says what each value becomes when it is blended with the same value everywhere.
func (b *blend) table(from uint8) *table {
	var t table
	for i := range t {
		t[i] = b.mix(from, uint8(i))
	}
	return &t
}

// luma is Pillow's convert("L"): ITU-R 601-2 with 16 fractional bits.
func luma(r, g, b uint8) uint8 {
	return uint8((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
}

// lumas returns the luma of two pixels, whose six bytes are the lower ones of v, in the two halves of the result.
func lumas(v uint64) uint64 {
	const both = 0xff | 0xff<<32
	r := v&0xff | v<<8&(0xff<<32)
	g := v>>8&0xff | v&(0xff<<32)
	b := v>>16&0xff | v>>8&(0xff<<32)
	return (r*19595 + g*38470 + b*7471 + 0x8000*(1|1<<32)) >> 16 & both
}

// meanLuma returns the mean of the grey picture, rounded half up.
func meanLuma(im Image) uint8 {
	sum := 0
	for pix := im.Pix; len(pix) > 0; {
		part := pix[:min(len(pix), lumasBytes)]
		sum += sumLuma(part)
		pix = pix[len(part):]
	}
	return uint8(float64(sum)/float64(im.W*im.H) + 0.5)
}

// lumasBytes is how many bytes at most may be summed in halves of 32 bits: whole pixels, 255 for each.
const lumasBytes = channels << 24

func sumLuma(pix []byte) int {
	var halves uint64
	for ; len(pix) >= 4*channels+2; pix = pix[4*channels:] {
		halves += lumas(binary.LittleEndian.Uint64(pix)) + lumas(binary.LittleEndian.Uint64(pix[2*channels:]))
	}
	sum := int(halves&(1<<32-1) + halves>>32)
	for ; len(pix) >= channels; pix = pix[channels:] {
		sum += int(luma(pix[0], pix[1], pix[2]))
	}
	return sum
}

func grayscale(im Image) {
	pix := im.Pix
	for ; len(pix) >= 4*channels+2; pix = pix[4*channels:] {
		a, b := lumas(binary.LittleEndian.Uint64(pix)), lumas(binary.LittleEndian.Uint64(pix[2*channels:]))
		binary.LittleEndian.PutUint64(pix, a&0xff*0x010101|a>>32*0x010101<<24|b&0xff*0x0101<<48)
		binary.LittleEndian.PutUint32(pix[8:], uint32(b&0xff|b>>32*0x010101<<8))
	}
	for ; len(pix) >= channels; pix = pix[channels:] {
		l := luma(pix[0], pix[1], pix[2])
		pix[0], pix[1], pix[2] = l, l, l
	}
}

func saturation(b *blend, im Image) {
	for pix := im.Pix; len(pix) >= channels; pix = pix[channels:] {
		l := luma(pix[0], pix[1], pix[2])
		pix[0], pix[1], pix[2] = b.mix(l, pix[0]), b.mix(l, pix[1]), b.mix(l, pix[2])
	}
}
