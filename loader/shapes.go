package loader

import (
	"context"
	"fmt"
	"slices"

	"github.com/stepahead-io/stepahead/transform"
)

// shapes finds the one shape of every media field, that of the first sample delivered, without decoding where the plan
// or the index tells. Samples that leave it open or stand in its way are decoded, and replaced if they are bad.
func (b *build) shapes(ctx context.Context) error {
	for {
		suspects, cause := b.agree()
		if len(suspects) == 0 {
			return nil
		}
		for _, e := range suspects {
			if err := b.probe(ctx, e); err != nil {
				return err
			}
		}
		bad := b.badSlots()
		if len(bad) == 0 && cause != nil {
			return b.explain(ctx, cause, suspects[0])
		}
		if err := b.replace(ctx, bad); err != nil {
			return err
		}
	}
}

// agree sets the shapes as far as they are known. suspects must be decoded to go on; if they are good and cause is
// not nil, cause is why there is no batch.
func (b *build) agree() (suspects []*entry, cause error) {
	for f, field := range b.l.media {
		if field.stored {
			continue
		}
		var first *entry
		for slot := range b.refs {
			e := b.slot(slot)[f]
			spec, known, err := b.foretell(e)
			switch {
			case err != nil:
				return []*entry{e}, err
			case !known:
			case first == nil:
				first, b.specs[f] = e, spec
			case !spec.Equal(b.specs[f]):
				return []*entry{first, e}, b.shapeError(e, spec, first, b.specs[f])
			}
		}
		if first == nil {
			return b.slot(0)[f : f+1], nil
		}
	}
	return nil, nil
}

// foretell returns what the agent's half of the plan gives for an entry, if that is known.
func (b *build) foretell(e *entry) (transform.TensorSpec, bool, error) {
	if e.decoded() {
		return e.spec, true, nil
	}
	return b.l.media[e.field].half(e.part, b.key(e.ref))
}

// explain names the sample of an error of the plan; one of shapes names its samples itself.
func (b *build) explain(ctx context.Context, cause error, e *entry) error {
	if _, ok := cause.(*ShapeError); ok {
		return cause
	}
	return b.failed(ctx, e, cause)
}

// reshape finds the shapes again after samples were replaced. If they are others now, the batch is laid out anew:
// nothing that was made fits any more.
func (b *build) reshape(ctx context.Context) error {
	before := slices.Clone(b.specs)
	if err := b.shapes(ctx); err != nil {
		return err
	}
	if slices.EqualFunc(before, b.specs, transform.TensorSpec.Equal) {
		return b.replaceStored()
	}
	b.free()
	b.fields = nil
	for _, e := range b.entries {
		e.done = false
	}
	return b.allocate()
}

// probe decodes a sample to learn its shape, or that it is bad; the pixels are lost.
func (b *build) probe(ctx context.Context, e *entry) error {
	if e.decoded() {
		return nil
	}
	pieces, err := b.read(ctx, []*entry{e})
	if err != nil {
		return err
	}
	defer b.drop(pieces[0].buf)
	if pieces[0].err != nil {
		e.bad = faultOf(pieces[0].err)
		return nil
	}
	spec, bad, err := b.measure(ctx, e, pieces[0].buf)
	switch {
	case err != nil:
		return err
	case bad != nil:
		e.bad = faultOf(bad)
		return nil
	}
	e.spec = spec
	return nil
}

// maxLearn bounds one sample whose size neither plan nor index tells.
const maxLearn = 256 << 20

// measure transforms a sample whose output size is not known, to learn it; the pixels are lost.
func (b *build) measure(ctx context.Context, e *entry, raw []byte) (transform.TensorSpec, *transform.Error, error) {
	once := &slabs{} // keeps nothing
	room, err := once.get(maxLearn)
	if err != nil {
		return transform.TensorSpec{}, nil, err
	}
	defer once.put(room)
	return b.transform(ctx, e, raw, room.mem[:maxLearn])
}

// fits checks the shape that a sample turned out to have. Where nothing told it before, the entry stays missing and
// complete finds out which sample is at odds with the others.
func (b *build) fits(e *entry) (bool, error) {
	field := b.l.media[e.field]
	if e.spec.Equal(b.specs[e.field]) {
		return true, nil
	}
	if told, known, err := field.half(e.part, b.key(e.ref)); known && err == nil {
		return false, fmt.Errorf("%s, field %q: gives %v, its index says %v: index the dataset again",
			b.l.nameOf(e.ref), field.name, sampleShape(e.spec.Shape), sampleShape(told.Shape))
	}
	return false, nil
}

func (b *build) shapeError(e *entry, spec transform.TensorSpec, other *entry, is transform.TensorSpec) error {
	return &ShapeError{Field: b.l.media[e.field].name,
		Source: b.l.sourceOf(e.ref), Sample: e.ref.Sample, Shape: sampleShape(spec.Shape),
		OtherSource: b.l.sourceOf(other.ref), Other: other.ref.Sample, OtherIs: sampleShape(is.Shape)}
}
