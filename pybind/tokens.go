package pybind

import (
	"fmt"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler/megatron"
)

// tokenOptions are the arguments of the Python Tokens; docs are there.
type tokenOptions struct {
	SequenceLength int64          `json:"sequence_length"`
	Packing        string         `json:"packing"`
	VocabSize      int64          `json:"vocab_size"`
	Order          *megatronOrder `json:"order"`
}

// megatronOrder are the arguments of the Python megatron.Order.
type megatronOrder struct {
	Part       string    `json:"part"`
	Samples    int64     `json:"samples"`
	Seed       uint32    `json:"seed"`
	Split      string    `json:"split"`
	Weights    []float64 `json:"weights"`
	Surplus    float64   `json:"surplus"`
	MicroBatch int64     `json:"micro_batch"`
}

// loader are the options of the loader; nil where there are none.
func (o *tokenOptions) loader() (*loader.TokenOptions, error) {
	if o == nil {
		return nil, nil
	}
	order, err := o.Order.loader()
	return &loader.TokenOptions{SequenceLength: o.SequenceLength, Packing: o.Packing, VocabSize: o.VocabSize, Megatron: order}, err
}

func (o *megatronOrder) loader() (*loader.MegatronOptions, error) {
	if o == nil {
		return nil, nil
	}
	for _, part := range []megatron.Split{megatron.Train, megatron.Valid, megatron.Test} {
		if part.String() == o.Part {
			return &loader.MegatronOptions{
				Part: part, Samples: o.Samples, Seed: o.Seed, Split: o.Split, Weights: o.Weights, Surplus: o.Surplus, MicroBatch: o.MicroBatch,
			}, nil
		}
	}
	return nil, fmt.Errorf("order: part %q: must be train, valid or test", o.Part)
}
