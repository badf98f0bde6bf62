package image

import "github.com/stepahead-io/stepahead/transform"

// resampling is how a stage makes new pixels out of those in its box.
type resampling int

const (
	asIs resampling = iota
	resized
	blurred
)

// stage is a piece of a plan that one pass over a picture executes: take a box, resize it, cut a
// window out of the result, lay it on a black ground, mirror all. Each part may be without effect.
type stage struct {
	crop       transform.Box // of the input, inside it
	w, h       int           // what crop is resized to
	resampling resampling
	version    int // of the order of passes
	filter     transform.Filter
	blur       transform.Blur // in place of a resize
	window     transform.Box  // of the resized picture, inside it
	outW, outH int
	atX, atY   int // where the window lies in the output
	mirror     bool

	denominator int    // of the scale at which the picture is decoded; crop is in its own size
	scaled      *input // what is resized of a picture that is decoded smaller; nil: crop
}

func newStage(width, height int) *stage {
	whole := transform.Box{W: width, H: height}
	return &stage{crop: whole, w: width, h: height, window: whole, outW: width, outH: height, denominator: 1}
}

// padded tells whether the output is larger than the window: black is around it.
func (s *stage) padded() bool { return s.outW > s.window.W || s.outH > s.window.H }

// add puts a step at the end of the stage; false means that the step needs a part of its own.
func (s *stage) add(step transform.Step) (bool, error) {
	switch step.Kind {
	case transform.StepFlip:
		s.mirror = !s.mirror
		s.atX = s.outW - s.atX - s.window.W
		return true, nil
	case transform.StepCrop:
		if s.padded() || s.mirror {
			return false, nil
		}
		return s.cut(step), nil
	case transform.StepResize, transform.StepBlur:
		if s.resampling != asIs || s.padded() || s.mirror {
			return false, nil
		}
		if step.Kind == transform.StepBlur {
			return true, s.smooth(step)
		}
		return true, s.scale(step)
	}
	return false, nil
}

// cut takes a box, and refuses one that C cannot: what lies outside the picture becomes black, and something
// must lie inside.
func (s *stage) cut(step transform.Step) bool {
	b := step.Box
	x0, y0 := max(b.X, 0), max(b.Y, 0)
	x1, y1 := min(b.X+b.W, s.window.W), min(b.Y+b.H, s.window.H)
	inside := b.W == x1-x0 && b.H == y1-y0
	black := step.Pad == transform.PadConstant && step.Fill == [3]uint8{}
	if x0 >= x1 || y0 >= y1 || !inside && !black {
		return false
	}
	s.outW, s.outH, s.atX, s.atY = b.W, b.H, x0-b.X, y0-b.Y
	if s.resampling != asIs {
		s.window = transform.Box{X: s.window.X + x0, Y: s.window.Y + y0, W: x1 - x0, H: y1 - y0}
		return true
	}
	s.crop = transform.Box{X: s.crop.X + x0, Y: s.crop.Y + y0, W: x1 - x0, H: y1 - y0}
	s.window = transform.Box{W: s.crop.W, H: s.crop.H}
	s.w, s.h = s.crop.W, s.crop.H
	return true
}

func (s *stage) scale(step transform.Step) error {
	if step.Width < 1 || step.Height < 1 {
		return bad(step, "resize to %d x %d", step.Width, step.Height)
	}
	if step.Version != 1 && step.Version != 2 {
		return bad(step, "order of passes %d: use 1 or 2", step.Version)
	}
	if _, known := kernelOf(step.Filter); !known && step.Filter != transform.Nearest {
		return bad(step, "resize with an unknown filter %q", step.Filter)
	}
	s.resampling, s.version, s.filter, s.w, s.h = resized, step.Version, step.Filter, step.Width, step.Height
	s.window = transform.Box{W: s.w, H: s.h}
	s.outW, s.outH = s.w, s.h
	return nil
}

// smooth takes a blur, which is a resize to the same size with other weights.
func (s *stage) smooth(step transform.Step) error {
	b := step.Blur
	for _, axis := range []struct {
		kernel, side int
		sigma        float64
	}{{b.KernelX, s.w, b.SigmaX}, {b.KernelY, s.h, b.SigmaY}} {
		if axis.kernel < 1 || axis.kernel%2 == 0 || axis.kernel/2 >= axis.side || !(axis.sigma > 0) {
			return bad(step, "a blur of %d taps and standard deviation %v over %d pixels; taps are odd and half of them fewer than pixels", axis.kernel, axis.sigma, axis.side)
		}
	}
	s.resampling, s.blur = blurred, b
	return nil
}

