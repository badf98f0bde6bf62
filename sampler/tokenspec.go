package sampler

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The values of TokenSpec.Packing; package sampler/tokens says what they do.
const (
	PackWindows = "windows"
	PackChunk   = "chunk"
	PackBestFit = "best-fit"
	// PackMegatron has the samples of Megatron-core's datasets, in its order (sampler/megatron).
	PackMegatron = "megatron"
)

// MaxSequenceLength bounds TokenSpec.SequenceLength: far above any model's, and small enough that lengths fit in
// 32 bits and the tables that a plan of samples holds stay small.
const MaxSequenceLength = 1 << 24

// A TokenSpec says how sequences of tokens become the samples that an order is of (sampler/tokens). Each
// Source.Samples then counts those samples.
type TokenSpec struct {
	// Megatron is what Megatron's order depends on, with PackMegatron; else nil. The Spec then has one
	// source, whose Samples counts the samples of the blend, whatever the number of datasets.
	Megatron *MegatronSpec `json:"megatron,omitempty"`
	// Packing is PackWindows (default), PackChunk, PackBestFit or PackMegatron.
	Packing string `json:"packing"`
	// SequenceLength is the number of input tokens of a sample, 1 to 2^24.
	SequenceLength int64 `json:"sequence_length"`
}

// parseTokens reads the member "tokens", if there is one.
func (s *Spec) parseTokens(data json.RawMessage) error {
	if data == nil {
		return nil
	}
	s.Tokens = &TokenSpec{}
	var megatron json.RawMessage
	err := parseObject(data, []member{
		{"megatron", &megatron, optional},
		{"packing", &s.Tokens.Packing, optional},
		{"sequence_length", &s.Tokens.SequenceLength, required},
	})
	if err == nil && megatron != nil {
		s.Tokens.Megatron, err = parseMegatronSpec(megatron)
	}
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// validate returns everything that is wrong with a spec of a Spec with defaults, or nil.
func (t *TokenSpec) validate() error {
	if t == nil {
		return nil
	}
	var errs []error
	if t.SequenceLength < 1 || t.SequenceLength > MaxSequenceLength {
		errs = append(errs, fmt.Errorf("tokens.sequence_length: %d: must be 1 to %d", t.SequenceLength, MaxSequenceLength))
	}
	errs = append(errs, checkValue("tokens.packing", t.Packing, []string{PackWindows, PackChunk, PackBestFit, PackMegatron}))
	if (t.Packing == PackMegatron) != (t.Megatron != nil) {
		errs = append(errs, fmt.Errorf("tokens.packing: %q: %q has a member \"megatron\", and no other has", t.Packing, PackMegatron))
	}
	return errors.Join(append(errs, t.Megatron.validate())...)
}

func (t *TokenSpec) clone() *TokenSpec {
	if t == nil {
		return nil
	}
	c := *t
	c.Megatron = t.Megatron.clone()
	return &c
}

// inOrder tells whether samples are taken in their order whatever Spec.Shuffle says: chunks are cut from
// sequences that are shuffled already, and Megatron's samples have their order.
func (t *TokenSpec) inOrder() bool {
	return t != nil && (t.Packing == PackChunk || t.Packing == PackMegatron)
}

// text says for people what the samples are; other samples have another text.
func (t *TokenSpec) text() string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("sequence length %d, packing %s%s", t.SequenceLength, t.Packing, t.Megatron.text())
}
