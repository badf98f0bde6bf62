package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"
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
	CPU     time.Duration // the worker's user and system time for this job
	PeakRSS int64         // bytes, of the worker so far, as it says itself
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Run runs one job and writes its uint8 pixels, HWC, to the front of out. It is safe for concurrent use and blocks while
// all workers are busy. in.Data and out belong to the caller and are not kept; after an error out holds nothing of use.
//
// Errors: a [*transform.Error], whose Content tells a bad sample from a lost worker; a [*ShortBufferError]; the context's
// error (a job at work is killed with its worker); [ErrClosed].
func (p *Pool) Run(ctx context.Context, job Job, in Part, out []byte) (Result, error) {
	if err := p.check(job, in); err != nil {
		return Result{}, err
	}
	var err error
	for range sendTries {
		var w *process
		if w, err = p.acquire(ctx); err != nil {
			return Result{}, err
		}
		var res Result
		res, err = p.do(ctx, w, job, in, out)
		p.release(w)
		if !errors.Is(err, errNotSent) {
			return res, err
		}
	}
	return Result{}, &transform.Error{Kind: transform.KindIO, Op: "worker.Pool.Run", Detail: fmt.Sprintf("%s: %d workers in a row ended before they took the job", in.Name, sendTries)}
}

// sendTries is how many workers may turn out to have died while they were idle; they never saw the job.
const sendTries = 3

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
		return &transform.Error{Kind: transform.KindPlan, Op: "worker.Pool.Run", Detail: mistake}
	}
	if n := int64(len(in.Data)); n > p.o.MaxInput {
		return &transform.Error{Kind: transform.KindLimit, Op: "input " + in.Name, Detail: fmt.Sprintf("%d bytes are more than the limit of %d", n, p.o.MaxInput)}
	}
	return nil
}

// errNotSent says that a worker was gone before a job could be given to it.
var errNotSent = errors.New("worker gone before the job was sent")

// do gives one job to a worker that the caller owns.
func (p *Pool) do(ctx context.Context, w *process, job Job, in Part, out []byte) (Result, error) {
	kill := w.begin()
	defer w.end()
	defer time.AfterFunc(p.o.Deadline, func() { kill(reasonDeadline) }).Stop()
	defer context.AfterFunc(ctx, func() { kill(reasonCancel) })()

	before := w.cpu()
	copy(w.in.bytes, in.Data)
	defer w.in.trim(int64(len(in.Data)))
	slot, text := w.sent.place(job.Plan)
	req := protocol.Request{Slot: slot, Plan: text, Key: job.Key, Input: int64(len(in.Data)), Output: int64(len(out))}
	reply, err := w.ask(req)
	if err != nil {
		return Result{}, p.lost(ctx, w, in.Name, job.Key, err)
	}
	res := Result{CPU: w.cpu() - before, PeakRSS: reply.PeakRSS}
	switch reply.Status {
	case protocol.Failed:
		if reply.Error.Kind == transform.KindPlan {
			w.sent.forget(slot)
		}
		return res, &transform.Error{
			Kind: reply.Error.Kind, Op: printable(reply.Error.Op), Detail: in.Name + ": " + printable(reply.Error.Detail),
		}
	case protocol.Short:
		return res, p.short(w, reply, in.Name, len(out))
	}
	return p.collect(w, job, in.Name, reply, out, res)
}

// collect checks the answer against everything known beforehand, and copies the pixels.
func (p *Pool) collect(w *process, job Job, name string, reply protocol.Reply, out []byte, res Result) (Result, error) {
	n := reply.Bytes()
	h, wd, c := int(reply.Shape[0]), int(reply.Shape[1]), int(reply.Shape[2])
	res.Spec = transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{h, wd, c}}
	fixed, ok := job.Plan.Fixed()
	if n > int64(min(len(out), len(w.out.bytes))) || ok && !fixed.Equal(res.Spec) {
		return Result{}, p.nonsense(w, name, fmt.Errorf("a tensor of shape %v", reply.Shape))
	}
	res.Bytes = int(n)
	res.CRC = copySum(out[:n], w.out.bytes[:n])
	w.out.trim(n)
	return res, nil
}

// copySum copies and sums in pieces that stay in the first-level cache. The sum is over the copy: the worker
// can still write to src.
func copySum(dst, src []byte) (crc uint32) {
	const piece = 16 << 10
	for len(src) > 0 {
		n := copy(dst, src[:min(piece, len(src))])
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, src = dst[n:], src[n:]
	}
	return crc
}

func (p *Pool) short(w *process, reply protocol.Reply, name string, have int) error {
	need := reply.Bytes()
	if need <= int64(have) || need > p.o.MaxOutput {
		return p.nonsense(w, name, fmt.Errorf("a buffer of %d bytes is too small for %d", have, need))
	}
	return &ShortBufferError{Need: need}
}

// nonsense ends a worker that gave an impossible answer.
func (p *Pool) nonsense(w *process, name string, what error) error {
	w.kill(reasonProtocol)
	return &transform.Error{Kind: transform.KindCrash, Op: "worker.Pool.Run", Detail: fmt.Sprintf("%s: the worker %s answered nonsense and was killed: %v", name, w.path, what)}
}

// lost turns a broken conversation into the error that says why it broke.
func (p *Pool) lost(ctx context.Context, w *process, name string, key transform.Key, cause error) error {
	if w.killedFor() == "" && !disconnected(cause) {
		return p.nonsense(w, name, cause)
	}
	// The worker is dying or has shut its end: either way there is no more to hear from it.
	died := w.killedFor() == ""
	if died {
		awaitDeath(w)
	}
	<-w.dead
	kind, detail := transform.KindCrash, "the worker ended: "+w.obituary()
	switch w.killedFor() {
	case reasonCancel:
		return ctx.Err()
	case reasonClosed:
		return ErrClosed
	case reasonDeadline:
		kind, detail = transform.KindDeadline, fmt.Sprintf("killed after %v", p.o.Deadline)
	default:
		if errors.Is(cause, errNotSent) {
			return cause
		}
	}
	return &transform.Error{Kind: kind, Op: "worker.Pool.Run", Detail: fmt.Sprintf("%s (sample %d): %s", name, key.Sample, detail)}
}

// graceful is how long a worker that shut its end may take to die with a status of its own.
const graceful = 2 * time.Second

// awaitDeath waits for the end of a worker that hung up, so that its own exit status is the one reported, and kills
// it if it does not come.
func awaitDeath(w *process) {
	t := time.NewTimer(graceful)
	defer t.Stop()
	select {
	case <-w.dead:
	case <-t.C:
		w.kill(reasonProtocol)
	}
}

// ask sends a request and reads its reply. A failure to send is errNotSent when the worker had gone.
func (w *process) ask(req protocol.Request) (protocol.Reply, error) {
	if _, err := w.conn.Write(req.Append(w.buf[:0])); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return protocol.Reply{}, errNotSent
		}
		return protocol.Reply{}, err
	}
	packet, err := w.hear()
	if err != nil {
		return protocol.Reply{}, err
	}
	return protocol.ParseReply(packet)
}
