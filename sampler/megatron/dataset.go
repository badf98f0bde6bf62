package megatron

import "github.com/stepahead-io/stepahead/sampler"

// A Dataset is the order of one split: of a GPTDataset, or of a BlendedDataset over several. Its
// methods may be called concurrently.
type Dataset struct {
	sources []*GPT
	blend   *blend // nil: one source without a blend
}

// Len returns the number of samples, as Megatron-core's len(dataset). It can be more than was asked for.
func (d *Dataset) Len() int64 {
	if d.blend == nil {
		return d.sources[0].Len()
	}
	return d.blend.size
}

// Sources returns the order of each source, in the order of the blend.
func (d *Dataset) Sources() []*GPT { return d.sources }

// Turn returns which source gives sample i, 0 to Len()-1, and which of that source's samples it is.
func (d *Dataset) Turn(i int64) (source int, sample int64) {
	if d.blend == nil {
		return 0, i
	}
	t := d.blend.turn(i)
	return int(t.source), t.sample
}

// Sample appends the pieces of sample i, 0 to Len()-1, to dst, and returns it with the source whose
// sequences they are of.
func (d *Dataset) Sample(i int64, dst []sampler.Piece) (source int, pieces []sampler.Piece) {
	source, sample := d.Turn(i)
	return source, d.sources[source].Sample(sample, dst)
}

// Bytes returns the memory that all indexes take once everything was asked for.
func (d *Dataset) Bytes() int64 {
	var sum int64
	for _, g := range d.sources {
		sum += g.Bytes()
	}
	if d.blend != nil {
		sum += d.blend.bytes()
	}
	return sum
}
