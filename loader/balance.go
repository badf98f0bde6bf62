package loader

import (
	"context"
	"fmt"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
)

// What an encoded part of unknown cost is taken to cost, in microseconds: its pixels, or where they are not known its
// bytes, divided by these. A photograph of 500 x 333 pixels in 31 KB takes 0.64 ms. Only ratios count.
const (
	pixelsPerMicro = 256
	bytesPerMicro  = 48
)

// predict is the predicted cost of decoding a part, in microseconds: what its index says, else an estimate.
func predict(p binfmt.Part) uint64 {
	if p.CostUS > 0 {
		return p.CostUS
	}
	if pixels := uint64(p.Width) * uint64(p.Height) * uint64(max(p.Frames, 1)); pixels > 0 {
		return max(pixels/pixelsPerMicro, 1)
	}
	return max(uint64(p.Len)/bytesPerMicro, 1)
}

// balanced is the part of a step's global batch that this rank gets when costs are to be even. Every rank reads the
// same indexes and deals the same way.
func (l *Loader) balanced(ctx context.Context, step int64) ([]sampler.SampleRef, error) {
	number, _ := l.known(step)
	refs, err := l.refs(ctx, step, number, nil)
	if err != nil {
		return nil, err
	}
	costs := make([]uint64, len(refs))
	for i, ref := range refs {
		for _, f := range l.media {
			part, err := l.data.Part(ctx, l.data.number(ref), f.name)
			if err != nil {
				return nil, fmt.Errorf("look up %s: %w", l.nameOf(ref), err)
			}
			costs[i] += predict(part)
		}
	}
	dealt, err := sampler.Balance(costs, l.o.World, l.o.Balance)
	if err != nil {
		return nil, err
	}
	places := dealt.Rank(l.o.Rank)
	share := make([]sampler.SampleRef, len(places))
	for i, place := range places {
		share[i] = refs[place]
	}
	return share, nil
}