// bytes returns the size of the stage's result.
func (s *stage) bytes() int64 { return int64(s.outW) * int64(s.outH) * channels }

// verticalFirst reports whether the vertical pass comes first. The intermediate picture is rounded to
// 8 bits, so the order shows.
func (s *stage) verticalFirst() bool {
	in := s.input()
	lost := in.down.n - s.h
	return s.version == 2 && lost > 0 && lost > 2*(in.across.n-s.w)
}

// input is what a stage resizes: two spans, which count from a corner of the picture that the decoder gives.
type input struct {
	x, y         int
	across, down span
}

func (s *stage) input() input {
	if s.scaled != nil {
		return *s.scaled
	}
	return input{s.crop.X, s.crop.Y, whole(s.crop.W), whole(s.crop.H)}
}

// tables is what the C side needs to run a stage: the part of the picture that the result depends on,
// and the coefficients relative to it. A pass that changes nothing has count 0.
type tables struct {
	source               transform.Box
	horizontal, vertical axis
	index                []int32
	coef                 []int16
}

// passes returns the weights of the two axes; nil where a pass would change nothing.
func (s *stage) passes() (across, down weighing) {
	in := s.input()
	if s.resampling == blurred {
		return gaussianOf(in.across.n, s.blur.KernelX, s.blur.SigmaX), gaussianOf(in.down.n, s.blur.KernelY, s.blur.SigmaY)
	}
	if in.across.changed(s.w) {
		across = s.weighing(in.across, s.w)
	}
	if in.down.changed(s.h) {
		down = s.weighing(in.down, s.h)
	}
	return across, down
}

// weighing returns the weights of a resize of one axis.
func (s *stage) weighing(in span, m int) weighing {
	if k, ok := kernelOf(s.filter); ok {
		return k.scaling(in, m)
	}
	return newNearest(in, m)
}

func (s *stage) tables() tables {
	in := s.input()
	t := tables{source: transform.Box{X: in.x + s.window.X, Y: in.y + s.window.Y, W: s.window.W, H: s.window.H}}
	across, down := s.passes()
	t.reserve(s, across, down)
	if t.horizontal.count > 0 {
		lo, hi := t.horizontal.fill(across, in.across.n, s.window.X, s.window.W, channels, s.mirror)
		t.source.X, t.source.W = in.x+lo, hi-lo
	}
	if t.vertical.count > 0 {
		lo, hi := t.vertical.fill(down, in.down.n, s.window.Y, s.window.H, 1, false)
		t.source.Y, t.source.H = in.y+lo, hi-lo
	}
	return t
}

// reserve lays the axes of the passes that are needed into index and coef, as the C side expects them.
func (t *tables) reserve(s *stage, across, down weighing) {
	if across != nil {
		t.horizontal = axis{count: (s.window.W + 3) / 4 * 4, stride: (across.mostTaps() + 1) / 2}
	}
	if down != nil {
		t.vertical = axis{count: s.window.H, stride: (down.mostTaps() + 1) / 2}
	}
	t.index = make([]int32, 2*(t.horizontal.count+t.vertical.count))
	t.coef = make([]int16, 4*(t.horizontal.count*t.horizontal.stride+t.vertical.count*t.vertical.stride))
	index, coef := t.index, t.coef
	for _, a := range []*axis{&t.horizontal, &t.vertical} {
		a.first, a.pairs, index = index[:a.count], index[a.count:2*a.count], index[2*a.count:]
		a.coef, coef = coef[:4*a.count*a.stride], coef[4*a.count*a.stride:]
	}
}

// tableBytes bounds the memory of tables, before it is taken.
func (s *stage) tableBytes() int64 {
	size := func(w weighing, count int) int64 {
		if w == nil {
			return 0
		}
		most := int64(w.mostTaps())
		return 8 * (int64(count+4)*(most+3) + most)
	}
	across, down := s.passes()
	return size(across, s.window.W) + size(down, s.window.H)
}
