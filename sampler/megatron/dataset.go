package megatron

import (
	"context"

	"github.com/stepahead-io/stepahead/sampler"
)

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

// Turn returns which source gives sample i, 0 to Len()-1, and which of that source's samples it is. The first look behind all
// those asked for so far takes time for each sample between; the error is that of ctx, if it ends first.
func (d *Dataset) Turn(ctx context.Context, i int64) (source int, sample int64, err error) {
	if d.blend == nil {
		return 0, i, nil
	}
	t, err := d.blend.turn(ctx, i)
	return int(t.source), t.sample, err
}

// Sample appends the pieces of sample i, 0 to Len()-1, to dst, and returns it with the source whose
// sequences they are of. The first samples of a source take the time of GPT.Prepare; the error is that of ctx, if it ends first.
func (d *Dataset) Sample(ctx context.Context, i int64, dst []sampler.Piece) (source int, pieces []sampler.Piece, err error) {
	source, sample, err := d.Turn(ctx, i)
	if err != nil {
		return 0, dst, err
	}
	pieces, err = d.sources[source].Sample(ctx, sample, dst)
	return source, pieces, err
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
