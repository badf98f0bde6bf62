package transform

import "errors"

// Plan is a validated list of operators: DecodeImage, then geometric operators, then Normalize and
// ToDtype. It is immutable and safe for concurrent use.
type Plan struct {
	ops   []Op
	first int // index of ops[0] in the whole plan
}

type opSpec struct{}

func (DecodeImage) spec() opSpec          { return opSpec{} }
func (Resize) spec() opSpec               { return opSpec{} }
func (CenterCrop) spec() opSpec           { return opSpec{} }
func (RandomResizedCrop) spec() opSpec    { return opSpec{} }
func (RandomHorizontalFlip) spec() opSpec { return opSpec{} }
func (Normalize) spec() opSpec            { return opSpec{} }
func (ToDtype) spec() opSpec              { return opSpec{} }

// ParsePlan reads plan JSON. It is strict: an unknown operator, an unknown or doubled parameter, or
// a value out of range is an [*Error] of kind plan naming the operator's index and the parameter.
func ParsePlan(data []byte) (*Plan, error) { return nil, errors.ErrUnsupported }

// Canonical returns the plan's one spelling: sorted keys, defaults filled in, no spaces, numbers as
// in RFC 8785. The caller may keep and change it.
func (p *Plan) Canonical() []byte { return nil }

// Digest returns the SHA-256 of the canonical form.
func (p *Plan) Digest() [32]byte { return [32]byte{} }

// Len returns the number of operators.
func (p *Plan) Len() int { return len(p.ops) }

// Ops returns a copy of the operators in order.
func (p *Plan) Ops() []Op { return append([]Op(nil), p.ops...) }

// Cut splits the plan where its bytes are fewest: agent holds everything up to the last geometric
// operator and gives uint8 pixels; rest holds the tail (Normalize, ToDtype) and may be empty.
// Operator indices, and so everything drawn, do not change by cutting.
func (p *Plan) Cut() (agent, rest *Plan) { return nil, nil }

// Fixed returns the plan's output when it does not depend on the input's size.
func (p *Plan) Fixed() (TensorSpec, bool) { return TensorSpec{}, false }

// Output returns the plan's output for one sample whose decoded image has the given size.
func (p *Plan) Output(width, height int, key Key) (TensorSpec, error) {
	return TensorSpec{}, errors.ErrUnsupported
}

// Identities returns, sorted, the versioned algorithms whose golden digests two places must share
// before one may use the other's pixels.
func (p *Plan) Identities() []string { return nil }
