package image

import (
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
)

const (
	channels = 3       // of every picture: RGB
	maxSide  = 1 << 28 // of any picture: positions in bytes must fit 32 bits
)

// Run executes the agent half of a plan on one encoded image: it decodes in, applies the geometric
// operators with the parameters that key draws, and writes uint8 pixels, height x width x channels,
// to the front of out. It returns the shape of what it wrote.
//
// in and out belong to the caller, must not overlap and are not kept. in may be any bytes at all: an
// error about them, an out that is too small included, is a [*transform.Error] that is the same
// wherever they are tried, and out then holds nothing of use. Run is safe for concurrent use.
func Run(plan *transform.Plan, key transform.Key, in, out []byte, lim Limits) (transform.TensorSpec, error) {
	if err := lim.Validate(); err != nil {
		return transform.TensorSpec{}, err
	}
	j := job{lim: lim.withDefaults(), variant: bestVariant()}
	return j.run(in, out, func(width, height int) (transform.Resolved, error) {
		r, err := plan.Resolve(width, height, key)
		if err == nil {
			err = offered(r.Decode)
		}
		return r, err
	})
}

// offered refuses what a plan may come to ask of a decoder before the decoders here can do it.
func offered(d transform.DecodeImage) error {
	if d.Mode != "RGB" || d.Orientation != "stored" {
		return refuse(transform.KindPlan, "mode %q with orientation %q is not offered by this build", d.Mode, d.Orientation)
	}
	return nil
}

// job is what one image may cost and which kernels it uses.
type job struct {
	lim     Limits
	variant variant
}

// run executes the steps that resolve gives for the decoded image's size.
func (j job) run(in, out []byte, resolve func(width, height int) (transform.Resolved, error)) (transform.TensorSpec, error) {
	p, err := j.open(in)
	if err != nil {
		return transform.TensorSpec{}, err
	}
	defer func() { p.close() }()
	r, err := resolve(p.width, p.height)
	if err != nil {
		return transform.TensorSpec{}, err
	}
	stages, err := stagesOf(p.width, p.height, r.Steps)
	if err == nil {
		err = j.check(stages, int64(len(out)))
	}
	if err != nil {
		return transform.TensorSpec{}, err
	}
	for _, s := range stages[:len(stages)-1] {
		if p, err = j.between(p, s); err != nil {
			return transform.TensorSpec{}, err
		}
	}
	last := stages[len(stages)-1]
	if err := p.run(last, j.variant, j.lim, out[:last.bytes()]); err != nil {
		return transform.TensorSpec{}, err
	}
	return transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{last.outH, last.outW, channels}}, nil
}

// open reads the header and refuses what is too large, before any memory is taken for pixels.
func (j job) open(in []byte) (*picture, error) {
	if int64(len(in)) > j.lim.MaxInput {
		return nil, refuse(transform.KindLimit, "%d bytes, the limit is %d", len(in), j.lim.MaxInput)
	}
	f, err := sniff(in)
	if err != nil {
		return nil, err
	}
	p, err := openPicture(f, in, j.lim)
	if err != nil {
		return nil, err
	}
	if int64(p.width)*int64(p.height) > j.lim.MaxPixels || max(p.width, p.height) > maxSide {
		p.close()
		return nil, refuse(transform.KindLimit, "%s: %d x %d pixels, the limit is %d", f.name, p.width, p.height, j.lim.MaxPixels)
	}
	return p, nil
}

// check refuses results, intermediate ones too, that are larger than the limits or than the caller's room.
func (j job) check(stages []*stage, room int64) error {
	for i, s := range stages {
		switch {
		case max(s.w, s.h, s.outW, s.outH) > maxSide || s.bytes() > j.lim.MaxOutput:
			return tooLarge("a picture of %d x %d pixels, the limit is %d bytes", s.outW, s.outH, j.lim.MaxOutput)
		case s.tableBytes() > j.lim.MaxMemory:
			return tooLarge("resizing to %d x %d needs %d bytes, the memory limit is %d", s.w, s.h, s.tableBytes(), j.lim.MaxMemory)
		case i == len(stages)-1 && s.bytes() > room:
			return tooLarge("the result has %d bytes, there is room for %d", s.bytes(), room)
		}
	}
	return nil
}

func tooLarge(detail string, args ...any) error {
	return &transform.Error{Kind: transform.KindLimit, Op: "image.Run", Detail: fmt.Sprintf(detail, args...)}
}

// between runs a stage whose result is the picture of the next one.
func (j job) between(p *picture, s *stage) (*picture, error) {
	defer p.close()
	pixels := make([]byte, s.bytes())
	if err := p.run(s, j.variant, j.lim, pixels); err != nil {
		return p, err
	}
	next, err := openPixels(pixels, s.outW, s.outH)
	if err != nil {
		return p, err
	}
	return next, nil
}
