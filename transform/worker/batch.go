package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// task is an item and the place of its outcome.
type task struct {
	*Item
	*Outcome
}

// room returns how much of the output memory the item's pixels may take.
func (t task) room() int64 {
	have := int64(len(t.Out))
	if spec, ok := t.Job.Plan.Fixed(); ok {
		return min(have, spec.Bytes())
	}
	return have
}

// fail makes err the task's outcome, with its name.
func (t task) fail(err error) {
	var e *transform.Error
	if errors.As(err, &e) {
		err = &transform.Error{Kind: e.Kind, Op: e.Op, Detail: fmt.Sprintf("%s (sample %d): %s", t.In.Name, t.Job.Key.Sample, e.Detail)}
	}
	*t.Outcome = Outcome{Err: err}
}

// batchBytes bounds the inputs, and the outputs, of a message that holds more than one item. Beyond it a message costs
// nothing beside its pixels, and the memories would not keep their pages.
const batchBytes = keepBytes

// load is what the items of one message take up.
type load struct {
	items, packet int
	in, out       int64
	plan          [32]byte
}

func (l load) with(t task) load {
	l.items++
	_, l.in = protocol.Place(l.in, int64(len(t.In.Data)))
	_, l.out = protocol.Place(l.out, t.room())
	text := 0 // of the plan, should the worker not have it
	if d := t.Job.Plan.Digest(); l.items == 1 || d != l.plan {
		l.plan, text = d, len(t.Job.Plan.Canonical())
	}
	l.packet += protocol.JobBytes(len(t.Job.Key.Source), text)
	return l
}

// fits reports whether that is not too much for items that share a message.
func (l load) fits(o Options) bool {
	return l.items <= MaxBatch && protocol.RequestBytes+l.packet <= protocol.MaxPacket &&
		l.in <= min(batchBytes, o.MaxInput) && l.out <= min(batchBytes, o.MaxOutput)
}

// runMessage runs tasks that fit one message. What may have failed because of the others is tried once more, alone.
func (p *Pool) runMessage(ctx context.Context, tasks []task) {
	p.attempt(ctx, tasks)
	if len(tasks) == 1 {
		return
	}
	for i, t := range tasks {
		if another(t.Err) {
			p.attempt(ctx, tasks[i:i+1])
		}
	}
}

// another reports whether an error in a batch may be another item's doing: the worker was lost, or what one item
// may take was less than it is alone.
func another(err error) bool {
	var e *transform.Error
	return errors.As(err, &e) && (e.Kind == transform.KindCrash || e.Kind == transform.KindDeadline || e.Kind == transform.KindLimit)
}

// sendTries is how many workers may turn out to have died while they were idle; they never saw the job.
const sendTries = 3

// attempt gives tasks to a worker and waits for their outcomes.
func (p *Pool) attempt(ctx context.Context, tasks []task) {
	for range sendTries {
		w, err := p.acquire(ctx)
		if err != nil {
			for _, t := range tasks {
				*t.Outcome = Outcome{Err: err}
			}
			return
		}
		err = p.do(ctx, w, tasks)
		p.release(w)
		if !errors.Is(err, errNotSent) {
			return
		}
	}
	for _, t := range tasks {
		t.fail(&transform.Error{Kind: transform.KindIO, Op: opRun, Detail: fmt.Sprintf("%d workers in a row ended before they took the job", sendTries)})
	}
}
