package transform

import "errors"

// Finisher applies a plan's tail to uint8 pixels by table, at the consumer. It is immutable and safe
// for concurrent use.
type Finisher struct{}

// NewFinisher builds the tables of rest, the second half of [Plan.Cut], for pixels of the given number of
// channels. An empty rest copies.
func NewFinisher(rest *Plan, channels int) (*Finisher, error) { return nil, errors.ErrUnsupported }

// Spec returns the output of Apply for pixels of spec in.
func (f *Finisher) Spec(in TensorSpec) TensorSpec { return in }

// Apply reads whole uint8 HWC pixels from src and writes little-endian elements of the output dtype, HWC, to
// dst, which must hold exactly as many elements as src has bytes. dst and src must not overlap. It
// allocates nothing.
func (f *Finisher) Apply(dst, src []byte) {}
