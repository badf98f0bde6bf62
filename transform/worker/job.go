package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// Job is what to do with a part.
type Job struct {
	Plan *transform.Plan // the agent half; a tail is an error of kind plan
	Key  transform.Key
}

// Part is one encoded input. Name appears in errors only.
type Part struct {
	Name string
	Data []byte
}

// Result describes what a job left in the caller's buffer.
type Result struct {
	Spec    transform.TensorSpec
	Bytes   int           // of out that are valid
	CRC     uint32        // CRC32C of out[:Bytes]
	CPU     time.Duration // the worker's user and system time for this job; of a batch, the share that falls to its bytes
	PeakRSS int64         // bytes, of the worker so far, as the kernel counts them; 0 if that cannot be read
}

// ShortBufferError says that a job's output does not fit into the caller's buffer. Call again with Need bytes; see
// transform.Plan's Fixed and Output for knowing it beforehand.
type ShortBufferError struct {
	Need int64
}

// Error implements error.
func (e *ShortBufferError) Error() string {
	return fmt.Sprintf("worker.Pool.Run: the output needs a buffer of %d bytes", e.Need)
}

// Item is one job of a batch. In.Data and Out belong to the caller and are not kept.
type Item struct {
	Job Job
	In  Part
	Out []byte // receives the pixels
}

// Outcome is what became of an item: a result, or an error as [Pool.Run] returns it.
type Outcome struct {
	Result Result
	Err    error
}

// MaxBatch is how many items one message to a worker holds.
const MaxBatch = protocol.MaxBatch

// Run runs one job and writes its uint8 pixels, HWC, to the front of out. It is safe for concurrent use and blocks while
// all workers are busy. in.Data and out belong to the caller and are not kept; after an error out holds nothing of use.
//
// Errors: a [*transform.Error], whose Content tells a bad sample from a lost worker; a [*ShortBufferError]; the context's
// error (a job at work is killed with its worker); [ErrClosed].
func (p *Pool) Run(ctx context.Context, job Job, in Part, out []byte) (Result, error) {
	var outcome [1]Outcome
	p.RunBatch(ctx, []Item{{Job: job, In: in, Out: out}}, outcome[:])
	return outcome[0].Result, outcome[0].Err
}

// RunBatch runs items as Run would each of them, and leaves in outcomes[i], which must exist, what became of items[i].
// It costs less than as many calls of Run: up to MaxBatch items travel in one message to one worker. Messages follow
// each other; for several workers at once call it from several goroutines.
//
// An item suffers only from itself. When a worker is lost, or takes longer for a message than the deadline of one
// job, every item of the message is tried once more, alone: the one whose fault it was is found and named, and the others succeed.
func (p *Pool) RunBatch(ctx context.Context, items []Item, outcomes []Outcome) {
	outcomes = outcomes[:len(items)]
	var tasks []task
	var l load
	for i := range items {
		t := task{Item: &items[i], Outcome: &outcomes[i]}
		*t.Outcome = Outcome{Err: p.check(t.Job, t.In)}
		if t.Err != nil {
			continue
		}
		next := l.with(t)
		if len(tasks) > 0 && !next.fits(p.o) {
			p.runMessage(ctx, tasks)
			tasks, next = tasks[:0], load{}.with(t)
		}
		tasks, l = append(tasks, t), next
	}
	if len(tasks) > 0 {
		p.runMessage(ctx, tasks)
	}
}

// check finds mistakes of the caller's that no worker needs to see.
func (p *Pool) check(job Job, in Part) error {
	mistake := ""
	if job.Plan == nil {
		mistake = "there is no plan"
	} else if _, rest := job.Plan.Cut(); rest.Len() != 0 {
		mistake = "the plan has a tail (Normalize, ToDtype), which runs at the consumer; give the first half of Plan.Cut"
	} else if n := len(job.Key.Source); n > protocol.MaxSource {
		mistake = fmt.Sprintf("the source's name has %d bytes, the limit is %d", n, protocol.MaxSource)
	}
	if mistake != "" {
		return &transform.Error{Kind: transform.KindPlan, Op: opRun, Detail: mistake}
	}
	if n := int64(len(in.Data)); n > p.o.MaxInput {
		return &transform.Error{Kind: transform.KindLimit, Op: "input " + in.Name, Detail: fmt.Sprintf("%d bytes are more than the limit of %d", n, p.o.MaxInput)}
	}
	return nil
}
