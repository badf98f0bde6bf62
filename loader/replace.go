package loader

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/sampler"
)

// maxAttempts bounds the substitutes tried for one place: a dataset in which so many samples in a row
// are bad needs repair, not luck.
const maxAttempts = 64

// replaceBad puts a substitute in the place of every bad sample, until all are good, or stops at the
// first one if that is the policy. Substitutes are a function of the order alone, so whoever meets the
// same bad content takes the same ones.
func (b *build) replaceBad(ctx context.Context) error {
	for {
		bad := b.badSlots()
		if len(bad) == 0 {
			return nil
		}
		var again []*entry
		for _, slot := range bad {
			if err := b.substitute(ctx, slot); err != nil {
				return err
			}
			again = append(again, b.slot(slot)...)
		}
		b.tasks = newTasks(ctx, "substitute")
		b.startLocal(again)
		if err := b.tasks.wait(); err != nil {
			return err
		}
	}
}

// badSlots returns the places with a bad part, in order.
func (b *build) badSlots() []int {
	var bad []int
	for _, e := range b.entries {
		if e.bad != "" {
			bad = append(bad, e.slot)
		}
	}
	return slices.Compact(bad)
}

// substitute moves a place on to its next substitute.
func (b *build) substitute(ctx context.Context, slot int) error {
	bad := b.badSample(ctx, slot)
	if b.l.o.OnBad == sampler.OnBadRaise {
		return bad
	}
	b.attempts[slot]++
	old := b.refs[slot]
	ref := b.l.sampler.Substitute(b.step, b.planned[slot], b.attempts[slot])
	if ref.Sample == old.Sample || b.attempts[slot] > maxAttempts {
		return fmt.Errorf("position %d: %d samples in a row are bad, the last: %w", b.planned[slot].Position, b.attempts[slot], bad)
	}
	b.refs[slot] = ref
	b.l.count(func(s *Stats) {
		s.Substitutions = appendBounded(s.Substitutions,
			Substitution{Step: b.step, Position: ref.Position, Bad: *bad, Substitute: ref}, recentSubstitutions)
	})
	b.l.o.Log.Warn("bad sample replaced", zap.Int64("step", b.step), zap.Error(bad), zap.Uint64("substitute", ref.Sample))
	return b.lookUpSlot(ctx, slot)
}

// badSample describes the first bad part of a place.
func (b *build) badSample(ctx context.Context, slot int) *BadSampleError {
	entries := b.slot(slot)
	e := entries[slices.IndexFunc(entries, func(e *entry) bool { return e.bad != "" })]
	key, err := b.l.data.index.Key(ctx, e.ref.Sample)
	if err != nil {
		key = "?" // the sample is named by its number all the same
	}
	return &BadSampleError{
		Sample: e.ref.Sample, Key: key, Field: b.l.media[e.field].name,
		Bin: b.l.data.name(b.l.data.manifest.Bins[e.part.Bin].DataName()), Offset: e.part.Off, Length: e.part.Len,
		Reason: e.bad,
	}
}
