package megatron

import "fmt"

// Ranks is the order in which Megatron's pretraining sampler (--dataloader-type single) deals a dataset to data-parallel
// ranks: a micro-step takes MicroBatch*World consecutive samples, and each rank its MicroBatch of
// them in turn. So a step always takes [consumed, consumed+global batch), whatever the world.
type Ranks struct {
	// MicroBatch is the number of samples of a rank in a micro-step; World the number of data-parallel ranks.
	MicroBatch, World int64
}

// Validate returns what is wrong with the numbers.
func (r Ranks) Validate() error {
	if r.MicroBatch < 1 || r.World < 1 {
		return fmt.Errorf("micro batch %d, %d ranks: both must be at least 1", r.MicroBatch, r.World)
	}
	return nil
}

// MicroSteps returns how many micro-steps there are from sample consumed to the end of total
// samples. An incomplete last one is left out.
func (r Ranks) MicroSteps(consumed, total int64) int64 {
	return max(0, total-consumed) / (r.MicroBatch * r.World)
}

// First returns the first of the MicroBatch consecutive samples that rank takes in micro-step k,
// counted from 0 at sample consumed.
func (r Ranks) First(consumed, k, rank int64) int64 {
	return consumed + (k*r.World+rank)*r.MicroBatch
}
