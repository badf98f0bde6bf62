package transform

import "errors"

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
	return Resolved{}, errors.ErrUnsupported
}
