package loader

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// startLocal reads entries from the store, bin by bin, and transforms each as soon as it is there.
// Errors end up in b.tasks, bad content in the entries.
func (b *build) startLocal(entries []*entry) {
	byBin := map[int][]*entry{}
	for _, e := range entries {
		byBin[e.part.Bin] = append(byBin[e.part.Bin], e)
	}
	for bin, group := range byBin {
		b.tasks.start(func(ctx context.Context) error { return b.local(ctx, bin, group) })
	}
}

// local reads the entries of one bin and starts their transforms.
func (b *build) local(ctx context.Context, bin int, entries []*entry) error {
	pieces, err := b.read(ctx, bin, entries)
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.source = fromStore
		if p := pieces[i]; p.err != nil {
			e.bad = p.err.Error()
			b.l.buf.put(p.buf)
			continue
		}
		b.startTransform(e, pieces[i].buf)
	}
	return nil
}

// read returns the stored bytes of the entries of one bin, in the order of the entries.
func (b *build) read(ctx context.Context, bin int, entries []*entry) ([]*piece, error) {
	if err := b.l.reads.enter(ctx, b.step); err != nil {
		return nil, err
	}
	defer b.l.reads.leave()
	defer b.clock.enter(waitNetwork)()
	pieces := make([]*piece, len(entries))
	var bytes int64
	for i, e := range entries {
		pieces[i] = &piece{Extent: e.part.Extent, buf: b.l.buf.get(int(e.part.Len))}
		bytes += e.part.Len
	}
	failures, err := b.l.data.read(ctx, bin, append([]*piece{}, pieces...))
	b.l.count(func(s *Stats) {
		s.StoreReads += int64(len(pieces))
		s.StoreBytes += bytes
		s.CRCFailures += int64(failures)
	})
	return pieces, err
}

// startTransform turns raw, which it takes over, into e's place in the batch.
func (b *build) startTransform(e *entry, raw []byte) {
	b.tasks.start(func(ctx context.Context) error {
		defer b.l.buf.put(raw)
		spec, bad, err := b.transform(ctx, e, raw, e.half)
		if bad != nil && bad.Kind == transform.KindLimit && !b.l.media[e.field].isFixed {
			spec, bad, err = b.measure(ctx, e, raw) // larger than its place, perhaps, and not bad at all
		}
		switch {
		case err != nil:
			return err
		case bad != nil:
			e.bad = bad.Error()
			return nil
		case !spec.Equal(b.specs[e.field]):
			return b.wrongShape(e, spec)
		}
		return b.settle(e)
	})
}

// settle does what remains after the agent's half of the plan.
func (b *build) settle(e *entry) error {
	return b.l.media[e.field].finish(e.dst, e.half, b.specs[e.field], b.key(e.ref), &b.l.buf)
}

// wrongShape explains a sample whose pixels are not of the batch's shape.
func (b *build) wrongShape(e *entry, spec transform.TensorSpec) error {
	for _, o := range b.entries {
		if o.field == e.field && o.slot != e.slot {
			return b.shapeError(e, spec, o, b.specs[e.field])
		}
	}
	return fmt.Errorf("sample %d, field %q: gives %v, its index says %v: index the dataset again",
		e.ref.Sample, b.l.media[e.field].name, sampleShape(spec.Shape), sampleShape(b.specs[e.field].Shape))
}

// transform runs the agent's half of the plan here. bad says why the content is bad: it failed twice.
// What has nothing to do with the content is tried again and then an error.
func (b *build) transform(ctx context.Context, e *entry, raw, out []byte) (spec transform.TensorSpec, bad *transform.Error, err error) {
	if err := b.l.turns.enter(ctx, b.step); err != nil {
		return spec, nil, err
	}
	defer b.l.turns.leave()
	defer b.clock.enter(waitTransform)()
	start := b.l.now()
	defer func() { b.l.pace.add(b.l.now() - start) }()
	job := worker.Job{Plan: b.l.media[e.field].agent, Key: b.key(e.ref)}
	part := worker.Part{Name: fmt.Sprintf("sample %d, field %q", e.ref.Sample, b.l.media[e.field].name), Data: raw}
	run := func() error {
		res, err := b.l.runner.Run(ctx, job, part, out)
		spec = res.Spec
		return err
	}
	err = again(ctx, run)
	if errors.As(err, &bad) && bad.Content() {
		err = again(ctx, run) // a decode error is bad content only if it repeats
	}
	if errors.As(err, &bad) && bad.Content() {
		return spec, bad, nil
	}
	if err != nil {
		return spec, nil, fmt.Errorf("%s, %s at offset %d: %w", part.Name, b.l.data.manifest.Bins[e.part.Bin].DataName(), e.part.Off, err)
	}
	return spec, nil, nil
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

// learn finds the shape of media field f by decoding the first sample that can be decoded.
func (b *build) learn(ctx context.Context, f int) error {
	var last error
	for slot := range b.refs {
		e := b.slot(slot)[f]
		pieces, err := b.read(ctx, e.part.Bin, []*entry{e})
		if err != nil {
			return err
		}
		if last = pieces[0].err; last == nil {
			var bad *transform.Error
			if b.specs[f], bad, err = b.measure(ctx, e, pieces[0].buf); err != nil {
				return err
			}
			if bad != nil {
				last = bad
			}
		}
		b.l.buf.put(pieces[0].buf)
		if last == nil {
			return nil
		}
	}
	return fmt.Errorf("field %q: no sample of the batch can be decoded, the last because: %w", b.l.media[f].name, last)
}
