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

const opRun = "worker.Pool.Run"

// errNotSent says that a worker was gone before a message could be given to it.
var errNotSent = errors.New("worker gone before the job was sent")

// do gives tasks to a worker that the caller owns, in one message, and sets their outcomes, unless it returns
// errNotSent. The message has the time of one job: should its items be slow but sound, each has that time again, alone.
func (p *Pool) do(ctx context.Context, w *process, tasks []task) error {
	kill := w.begin()
	defer w.end()
	defer time.AfterFunc(p.o.Deadline, func() { kill(reasonDeadline) }).Stop()
	defer context.AfterFunc(ctx, func() { kill(reasonCancel) })()

	before := w.cpu()
	req, used := w.request(tasks)
	defer w.in.trim(used)
	reply, err := w.ask(req)
	if err == nil {
		err = p.plausible(w, tasks, reply)
	}
	if err != nil {
		err = p.lost(ctx, w, err)
		for _, t := range tasks {
			t.fail(err)
		}
		return err
	}
	w.collect(tasks, req, reply, w.cpu()-before)
	return nil
}

// request describes tasks and lays their inputs out; used is how much of the input memory they take.
func (w *process) request(tasks []task) (req protocol.Request, used int64) {
	for _, t := range tasks {
		var at int64
		at, used = protocol.Place(used, int64(len(t.In.Data)))
		copy(w.in.bytes[at:], t.In.Data)
		slot, text := w.sent.place(t.Job.Plan)
		req = append(req, protocol.Job{Slot: slot, Plan: text, Key: t.Job.Key, Input: int64(len(t.In.Data)), Output: t.room()})
	}
	return req, used
}

// ask sends a request and reads its reply. A failure to send is errNotSent when the worker had gone.
func (w *process) ask(req protocol.Request) (protocol.Reply, error) {
	if _, err := w.conn.Write(req.Append(w.buf[:0])); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return nil, errNotSent
		}
		return nil, err
	}
	packet, err := w.hear()
	if err != nil {
		return nil, err
	}
	return protocol.ParseReply(packet)
}

// plausible checks an answer against everything known beforehand. If one outcome is impossible, none counts: who lies
// once may have lied about all of them.
func (p *Pool) plausible(w *process, tasks []task, outcomes []protocol.Outcome) error {
	if len(outcomes) != len(tasks) {
		return fmt.Errorf("%d answers to %d jobs", len(outcomes), len(tasks))
	}
	var used int64
	for i, o := range outcomes {
		t, at := tasks[i], int64(0)
		at, used = protocol.Place(used, t.room())
		fixed, ok := t.Job.Plan.Fixed()
		n := o.Bytes()
		switch {
		case o.Status == protocol.Failed:
		case ok && !fixed.Equal(spec(o)):
			return fmt.Errorf("a tensor of shape %v", o.Shape)
		case o.Status == protocol.Short && (n <= int64(len(t.Out)) || n > p.o.MaxOutput):
			return fmt.Errorf("a buffer of %d bytes is too small for %d", len(t.Out), n)
		case o.Status == protocol.Done && (n > int64(len(t.Out)) || n > int64(len(w.out.bytes))-at):
			return fmt.Errorf("a tensor of shape %v", o.Shape)
		}
	}
	return nil
}

func spec(o protocol.Outcome) transform.TensorSpec {
	return transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{int(o.Shape[0]), int(o.Shape[1]), int(o.Shape[2])}}
}

// collect copies the pixels of a plausible answer and sets the outcomes. cpu is what the message took.
func (w *process) collect(tasks []task, req protocol.Request, reply protocol.Reply, cpu time.Duration) {
	var in, used, touched int64
	peak, private := w.peak.bytes()
	w.unfit = private > keepPrivate
	for _, j := range req {
		in += j.Input
	}
	for i, o := range reply {
		t, at := tasks[i], int64(0)
		at, used = protocol.Place(used, req[i].Output)
		res := Result{CPU: share(cpu, req[i].Input, in, len(req)), PeakRSS: peak}
		switch o.Status {
		case protocol.Failed:
			switch o.Error.Kind {
			case transform.KindPlan:
				w.sent.forget(req[i].Slot)
			case transform.KindCrash:
				w.unfit = true
			}
			*t.Outcome = Outcome{res, &transform.Error{
				Kind: o.Error.Kind, Op: printable(o.Error.Op), Detail: t.In.Name + ": " + printable(o.Error.Detail),
			}}
		case protocol.Short:
			*t.Outcome = Outcome{res, &ShortBufferError{Need: o.Bytes()}}
		case protocol.Done:
			n := o.Bytes()
			res.Spec, res.Bytes, res.CRC = spec(o), int(n), copySum(t.Out[:n], w.out.bytes[at:at+n])
			*t.Outcome = Outcome{Result: res}
			touched = max(touched, at+n)
		}
		if len(tasks) == 1 && o.Status != protocol.Done {
			touched = int64(len(w.out.bytes)) // a picture that failed late has left its rows, wherever there was room
		}
	}
	w.out.trim(touched)
}

// share divides the CPU time of a message by the bytes that each item brought.
func share(cpu time.Duration, bytes, all int64, items int) time.Duration {
	if all == 0 {
		return cpu / time.Duration(items)
	}
	return time.Duration(float64(cpu) * (float64(bytes) / float64(all)))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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

// lost turns a broken conversation into the error that says why it broke: errNotSent, the context's error, ErrClosed or a
// [*transform.Error].
func (p *Pool) lost(ctx context.Context, w *process, cause error) error {
	if w.killedFor() == "" && !disconnected(cause) {
		w.kill(reasonProtocol)
		return &transform.Error{Kind: transform.KindCrash, Op: opRun, Detail: fmt.Sprintf("the worker %s answered nonsense and was killed: %v", w.path, cause)}
	}
	// The worker is dying or has shut its end: either way there is no more to hear from it.
	if w.killedFor() == "" {
		awaitDeath(w)
	}
	<-w.dead
	switch w.killedFor() {
	case reasonCancel:
		return ctx.Err()
	case reasonClosed:
		return ErrClosed
	case reasonDeadline:
		return &transform.Error{Kind: transform.KindDeadline, Op: opRun, Detail: fmt.Sprintf("killed after %v", p.o.Deadline)}
	}
	if errors.Is(cause, errNotSent) {
		return cause
	}
	return &transform.Error{Kind: transform.KindCrash, Op: opRun, Detail: "the worker ended: " + w.obituary()}
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
