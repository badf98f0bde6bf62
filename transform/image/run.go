package image

import (
	"errors"

	"github.com/stepahead-io/stepahead/transform"
)

// Run executes the agent half of a plan on one encoded image: it decodes in, applies the geometric
// operators with the parameters that key draws, and writes uint8 pixels, height x width x channels,
// to the front of out. It returns what it wrote. A nil out only asks what would be written.
//
// in and out belong to the caller, must not overlap and are not kept. in may be any bytes at all: an
// error about them is a [*transform.Error] that is the same wherever they are tried, and out then
// holds nothing of use. Run is safe for concurrent use.
func Run(plan *transform.Plan, key transform.Key, in, out []byte, lim Limits) (transform.TensorSpec, error) {
	return transform.TensorSpec{}, errors.ErrUnsupported
}

// Golden returns, for every operator identity that this build offers, the SHA-256 (hex) over what it
// makes of small built-in vectors. Two builds may use each other's pixels for an operator exactly
// when these agree.
func Golden() map[string]string { return map[string]string{} }
