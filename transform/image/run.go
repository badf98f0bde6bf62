package image

import (
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image/pixel"
)

const (
	channels = 3       // of every picture: RGB
	maxSide  = 1 << 28 // of any picture: positions in bytes must fit 32 bits
)

// Run executes the agent half of a plan on one encoded image: it decodes in, applies the operators
// with the parameters that key draws, and writes uint8 pixels, height x width x channels, to the front
// of out. It returns the shape of what it wrote.
//
// in and out belong to the caller, must not overlap and are not kept. in may be any bytes at all: an
// error about them, an out that is too small included, is a [*transform.Error] that is the same
// wherever they are tried, and out then holds nothing of use. Run is safe for concurrent use.
func Run(plan *transform.Plan, key transform.Key, in, out []byte, lim Limits) (transform.TensorSpec, error) {
	var result [1]Result
	RunBatch([]Item{{plan, key, in, out}}, lim, result[:])
	return result[0].Spec, result[0].Err
}

// resolver asks the plan for the steps of one sample, once the size of its picture is known.
func resolver(plan *transform.Plan, key transform.Key) func(width, height int) (transform.Resolved, error) {
	return func(width, height int) (transform.Resolved, error) { return plan.Resolve(width, height, key) }
}

// job is what one image may cost and which kernels it uses.
type job struct {
	lim     Limits
	variant variant
}

// admit refuses an input that is too large or not an image, and otherwise returns what is to be opened.
func (j job) admit(in []byte, decoding transform.DecodeImage) *picture {
	if int64(len(in)) > j.lim.MaxInput {
		return &picture{err: refuse(transform.KindLimit, "%d bytes, the limit is %d", len(in), j.lim.MaxInput)}
	}
	f, err := sniff(in)
	p := &picture{name: f.name, code: f.code, in: in, decoding: decoding, err: err}
	if err == nil && decoding.Orientation == "apply" {
		p.turn = turnOf(orientationOf(f.code, in))
	}
	return p
}

// judge refuses what is too large, before any memory is taken for pixels.
func (j job) judge(p *picture) {
	if p.err == nil && (int64(p.width)*int64(p.height) > j.lim.MaxPixels || max(p.width, p.height) > maxSide) {
		p.err = refuse(transform.KindLimit, "%s: %d x %d pixels, the limit is %d", p.name, p.width, p.height, j.lim.MaxPixels)
	}
}

// work is what is to be done to one picture, and the memory for it.
type work struct {
	parts    []part // the first is a stage: it decodes
	channels int    // of the result: 3, or 1 where all three are equal
	out      []byte // room for the result; arrange cuts it to that
}

// arrange decides how steps are executed and refuses what would break a limit, before memory is taken.
func (j job) arrange(p *picture, r transform.Resolved, out []byte) (*work, error) {
	parts, err := partsOf(p.width, p.height, r.Steps)
	if err != nil {
		return nil, err
	}
	parts[0].stage.shrink(p)
	w := &work{parts: parts, channels: channels, out: out}
	if shape := r.Output.Shape; len(shape) == 3 {
		w.channels = shape[2]
	}
	if err := j.check(w); err != nil {
		return nil, err
	}
	w.out = out[:w.result()]
	return w, nil
}

// result returns the bytes of the finished tensor.
func (w *work) result() int64 {
	return w.parts[len(w.parts)-1].bytes() / channels * int64(w.channels)
}

// check refuses pictures, intermediate ones too, that are larger than the limits or than the caller's room.
func (j job) check(w *work) error {
	for i, p := range w.parts {
		width, height := p.size()
		last := i == len(w.parts)-1
		switch {
		case max(width, height) > maxSide || p.bytes() > j.lim.MaxOutput:
			return tooLarge("a picture of %d x %d pixels, the limit is %d bytes", width, height, j.lim.MaxOutput)
		case !last && p.bytes()/channels > j.lim.MaxPixels:
			return tooLarge("a picture of %d x %d pixels on the way, the limit is %d", width, height, j.lim.MaxPixels)
		case p.stage != nil && max(p.stage.w, p.stage.h) > maxSide:
			return tooLarge("resizing to %d x %d pixels, sides must be up to %d", p.stage.w, p.stage.h, maxSide)
		case p.stage != nil && p.stage.tableBytes() > j.lim.MaxMemory:
			return tooLarge("resizing to %d x %d needs %d bytes, the memory limit is %d", p.stage.w, p.stage.h, p.stage.tableBytes(), j.lim.MaxMemory)
		case last && w.result() > int64(len(w.out)):
			return tooLarge("the result has %d bytes, there is room for %d", w.result(), len(w.out))
		}
	}
	return nil
}

func tooLarge(detail string, args ...any) error {
	return &transform.Error{Kind: transform.KindLimit, Op: "image.Run", Detail: fmt.Sprintf(detail, args...)}
}

// finish does everything after the first stage, which made pixels, and leaves the result in out.
func (j job) finish(w *work, memory *buffers, pixels []byte) (transform.TensorSpec, error) {
	width, height := w.parts[0].size()
	for _, p := range w.parts[1:] {
		var err error
		if pixels, err = j.then(p, pixels, width, height, memory); err != nil {
			return transform.TensorSpec{}, err
		}
		width, height = p.size()
	}
	if w.channels == channels {
		copy(w.out, pixels) // most often onto itself
	} else {
		for i := range w.out {
			w.out[i] = pixels[channels*i]
		}
	}
	return transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{height, width, w.channels}}, nil
}

// then applies one part to finished pixels and returns the pixels after it.
func (j job) then(p part, pixels []byte, width, height int, memory *buffers) ([]byte, error) {
	if p.stage == nil {
		im, err := pixel.Apply(p.step, pixel.Image{W: width, H: height, Pix: pixels}, func(n int) []byte { return memory.take(int64(n)) })
		return im.Pix, err
	}
	out := memory.take(p.bytes())
	in := pixelsOf(pixels, width, height)
	runAll([]running{{in, p.stage, out}}, j.variant, j.lim)
	return out, in.err
}
