package loader

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/sampler"
)

// maxAttempts bounds the substitutes tried for one place: a dataset in which so many samples in a row
// are bad needs repair, not luck.
const maxAttempts = 64

// maxKeys bounds the keys that an error lists.
const maxKeys = 8

// complete puts a substitute in the place of every bad sample and makes what is missing, until all is there, or stops
// at the first bad one if that is the policy. Substitutes are a function of the order alone, so whoever meets the same
// bad content takes the same ones.
func (b *build) complete(ctx context.Context) error {
	for len(b.missing()) > 0 {
		if ctx.Err() != nil { // the loader is being closed, which ends tasks without an error
			return context.Cause(ctx)
		}
		if err := b.replace(ctx, b.badSlots()); err != nil {
			return err
		}
		if err := b.reshape(ctx); err != nil {
			return err
		}
		b.tasks = newTasks(ctx, "substitute")
		b.startLocal(b.missing())
		if err := b.tasks.wait(); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the entries that are not in the batch.
func (b *build) missing() []*entry {
	var missing []*entry
	for _, e := range b.entries {
		if !e.done || e.bad != nil {
			missing = append(missing, e)
		}
	}
	return missing
}

// badSlots returns the places with a bad part, in order.
func (b *build) badSlots() []int {
	var bad []int
	for _, e := range b.entries {
		if e.bad != nil {
			bad = append(bad, e.slot)
		}
	}
	return slices.Compact(bad)
}

// replace moves places on to their next substitutes.
func (b *build) replace(ctx context.Context, slots []int) error {
	for _, slot := range slots {
		if err := b.substitute(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}

// substitute moves a place on to its next substitute.
func (b *build) substitute(ctx context.Context, slot int) error {
	bad := b.badSample(ctx, slot)
	if b.l.o.OnBad == sampler.OnBadRaise {
		return fmt.Errorf("%w: repair the dataset, or use on_bad=\"substitute\"", bad)
	}
	b.attempts[slot]++
	others := int64(b.l.spec.Sources[b.planned[slot].Source].Samples) - 1
	if int64(b.attempts[slot]) > min(maxAttempts, others) {
		return fmt.Errorf("position %d: %d samples in a row are bad, with the keys %s; the last is %w: repair the dataset, or pack it without them",
			b.planned[slot].Position, b.attempts[slot], b.triedKeys(ctx, slot), bad)
	}
	was := b.refs[slot]
	b.refs[slot] = b.candidate(slot, b.attempts[slot])
	b.note(ctx, bad, was, b.refs[slot])
	return b.lookUpSlot(ctx, slot)
}

// candidate is the sample that a place gets at an attempt: the planned one at 0.
func (b *build) candidate(slot, attempt int) sampler.SampleRef {
	return b.order.Substitute(b.step, b.planned[slot], attempt)
}

// note counts a replacement, and logs every bad sample once.
func (b *build) note(ctx context.Context, bad *BadSampleError, was, ref sampler.SampleRef) {
	by := Substitute{SampleRef: ref, Key: b.l.keyOf(ctx, ref)}
	b.l.count(func(s *Stats) {
		s.Substitutions = appendBounded(s.Substitutions,
			Substitution{Step: b.step, Position: ref.Position, Bad: *bad, Substitute: by}, recentSubstitutions)
	})
	name, last := b.l.named.add(b.l.data.number(was))
	if name {
		b.l.o.Log.Warn("bad sample: replaced by "+named(bad.Source, by.Sample, by.Key), zap.Int64("step", b.step), zap.Error(bad))
	}
	if last {
		b.l.o.Log.Warn("bad samples are not logged any more: stats list the latest", zap.Int("logged", maxNamed))
	}
}

// triedKeys lists the keys of the samples that a place was given, as far as an error should.
func (b *build) triedKeys(ctx context.Context, slot int) string {
	var keys []string
	for attempt := range min(b.attempts[slot], maxKeys) {
		keys = append(keys, fmt.Sprintf("%q", b.l.keyOf(ctx, b.candidate(slot, attempt))))
	}
	if more := b.attempts[slot] - len(keys); more > 0 {
		keys = append(keys, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(keys, ", ")
}

// badSample describes the first bad part of a place.
func (b *build) badSample(ctx context.Context, slot int) *BadSampleError {
	entries := b.slot(slot)
	e := entries[slices.IndexFunc(entries, func(e *entry) bool { return e.bad != nil })]
	bad := b.part(ctx, e)
	bad.Kind, bad.Reason = e.bad.kind, e.bad.reason
	return bad
}
