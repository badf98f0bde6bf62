package image

import "github.com/stepahead-io/stepahead/transform"

// turn is how a stored picture is shown: mirrored in its own rows and columns, then transposed.
type turn struct {
	flipX, flipY, transpose bool
}

// turnOf returns that of an EXIF orientation, 1 to 8.
func turnOf(orientation int) turn {
	return [...]turn{
		1: {},
		2: {flipX: true},
		3: {flipX: true, flipY: true},
		4: {flipY: true},
		5: {transpose: true},
		6: {transpose: true, flipY: true},
		7: {transpose: true, flipX: true, flipY: true},
		8: {transpose: true, flipX: true},
	}[orientation]
}

// size returns that of the shown picture for a stored one, and the reverse.
func (t turn) size(width, height int) (w, h int) {
	if t.transpose {
		return height, width
	}
	return width, height
}

// stored maps a box of the shown picture to the box of the stored one, of the given size, that shows there.
func (t turn) stored(b transform.Box, width, height int) transform.Box {
	if t.transpose {
		b.X, b.Y, b.W, b.H = b.Y, b.X, b.H, b.W
	}
	if t.flipX {
		b.X = width - b.X - b.W
	}
	if t.flipY {
		b.Y = height - b.Y - b.H
	}
	return b
}

// mirrored says which axes of the shown picture run against those of the stored one.
func (t turn) mirrored() (across, down bool) {
	if t.transpose {
		return t.flipY, t.flipX
	}
	return t.flipX, t.flipY
}

// tile is the side, in pixels, of the squares in which pixels are moved: rows of one picture are columns of
// the other, and both must stay in the cache.
const tile = 32

// apply turns stored pixels, RGB of the given size, into out.
func (t turn) apply(out, in []byte, width, height int) {
	w, h := t.size(width, height)
	start, right, down := t.walk(width, height)
	for y0 := 0; y0 < h; y0 += tile {
		for x0 := 0; x0 < w; x0 += tile {
			for y := y0; y < min(y0+tile, h); y++ {
				to, from := out[channels*(y*w+x0):], start+y*down+x0*right
				for n := min(tile, w-x0); n > 0; n, to, from = n-1, to[channels:], from+right {
					to[0], to[1], to[2] = in[from], in[from+1], in[from+2]
				}
			}
		}
	}
}

// walk returns where in the stored pixels the first shown one lies, and how far it is from there to the
// next one to the right and to the next one below.
func (t turn) walk(width, height int) (start, right, down int) {
	right, down = channels, channels*width
	if t.flipX {
		start, right = start+channels*(width-1), -right
	}
	if t.flipY {
		start, down = start+channels*width*(height-1), -down
	}
	if t.transpose {
		right, down = down, right
	}
	return start, right, down
}

// settle does after openAll what C does not: it opens a GIF, and gives the size as shown.
func (p *picture) settle() {
	if p.err != nil {
		return
	}
	if p.code == inGo {
		if p.gif, p.err = openGIF(p.in); p.err == nil {
			p.width, p.height = p.gif.width, p.gif.height
		}
		return
	}
	p.width, p.height = p.turn.size(p.width, p.height)
}

// memory returns what the decoder may hold at once. Turning takes as much again.
func (p *picture) memory(lim Limits) int64 {
	if p.turn == (turn{}) {
		return lim.MaxMemory
	}
	return lim.MaxMemory / 2
}

// streams reports whether C gives the rows of the picture as a stage takes them.
func (p *picture) streams() bool { return p.gif == nil && p.turn == (turn{}) }

// decode runs the stage that decodes and sets the picture's err. Of a picture that does not stream, the stage's crop is
// made first, as far as the result depends on it.
func (j job) decode(p *picture, s *stage, out []byte) {
	if p.streams() {
		runAll([]running{{p, s, out}}, j.variant, j.lim)
		return
	}
	b := s.tables().source
	pixels := j.upright(p, s, b)
	if p.err != nil {
		return
	}
	made := pixelsOf(pixels, b.W, b.H)
	made.x, made.y = b.X, b.Y
	runAll([]running{{made, s, out}}, j.variant, j.lim)
	p.err = made.err
}

// upright returns the pixels of a box of the shown picture, in the size in which the stage has it decoded, or sets the
// picture's err.
func (j job) upright(p *picture, s *stage, b transform.Box) []byte {
	if p.gif != nil {
		var pixels []byte
		pixels, p.err = p.gif.rgb(b, p.decoding.Truncated == "fill", j.lim.MaxMemory)
		return pixels
	}
	size := channels * int64(b.W) * int64(b.H)
	if 2*size > p.memory(j.lim) {
		p.err = refuse(transform.KindLimit, "%s: turning %d x %d pixels needs %d bytes, the limit is %d, half of the memory limit", p.name, b.W, b.H, 2*size, p.memory(j.lim))
		return nil
	}
	width, height := p.width, p.height
	if s.scaled != nil {
		width, height = s.scaled.across.n, s.scaled.down.n
	}
	stored := newStage(p.turn.size(width, height))
	stored.denominator = s.denominator
	stored.cut(transform.Step{Box: p.turn.stored(b, stored.w, stored.h)})
	in, out := make([]byte, size), make([]byte, size)
	runAll([]running{{p, stored, in}}, j.variant, j.lim)
	p.turn.apply(out, in, stored.crop.W, stored.crop.H)
	return out
}
