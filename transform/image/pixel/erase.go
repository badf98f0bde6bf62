package pixel

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stepahead-io/stepahead/transform"
)

// erase overwrites s.Box, which must lie inside the picture, with s.Fill, or with noise drawn from s.Key.
func erase(s transform.Step, im Image, _ func(n int) []byte) (Image, error) {
	b := s.Box
	if b.X < 0 || b.Y < 0 || b.W < 1 || b.H < 1 || b.X > im.W-b.W || b.Y > im.H-b.H || b.W > im.W || b.H > im.H {
		return Image{}, refuse(s, "a box of %d x %d at (%d, %d); it must lie inside the picture of %d x %d", b.W, b.H, b.X, b.Y, im.W, im.H)
	}
	n := noise{key: s.Key}
	for y := b.Y; y < b.Y+b.H; y++ {
		part := im.row(y)[channels*b.X : channels*(b.X+b.W)]
		if s.Noise {
			n.read(part)
		} else {
			fillRow(part, s.Fill)
		}
	}
	return im, nil
}

// noise is a stream of uniform bytes: SHA-256 of the 16-byte key and u32le j for j = 0, 1, 2, ..., one after the other, which
// are the words that random operators draw (docs/randomness.md), in little-endian order.
type noise struct {
	key   [16]byte
	block uint32
	left  []byte // of the last block
}

func (n *noise) read(to []byte) {
	for len(to) > 0 {
		if len(n.left) == 0 {
			n.left = n.next()
		}
		k := copy(to, n.left)
		to, n.left = to[k:], n.left[k:]
	}
}

func (n *noise) next() []byte {
	var in [20]byte
	copy(in[:], n.key[:])
	binary.LittleEndian.PutUint32(in[16:], n.block)
	n.block++
	sum := sha256.Sum256(in[:])
	return sum[:]
}
