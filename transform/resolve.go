package transform

import "fmt"

// Box is a rectangle of whole pixels: columns [X, X+W), rows [Y, Y+H).
type Box struct {
	X, Y, W, H int
}

// StepKind says what a [Step] does.
type StepKind string

// The kinds of [Step].
const (
	StepCrop   StepKind = "crop"   // take Box; pixels outside the input are zero
	StepResize StepKind = "resize" // scale to Width x Height with Pillow's bilinear, passes in the order of Version
	StepFlip   StepKind = "flip"   // mirror left and right
)

// Step is one pixel operation with every parameter known. Width and Height are its output's size.
type Step struct {
	Kind          StepKind
	Op            int // index of the operator it comes from, for messages
	Box           Box // of a crop, in the step's input; may reach outside it
	Width, Height int
	Version       int // of a resize: 1 or 2
}

// Resolved is the agent half of a plan for one sample: decode, then Steps in order. Steps without an
// effect (no flip drawn, a crop of everything, a resize to the same size) are left out.
type Resolved struct {
	Decode DecodeImage
	Steps  []Step
	Output TensorSpec // uint8, height x width x channels
}

// Resolve draws the random parameters of one sample whose decoded image has the given size. It is a
// pure function of the plan, the size and the key, equal to the bit on every architecture. The tail
// (Normalize, ToDtype) plays no part. An error is an [*Error] of kind plan or limit.
func (p *Plan) Resolve(width, height int, key Key) (Resolved, error) {
	if p.cut == 0 {
		return Resolved{}, planError("Plan.Resolve", "the rest of a cut plan decodes nothing; use the agent half")
	}
	if width < 1 || height < 1 || width > maxSide || height > maxSide {
		return Resolved{}, &Error{Kind: KindLimit, Op: "DecodeImage", Detail: fmt.Sprintf("%d x %d pixels; sides must be from 1 to %d", width, height, maxSide)}
	}
	r := resolver{w: width, h: height}
	for i, op := range p.ops[:p.cut] {
		if err := r.add(i, op, key); err != nil {
			return Resolved{}, err
		}
	}
	return Resolved{
		Decode: p.ops[0].(DecodeImage),
		Steps:  r.steps,
		Output: TensorSpec{Dtype: Uint8, Shape: []int{r.h, r.w, channels}},
	}, nil
}

// maxSide is PNG's largest side; it keeps every product below 2^62.
const maxSide = 1<<31 - 1

// resolver follows the image's size through the operators.
type resolver struct {
	w, h  int
	steps []Step
}

func (r *resolver) add(i int, op Op, key Key) error {
	switch o := op.(type) {
	case Resize:
		w, h, err := o.size(r.w, r.h)
		if err != nil {
			return err
		}
		r.resize(i, w, h, o.Version)
	case CenterCrop:
		r.crop(i, o.box(r.w, r.h))
	case RandomResizedCrop:
		r.crop(i, o.draw(r.w, r.h, newStream(key.Op(uint32(i)))))
		r.resize(i, o.Width, o.Height, o.Version)
	case RandomHorizontalFlip:
		if newStream(key.Op(uint32(i))).uniform() < o.P {
			r.steps = append(r.steps, Step{Kind: StepFlip, Op: i, Width: r.w, Height: r.h})
		}
	}
	return nil
}

func (r *resolver) crop(i int, b Box) {
	if b == (Box{W: r.w, H: r.h}) {
		return
	}
	r.w, r.h = b.W, b.H
	r.steps = append(r.steps, Step{Kind: StepCrop, Op: i, Box: b, Width: b.W, Height: b.H})
}

func (r *resolver) resize(i, w, h, version int) {
	if w == r.w && h == r.h {
		return
	}
	r.w, r.h = w, h
	r.steps = append(r.steps, Step{Kind: StepResize, Op: i, Width: w, Height: h, Version: version})
}

func sizeDetail(w, h, short, long int) string {
	return fmt.Sprintf("an image of %d x %d pixels would become %d x %d; sides must be from 1 to %d", w, h, short, long, maxSize)
}
