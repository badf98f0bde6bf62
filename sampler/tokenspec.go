package sampler

import (
	"errors"
	"fmt"
)

// The values of TokenSpec.Packing; package sampler/tokens says what they do.
const (
	PackWindows = "windows"
	PackChunk   = "chunk"
	PackBestFit = "best-fit"
)

// maxSequenceLength is tokens.MaxSequenceLength.
const maxSequenceLength = 1 << 24

// A TokenSpec says how sequences of tokens become the samples that an order is of (sampler/tokens). Each
// Source.Samples then counts those samples.
type TokenSpec struct {
	// Packing is PackWindows (default), PackChunk or PackBestFit.
	Packing string `json:"packing"`
	// SequenceLength is the number of input tokens of a sample, 1 to 2^24.
	SequenceLength int64 `json:"sequence_length"`
}

// ParseTokenSpec reads the JSON form, as strictly as ParseSpec; "packing" may be left out.
func ParseTokenSpec(data []byte) (TokenSpec, error) {
	t := TokenSpec{Packing: PackWindows}
	err := parseObject(data, []member{{"packing", &t.Packing, optional}, {"sequence_length", &t.SequenceLength, required}})
	return t, err
}

// Validate returns everything that is wrong, or nil.
func (t TokenSpec) Validate() error {
	var errs []error
	if t.SequenceLength < 1 || t.SequenceLength > maxSequenceLength {
		errs = append(errs, fmt.Errorf("sequence_length: %d: must be 1 to %d", t.SequenceLength, maxSequenceLength))
	}
	return errors.Join(append(errs, checkValue("packing", t.Packing, []string{PackWindows, PackChunk, PackBestFit}))...)
}

// InOrder tells whether samples are taken in their order whatever Spec.Shuffle says: chunks are cut from
// sequences that are shuffled already.
func (t TokenSpec) InOrder() bool { return t.Packing == PackChunk }
