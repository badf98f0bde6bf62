package image

import (
	"encoding/binary"

	"github.com/stepahead-io/stepahead/transform"
)

// gif is the first frame of a GIF on its screen: its header is read, its pixels are not. What Pillow makes
// of odd files is the rule: the screen grows to hold a frame that reaches beyond it, what lies outside the
// frame has the transparent colour if there is one, else colour 0, and bytes between blocks are skipped.
type gif struct {
	width, height int           // of the screen
	frame         transform.Box // on it
	palette       [256][channels]byte
	background    byte // the colour outside the frame
	interlaced    bool
	bits          int    // of a pixel, as the decompressor begins
	data          []byte // the sub-blocks of the frame and all that follows
}

// reader takes bytes from the front; what is not there sets short.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.short = true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// subBlock returns the next sub-block; nothing marks the end of their sequence.
func (r *reader) subBlock() []byte { return r.take(int(r.take(1)[0])) }

func (r *reader) skipSubBlocks() {
	for !r.short && len(r.subBlock()) > 0 {
	}
}

// openGIF reads everything up to the pixels of the first frame.
func openGIF(in []byte) (*gif, error) {
	r := &reader{rest: in}
	head := r.take(13)
	g := &gif{width: le16(head[6:]), height: le16(head[8:])}
	for i := range g.palette {
		g.palette[i] = [channels]byte{byte(i), byte(i), byte(i)}
	}
	g.readPalette(r, head[10])
	for !r.short {
		switch r.take(1)[0] {
		case ';':
			return nil, refuse(transform.KindDecode, "gif: there is no frame")
		case '!':
			g.readExtension(r)
		case ',':
			return g, g.readFrame(r)
		}
	}
	return nil, refuse(transform.KindTruncated, "gif: the data end before the first frame")
}

func le16(b []byte) int { return int(binary.LittleEndian.Uint16(b)) }

// readPalette reads the colours that flags announce over those there are; what is left of 256 becomes black. A
// palette that only repeats the numbers of its colours counts as none.
func (g *gif) readPalette(r *reader, flags byte) {
	if flags&0x80 == 0 {
		return
	}
	var colours [256][channels]byte
	plain := true
	for i := range 2 << (flags & 7) {
		c := r.take(channels)
		colours[i] = [channels]byte(c)
		plain = plain && int(c[0]) == i && int(c[1]) == i && int(c[2]) == i
	}
	if !plain {
		g.palette = colours
	}
}

// readExtension takes note of a transparent colour. The two ways in which an empty extension ends are Pillow's.
func (g *gif) readExtension(r *reader) {
	const graphicControl, comment = 249, 254
	label := r.take(1)[0]
	block := r.subBlock()
	if label == graphicControl && len(block) >= 4 && block[0]&1 != 0 {
		g.background = block[3]
	}
	if len(block) > 0 || label != comment {
		r.skipSubBlocks()
	}
}

func (g *gif) readFrame(r *reader) error {
	head := r.take(9)
	g.frame = transform.Box{X: le16(head), Y: le16(head[2:]), W: le16(head[4:]), H: le16(head[6:])}
	g.width, g.height = max(g.width, g.frame.X+g.frame.W), max(g.height, g.frame.Y+g.frame.H)
	g.interlaced = head[8]&0x40 != 0
	g.readPalette(r, head[8])
	g.bits = int(r.take(1)[0])
	g.data = r.rest
	switch {
	case r.short:
		return refuse(transform.KindTruncated, "gif: the data end before the pixels of the first frame")
	case g.frame.W == 0 || g.frame.H == 0:
		return refuse(transform.KindDecode, "gif: the first frame has %d x %d pixels", g.frame.W, g.frame.H)
	}
	return nil
}

// rgb returns the pixels of a box of the screen. Memory is what a screen and the box take.
func (g *gif) rgb(b transform.Box, fill bool, maxMemory int64) ([]byte, error) {
	frame := int64(g.frame.W) * int64(g.frame.H)
	if need := frame + channels*int64(b.W)*int64(b.H); need > maxMemory {
		return nil, refuse(transform.KindLimit, "gif: decoding needs %d bytes at once, the memory limit is %d", need, maxMemory)
	}
	indices := make([]byte, frame)
	have, err := unpackLZW(indices, g.data, g.bits)
	if err != nil && !fill {
		return nil, err
	}
	out := make([]byte, channels*b.W*b.H)
	for y := range b.H {
		g.row(out[channels*b.W*y:][:channels*b.W], b.X, b.Y+y, indices[:have])
	}
	return out, nil
}

// row writes the pixels of row y of the screen from column x on.
func (g *gif) row(out []byte, x, y int, indices []byte) {
	at := -1 // of the row's first pixel in indices
	if y -= g.frame.Y; y >= 0 && y < g.frame.H {
		at = g.frame.W * g.stored(y)
	}
	for x -= g.frame.X; len(out) > 0; x, out = x+1, out[channels:] {
		i := g.background
		if at >= 0 && x >= 0 && x < g.frame.W && at+x < len(indices) {
			i = indices[at+x]
		}
		copy(out, g.palette[i][:])
	}
}

// stored tells where row y of the frame lies in the order of the file.
func (g *gif) stored(y int) int {
	if !g.interlaced {
		return y
	}
	before := 0
	for _, pass := range [][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}} {
		first, step := pass[0], pass[1]
		if y%step == first {
			return before + y/step
		}
		before += (g.frame.H - first + step - 1) / step
	}
	panic("image: a row in no pass")
}
