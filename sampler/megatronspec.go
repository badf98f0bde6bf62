package sampler

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A MegatronSpec is what Megatron-core's order of token data depends on beside the data and the
// length of samples.
type MegatronSpec struct {
	// Part is "train", "valid" or "test".
	Part string `json:"part"`
	// Samples is the number of samples asked for, or -1 for one epoch.
	Samples int64 `json:"samples"`
	// Seed is Megatron's --seed.
	Seed uint32 `json:"seed"`
	// Split is Megatron's --split; empty when the datasets are this part's alone.
	Split string `json:"split"`
	// Surplus is Megatron's --mid-level-dataset-surplus.
	Surplus float64 `json:"surplus"`
	// Weights are those of the blend, or none.
	Weights []float64 `json:"weights,omitempty"`
}

func parseMegatronSpec(data []byte) (*MegatronSpec, error) {
	m := &MegatronSpec{}
	err := parseObject(data, []member{
		{"part", &m.Part, required},
		{"samples", &m.Samples, required},
		{"seed", &m.Seed, required},
		{"split", &m.Split, required},
		{"surplus", &m.Surplus, required},
		{"weights", &m.Weights, optional},
	})
	if err != nil {
		return nil, fmt.Errorf("megatron: %w", err)
	}
	return m, nil
}

// validate returns what is wrong without knowing the data, or nil.
func (m *MegatronSpec) validate() error {
	if m == nil {
		return nil
	}
	errs := []error{checkValue("tokens.megatron.part", m.Part, []string{"train", "valid", "test"})}
	if m.Samples < -1 {
		errs = append(errs, fmt.Errorf("tokens.megatron.samples: %d: must be -1 for one epoch, or the number asked for", m.Samples))
	}
	for i, w := range append([]float64{m.Surplus}, m.Weights...) {
		if !(w >= 0) || math.IsInf(w, 0) { // JSON could not hold it
			errs = append(errs, fmt.Errorf("tokens.megatron: number %d of surplus and weights is %v: must be finite and not negative", i, w))
		}
	}
	return errors.Join(errs...)
}

func (m *MegatronSpec) clone() *MegatronSpec {
	if m == nil {
		return nil
	}
	c := *m
	c.Weights = slices.Clone(m.Weights)
	return &c
}

func (m *MegatronSpec) text() string {
	if m == nil {
		return ""
	}
	return " " + string(marshal(m))
}
