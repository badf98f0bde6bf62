package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// run is one stretch of consecutive steps that are built ahead.
type run struct {
	tasks   *tasks
	slots   map[int64]*slot
	started int64 // the next step to start building
	end     int64 // no step from here on; negative: no end
}

// slot is one step being built. batch and err are set before ready is closed.
type slot struct {
	clock *phaseClock
	ready chan struct{}
	batch *Batch
	err   error
}

// Next returns the next batch, which belongs to the caller until Release. At the end of an epoch it
// returns io.EOF once, and the call after that gives the first batch of the next epoch; after
// Options.Epochs epochs, or when every source has reached its MaxEpochs, it returns io.EOF always. Where the
// order is given, it returns io.EOF for as long as the next step was not given (Give). When ctx ends first, the error matches ctx.Err()
// and what is being built goes on. After any error the position is unchanged: the next call tries the
// same step again.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if err := l.enter(ctx); err != nil {
		return nil, fmt.Errorf("loader.Next: %w", err)
	}
	defer l.leave()
	if l.atEnd || l.finished() {
		l.atEnd, l.left = false, false
		return nil, io.EOF
	}
	batch, err := l.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("loader.Next: %w", err)
	}
	return batch, nil
}

// Begin says that the caller begins a new loop over batches: an end of epoch that is still to be
// reported, because the last loop was left after an epoch's last batch, is not reported any more.
func (l *Loader) Begin() error {
	if err := l.enter(context.Background()); err != nil {
		return fmt.Errorf("loader.Begin: %w", err)
	}
	defer l.leave()
	l.atEnd = false
	return nil
}

// finished tells whether there is no next step: all epochs are over, or it was not given.
func (l *Loader) finished() bool { return !l.ordered(l.position(), l.end()) }

// ordered tells whether the samples of a step are known, in a run that ends at end.
func (l *Loader) ordered(step, end int64) bool {
	return (end < 0 || step < end) && (l.given == nil || l.given.has(step))
}

// end is the step at which the run ends, -1 if it does not.
func (l *Loader) end() int64 {
	if l.given != nil {
		return -1
	}
	end, ends := l.sampler.Steps()
	if !ends {
		end = -1
	}
	if e := l.o.Epochs * l.sampler.StepsPerEpoch(); l.o.Epochs > 0 && (!ends || e < end) {
		end = e
	}
	return end
}

func (l *Loader) next(ctx context.Context) (*Batch, error) {
	if l.run == nil {
		l.startRun()
	}
	step := l.position()
	s := l.run.slots[step]
	if !l.waiting {
		l.waiting, l.waitAt, l.waited = true, l.now(), s.clock.read()
	}
	if err := l.await(ctx, s); err != nil {
		return nil, err
	}
	if s.err != nil {
		l.waiting = false
		l.stopRun()
		return nil, s.err
	}
	return l.deliver(step, s)
}

// await returns when a step is built, or why it is not waited for.
func (l *Loader) await(ctx context.Context, s *slot) error {
	l.waits.Store(true)
	defer l.waits.Store(false)
	select {
	case <-s.ready: // before a context that has ended
		return nil
	default:
	}
	select {
	case <-s.ready:
		return nil
	case <-l.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver hands a step over: from here on it counts.
func (l *Loader) deliver(step int64, s *slot) (*Batch, error) {
	b := s.batch
	b.Stats.stall(s.clock.read().minus(l.waited))
	if l.left {
		b.Stats.Consumer = (l.waitAt - l.leftAt).Seconds()
	}
	if err := l.write(b); err != nil {
		return nil, err
	}
	delete(l.run.slots, step)
	l.pos.Store(step + 1)
	now := l.now()
	l.clock.delivered(step, now)
	l.waiting, l.left, l.leftAt = false, true, now
	l.atEnd = l.given == nil && (step+1)%l.sampler.StepsPerEpoch() == 0
	if l.given != nil {
		l.given.delivered(step)
	}
	l.count(func(t *Stats) { t.add(b.Stats, len(b.Samples)) })
	post(&l.ledger, b.origins)
	l.fill()
	if l.agents.wanted {
		l.agents.poke()
	}
	return b, nil
}

// write puts a delivered step into the files that were asked for, each in one write.
func (l *Loader) write(b *Batch) error {
	if l.records != nil {
		if err := l.records.Append(b.records); err != nil {
			return err
		}
		b.records = nil
	}
	if l.statsLines == nil {
		return nil
	}
	line, err := json.Marshal(b.Stats)
	if err != nil {
		return err
	}
	return l.statsLines.Append(append(line, '\n'))
}

// startRun starts building at the position.
func (l *Loader) startRun() {
	l.run = &run{tasks: newTasks(context.Background(), "prefetch"), slots: map[int64]*slot{}, started: l.position(), end: l.end()}
	l.fill()
}

// fill starts steps until as many as allowed are being built or ready.
func (l *Loader) fill() {
	r := l.run
	for r.started < l.position()+int64(l.o.Prefetch) && l.ordered(r.started, r.end) {
		step, s := r.started, &slot{clock: newPhaseClock(l.now), ready: make(chan struct{})}
		r.slots[step] = s
		r.started++
		r.tasks.start(func(ctx context.Context) error {
			defer close(s.ready)
			err := safely(ctx, func(ctx context.Context) (err error) {
				if l.tokens != nil {
					s.batch, err = l.buildTokens(ctx, step, s.clock)
				} else {
					s.batch, err = l.buildStep(ctx, step, s.clock)
				}
				return err
			})
			s.err = err
			return nil // the error is delivered when its turn comes
		})
	}
}

// stopRun throws away what was built ahead.
func (l *Loader) stopRun() {
	if l.run == nil {
		return
	}
	l.run.tasks.stop()
	for _, s := range l.run.slots {
		if s.batch != nil {
			s.batch.Release()
		}
	}
	l.run = nil
}
