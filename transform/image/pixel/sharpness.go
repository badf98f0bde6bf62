package pixel

import "github.com/stepahead-io/stepahead/transform"

// sharpness blends with Pillow's SMOOTH filter: the mean of the nine pixels around with five times the weight for the
// one in the middle. Pillow sums in float32 and rounds; the sum is a whole number of thirteenths, so that it is
// at least 1/26 away from where the rounding turns, and integers give the same. Pixels at the border stay as they are.
func sharpness(s transform.Step, b *blend, im Image, alloc func(n int) []byte) (Image, error) {
	if im.W < 3 || im.H < 3 {
		return im, nil
	}
	out, err := newImage(s, im.W, im.H, alloc)
	if err != nil {
		return Image{}, err
	}
	copy(out.row(0), im.row(0))
	for y := 1; y < im.H-1; y++ {
		sharpenRow(out.row(y), im.row(y-1), im.row(y), im.row(y+1), b)
	}
	copy(out.row(im.H-1), im.row(im.H-1))
	return out, nil
}

// sharpenRow goes through one channel after the other, so that each column is summed once.
func sharpenRow(out, above, row, below []byte, b *blend) {
	n := len(row) - channels // where the last pixel begins
	copy(out[:channels], row)
	copy(out[n:], row[n:])
	for c := range channels {
		left, middle := column(above, row, below, c), column(above, row, below, c+channels)
		for i := c + channels; i < n; i += channels {
			right := column(above, row, below, i+channels)
			out[i] = b.mix(smooth(left+middle+right+4*uint32(row[i])), row[i])
			left, middle = middle, right
		}
	}
}

func column(above, row, below []byte, i int) uint32 {
	return uint32(above[i]) + uint32(row[i]) + uint32(below[i])
}

// smooth divides by 13 and rounds to the nearest, where no tie can be.
func smooth(sum uint32) uint8 { return uint8((2*sum + 13) / 26) }
