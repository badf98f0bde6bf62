package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// maxShare is how many samples a worker gets at once, at most: a message to a worker and the wake-ups on both sides
// cost about as much as copying a photograph, which is little beside eight of them. It is not above worker.MaxBatch, so
// that a share is one message.
const maxShare = 8

// shareOf is how many of a step's parts a worker gets at once: at least two shares for each worker, so that they end a
// step at about the same time.
func shareOf(parts, workers int) int {
	return min(max(parts/(2*workers), 1), maxShare)
}

// job is a part whose stored bytes are here.
type job struct {
	e   *entry
	raw []byte
}

// queue holds the jobs of a step that wait for a worker. Runners take them, as many as there are workers at most, and
// end when there are none. The zero value is ready. Safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	waiting []job
	runners int
}

// add has jobs transformed. The queue takes their buffers over.
func (q *queue) add(b *build, jobs ...job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, jobs...)
	if len(q.waiting) > 0 && q.runners < b.l.o.Workers {
		q.runners++
		b.tasks.start(b.transformWaiting)
	}
}

// take returns the jobs that came first, none when there are none: the runner then ends.
func (q *queue) take(most int) []job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(most, len(q.waiting))
	if n == 0 {
		q.runners--
	}
	jobs := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return jobs
}

// transformWaiting transforms jobs of the queue, a share at a time, until none waits.
func (b *build) transformWaiting(ctx context.Context) error {
	for {
		jobs, outcomes, err := b.transformShare(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for i, j := range jobs {
			if err := b.conclude(ctx, j, outcomes[i]); err != nil {
				return err
			}
		}
	}
}

// transformShare gives a share of the queue to a worker when the step's turn has come.
func (b *build) transformShare(ctx context.Context) ([]job, []worker.Outcome, error) {
	if err := b.l.turns.enter(ctx, b.step, 1); err != nil {
		return nil, nil, err
	}
	defer b.l.turns.leave(1)
	jobs := b.queue.take(b.share)
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	defer b.clock.enter(waitTransform)()
	start := b.l.now()
	items, outcomes := make([]worker.Item, len(jobs)), make([]worker.Outcome, len(jobs))
	for i, j := range jobs {
		items[i] = b.item(j.e, j.raw, j.e.half)
	}
	b.l.runner.RunBatch(ctx, items, outcomes)
	b.l.pace.add((b.l.now() - start) / time.Duration(len(jobs)))
	return jobs, outcomes, nil
}

// item is what a worker is told of a part. It writes to out.
func (b *build) item(e *entry, raw, out []byte) worker.Item {
	f := b.l.media[e.field]
	return worker.Item{
		Job: worker.Job{Plan: f.agent, Key: b.key(e.ref)},
		In:  worker.Part{Name: b.nameOf(e), Data: raw},
		Out: out,
	}
}

// nameOf is what a worker's errors call a part.
func (b *build) nameOf(e *entry) string {
	return fmt.Sprintf("%s, field %q", b.l.nameOf(e.ref), b.l.media[e.field].name)
}

// conclude takes what a worker made of a job into the batch, or finds out what is wrong with it.
func (b *build) conclude(ctx context.Context, j job, first worker.Outcome) error {
	defer b.forget(j)
	e := j.e
	spec, bad, err := b.transformAgain(ctx, e, j.raw, e.half, first)
	var short *worker.ShortBufferError
	if larger := errors.As(err, &short) || bad != nil && bad.Kind == transform.KindLimit; larger && !b.l.media[e.field].isFixed {
		spec, bad, err = b.measure(ctx, e, j.raw) // larger than its place, perhaps, and not bad at all
	}
	switch {
	case err != nil:
		return err
	case bad != nil:
		e.bad = faultOf(bad)
		return nil
	}
	e.spec = spec
	if fits, err := b.fits(e); !fits {
		return err
	}
	return b.settle(e)
}

// forget gives a job's buffer back.
func (b *build) forget(j job) {
	if j.e.source == fromStore {
		b.drop(j.raw)
		return
	}
	b.l.buf.put(j.raw)
}

// settle does what remains after the agent's half of the plan.
func (b *build) settle(e *entry) error {
	e.done = true
	return b.l.media[e.field].finish(e.dst, e.half, b.specs[e.field], b.key(e.ref), &b.l.buf)
}

// transform runs the agent's half of the plan here, into out. bad says why the content is bad: it failed twice. What has
// nothing to do with the content is tried again and then an error.
func (b *build) transform(ctx context.Context, e *entry, raw, out []byte) (spec transform.TensorSpec, bad *transform.Error, err error) {
	return b.judge(ctx, e, func() (worker.Outcome, error) { return b.runAlone(ctx, b.item(e, raw, out)) })
}

// transformAgain is the same for a part that a worker has tried once already, with what came of it.
func (b *build) transformAgain(ctx context.Context, e *entry, raw, out []byte, first worker.Outcome) (transform.TensorSpec, *transform.Error, error) {
	tried := false
	return b.judge(ctx, e, func() (worker.Outcome, error) {
		if !tried {
			tried = true
			return first, nil
		}
		return b.runAlone(ctx, b.item(e, raw, out))
	})
}

// judge attempts a part until it knows what it is.
func (b *build) judge(ctx context.Context, e *entry, attempt func() (worker.Outcome, error)) (spec transform.TensorSpec, bad *transform.Error, err error) {
	run := func() error {
		o, err := attempt()
		if err != nil {
			return err
		}
		spec = o.Result.Spec
		return unnamed(o.Err, b.nameOf(e), e.ref.Sample)
	}
	err = again(ctx, run)
	if errors.As(err, &bad) && bad.Content() {
		err = again(ctx, run) // a decode error is bad content only if it repeats
	}
	if errors.As(err, &bad) && bad.Content() {
		return spec, bad, nil
	}
	if err != nil {
		return spec, nil, b.failed(ctx, e, err)
	}
	return spec, nil, nil
}

// runAlone gives one item to a worker when the step's turn has come.
func (b *build) runAlone(ctx context.Context, item worker.Item) (worker.Outcome, error) {
	if err := b.l.turns.enter(ctx, b.step, 1); err != nil {
		return worker.Outcome{}, err
	}
	defer b.l.turns.leave(1)
	defer b.clock.enter(waitTransform)()
	var outcome [1]worker.Outcome
	b.l.runner.RunBatch(ctx, []worker.Item{item}, outcome[:])
	return outcome[0], nil
}
