package image

// The operator jpeg/dct-scaled@1: the inverse DCT of a JPEG can give 1/2, 1/4 or 1/8 of a picture's size for a part of
// the work. Where a resize follows, the picture is decoded at the smallest of these sizes at which no pixel of the
// result is made of less than one, and the box that the plan takes, which may then begin and end inside a pixel, is
// resized as Pillow's resize(box=) does.

// shrink makes the first stage of a plan decode a smaller picture, if the plan allows it and the result has no more
// pixels than that.
func (s *stage) shrink(p *picture) {
	if p.decoding.JPEG != "dct-scaled" || p.name != "jpeg" || s.resampling != resized {
		return
	}
	for d := 8; d > 1; d /= 2 {
		if s.crop.W >= d*s.w && s.crop.H >= d*s.h {
			across, down := p.turn.mirrored()
			s.denominator = d
			s.scaled = &input{across: scaledSpan(p.width, s.crop.X, s.crop.W, d, across), down: scaledSpan(p.height, s.crop.Y, s.crop.H, d, down)}
			return
		}
	}
}

// scaledSpan returns where [at, at+n) of size pixels lies when there are size/d, rounded up, pixels. The last one may reach
// beyond the picture's end; along a mirrored axis that is the first. Sides of a JPEG have 16 bits, so that eighths are exact.
func scaledSpan(size, at, n, d int, mirrored bool) span {
	less := (size + d - 1) / d
	first := 0
	if mirrored {
		first = less*d - size
	}
	return span{less, float32(first+at) / float32(d), float32(first+at+n) / float32(d)}
}
