package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// errForeign says that a part needs a decoder which differs from the job's. Its index promised another type.
var errForeign = errors.New("the content needs a decoder whose golden digest differs from the job's")

// errClosed says that the job which an item comes from is gone.
var errClosed = errors.New("dataset was closed")

// prepare makes the tensor of an item, if its datasets are open, and posts what came of it.
func (a *Agent) prepare(ctx context.Context, act prepareAction, open bool) {
	began := a.now()
	t, err := a.make(ctx, act.item, open)
	key, at := act.item.task.transformKey(act.item.key.sample, act.item.key.epoch), act.item.extent
	_, bin := act.item.task.data.Bin(at.Bin)
	r := record{
		At: began.Seconds(), Job: act.job, Step: act.step, Source: key.Source, Sample: key.Sample, Epoch: key.Epoch,
		Field: act.item.key.field, Plan: fmt.Sprintf("%x", act.item.key.plan), Operators: act.item.operators,
		Bin: bin, Offset: at.Off, Length: at.Len,
		WallMicros: (a.now() - began).Microseconds(), Result: prepared,
	}
	if err != nil {
		why := failureOf(ctx, err)
		r.Result, r.Detail = why.String(), err.Error()
		a.finish(failedEvent{id: act.id, why: why}, nil, r)
		if why != stopped {
			a.o.Log.Info("preparation failed", zap.String("job", act.job), zap.Int64("step", act.step),
				zap.String("source", key.Source), zap.Uint64("sample", key.Sample), zap.Stringer("result", why), zap.Error(err))
		}
		return
	}
	r.Bytes, r.CRC, r.CPUMicros, r.PeakRSS = len(t.data), fmt.Sprintf("%08x", t.crc), t.cpu.Microseconds(), t.rss
	done := doneEvent{id: act.id, cost: cost{wall: a.now() - began, cpu: t.cpu}}
	a.finish(done, t, r)
}

// finish hands the outcome of a preparation to the loop and keeps its record.
func (a *Agent) finish(ev event, t *tensor, r record) {
	a.metrics.preparations.WithLabelValues(r.Result).Inc()
	a.records.add(r)
	a.mail.put(envelope{ev: ev, job: r.Job, tensor: t})
}

// make reads a part and runs its plan. A panic is a failure of this preparation alone.
func (a *Agent) make(ctx context.Context, it item, open bool) (t *tensor, err error) {
	defer a.recovered("agent.prepare", &err)
	if !open {
		return nil, errClosed
	}
	data := it.task.data
	_, bin := data.bin(it.extent.Bin)
	if err := a.rights.mayRead(ctx, it.task.user, bin); err != nil {
		return nil, err
	}
	in := a.buffers.get(it.extent.Len)
	defer a.buffers.put(in)
	began := a.now()
	if err := data.read(ctx, it.extent.Extent, in); err != nil {
		return nil, err
	}
	a.metrics.read.Observe((a.now() - began).Seconds())
	return a.transform(ctx, it, in)
}

func (a *Agent) transform(ctx context.Context, it item, in []byte) (*tensor, error) {
	f := &it.task.fields[it.task.field(it.key.field)]
	if !f.offers(transform.MediaType(in)) {
		return nil, errForeign
	}
	job := worker.Job{Plan: f.plan, Key: it.task.transformKey(it.key.sample, it.key.epoch)}
	_, bin := it.task.data.bin(it.extent.Bin)
	name := fmt.Sprintf("%s+%d", bin, it.extent.Off)
	out := a.buffers.get(it.out)
	began := a.now()
	res, err := a.o.Pool.Run(ctx, job, worker.Part{Name: name, Data: in}, out)
	a.metrics.run.Observe((a.now() - began).Seconds())
	if err == nil && (int64(res.Bytes) != res.Spec.Bytes() || res.Bytes > len(out)) {
		err = fmt.Errorf("agent.prepare: %d bytes for a tensor of %d", res.Bytes, res.Spec.Bytes())
	}
	if err != nil {
		a.buffers.put(out)
		return nil, err
	}
	return &tensor{data: out[:res.Bytes], spec: res.Spec, crc: res.CRC, plan: f.digest, cpu: res.CPU, rss: res.PeakRSS}, nil
}

// failureOf says what an error of a preparation means.
func failureOf(ctx context.Context, err error) failure {
	var te *transform.Error
	var short *worker.ShortBufferError
	switch {
	case ctx.Err() != nil:
		return stopped
	case errors.Is(err, errIdentity):
		return wrong
	case errors.Is(err, errForeign):
		return foreign
	case errors.As(err, &short): // larger than its index says
		return content
	case !errors.As(err, &te):
		return trouble
	case te.Content(), te.Kind == transform.KindPlan:
		return content
	case te.Kind == transform.KindDeadline:
		return killed
	case te.Kind == transform.KindCrash && strings.Contains(te.Detail, "memory"):
		return killed
	case te.Kind == transform.KindCrash:
		return crashed
	}
	return trouble
}

// recovered turns a panic into an error.
func (a *Agent) recovered(op string, err *error) {
	if p := recover(); p != nil {
		a.o.Log.Error("panic", zap.String("op", op), zap.Any("panic", p), zap.Stack("stack"))
		*err = fmt.Errorf("%s: panic: %v", op, p)
	}
}

// record says how one entry came about.
type record struct {
	At         float64 `json:"at_s"` // since the agent's start
	Job        string  `json:"job"`
	Step       int64   `json:"step"`
	Source     string  `json:"source,omitempty"` // the sample's, by name
	Sample     uint64  `json:"sample"`           // in its source, as bin is
	Epoch      uint64  `json:"epoch"`
	Field      string  `json:"field"`
	Plan       string  `json:"plan"`
	Operators  string  `json:"operators"`
	Bin        int     `json:"bin"`
	Offset     int64   `json:"offset"`
	Length     int64   `json:"length"`
	Result     string  `json:"result"`
	Detail     string  `json:"detail,omitempty"`
	Bytes      int     `json:"bytes"`
	CRC        string  `json:"crc32c,omitempty"`
	WallMicros int64   `json:"wall_us"`
	CPUMicros  int64   `json:"cpu_us"`
	PeakRSS    int64   `json:"peak_rss_bytes"`
}
