package pybind

import "github.com/stepahead-io/stepahead/loader"

// tokenOptions are the arguments of the Python Tokens; docs are there.
type tokenOptions struct {
	SequenceLength int64  `json:"sequence_length"`
	Packing        string `json:"packing"`
	VocabSize      int64  `json:"vocab_size"`
}

// loader are the options of the loader; nil where there are none.
func (o *tokenOptions) loader() *loader.TokenOptions {
	if o == nil {
		return nil
	}
	return &loader.TokenOptions{SequenceLength: o.SequenceLength, Packing: o.Packing, VocabSize: o.VocabSize}
}
