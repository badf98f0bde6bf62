// Package megatron knows the order in which Megatron-core's GPTDataset, BlendedDataset and pretraining
// sampler go through token data, sample for sample: what a running job needs to change its loader
// between two steps. The order depends on the lengths of the sequences, and on what was asked for,
// alone. Published in github.com/NVIDIA/Megatron-LM, megatron/core/datasets; megatron-core 0.16.1 is
// what the golden files are made with.
package megatron

// maxSamples bounds what one source may be asked for, and the places of its document index: NumPy's
// shuffle draws 64 bits from here on, and Megatron-core's indexes change their type.
const maxSamples = 1<<32 - 2

// maxSequences is the most that Megatron-core's int32 document index can number.
const maxSequences = 1<<31 - 1

// maxSequenceLength and maxTokens keep every product and sum of tokens below 2^63.
const (
	maxSequenceLength = 1 << 29
	maxTokens         = 1 << 61
)

// OneEpoch asks for as many samples as one pass over the sequences gives, as None does in Megatron-core.
const OneEpoch = -1
