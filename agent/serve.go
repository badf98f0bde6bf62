package agent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// rawReads is how many parts one fetch reads at once for raw answers.
const rawReads = 4

// reply is one answer on its way from the loop to a fetch.
type reply struct {
	want   int
	reason fetch.Reason
	lead   time.Duration
	id     uint64
	tensor *tensor // nil: not prepared
}

// fetching is one fetch.
type fetching struct {
	agent  *Agent
	task   *task
	req    *fetch.Request
	claims auth.Claims

	mu   sync.Mutex // send must not overlap
	send func(want int, p fetch.Payload) error
}

// Fetch implements fetch.Handler.
func (a *Agent) Fetch(ctx context.Context, c auth.Claims, req *fetch.Request, send func(want int, p fetch.Payload) error) (err error) {
	defer a.recovered("agent.fetch", &err)
	f := &fetching{agent: a, task: a.tasks.of(req.Job, req.Run), req: req, claims: c, send: send}
	if reason, detail := f.refuse(ctx); reason != fetch.ReasonNone {
		if reason != fetch.ReasonUnknownJob {
			a.refused("fetch", string(reason), detail, req.Job, req.Run, c)
		}
		return f.none(reason)
	}
	data := f.task.data
	if !a.tasks.holdAll(data) {
		return f.none(fetch.ReasonUnknownJob) // dropped this moment
	}
	defer func() { err = errors.Join(err, a.tasks.releaseAll(data.members)) }()
	return f.run(ctx)
}

// refuse returns why nothing of the request may be answered with bytes.
func (f *fetching) refuse(ctx context.Context) (fetch.Reason, string) {
	if f.task == nil {
		return fetch.ReasonUnknownJob, ""
	}
	for _, d := range f.task.data.members {
		if err := f.claims.Allows(auth.RightFetch, d.dir); err != nil {
			return fetch.ReasonDenied, err.Error()
		}
		if err := f.mayRead(ctx, path.Join(d.dir, binfmt.ManifestName)); err != nil {
			return fetch.ReasonDenied, err.Error()
		}
	}
	if id := f.task.data.Identity(); f.req.Dataset != id {
		return fetch.ReasonIdentity, fmt.Sprintf("asked for %x, the job's dataset is %x", f.req.Dataset[:8], id[:8])
	}
	return fetch.ReasonNone, ""
}

func (f *fetching) none(reason fetch.Reason) error {
	for i := range f.req.Wants {
		if err := f.give(i, fetch.Payload{Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// mayRead says whether the token's user may read a file. What cannot be known is denied too: the reader then
// reads the store itself, under its own rights.
func (f *fetching) mayRead(ctx context.Context, name string) error {
	return f.agent.rights.mayRead(ctx, f.claims.User, name)
}

// run asks the planner for what it may prepare and answers every want as soon as its fate is known.
func (f *fetching) run(ctx context.Context) error {
	asked, places, raw, denied := f.split(ctx)
	for _, want := range denied {
		if err := f.give(want, fetch.Payload{Reason: fetch.ReasonDenied}); err != nil {
			return err
		}
	}
	var group errgroup.Group // a part that cannot be read does not keep the others from being answered
	group.SetLimit(rawReads)
	for _, want := range raw {
		group.Go(func() error { return f.giveRaw(ctx, want, fetch.ReasonUnknownPlan) })
	}
	if err := f.collect(ctx, &group, asked, places); err != nil {
		return errors.Join(err, group.Wait())
	}
	return group.Wait()
}

// split sorts the wants: keys for the planner, with the place of each in the request, wants whose plan is
// not the schedule's, and wants in files that the user may not read.
func (f *fetching) split(ctx context.Context) (keys []key, places, raw, denied []int) {
	for i, w := range f.req.Wants {
		if err := f.mayReadSample(ctx, w.Sample); err != nil {
			if denied == nil { // one line a fetch
				f.agent.refused("fetch", string(fetch.ReasonDenied), err.Error(), f.req.Job, f.req.Run, f.claims)
			}
			denied = append(denied, i)
			continue
		}
		at := f.task.field(w.Field)
		if at < 0 || f.req.PlanDigests[w.Field] != f.task.fields[at].digest {
			raw = append(raw, i)
			continue
		}
		keys = append(keys, f.task.key(w.Sample, w.Epoch, &f.task.fields[at]))
		places = append(places, i)
	}
	return keys, places, raw, denied
}

// mayReadSample says whether the user may read the bin that holds a sample. A bin that another program wrote may
// lie outside the dataset's folder, and so outside the token's roots.
func (f *fetching) mayReadSample(ctx context.Context, sample uint64) error {
	bin, err := f.task.data.Find(sample)
	if err != nil {
		return nil // there is no such sample, which the answer will say
	}
	b, name := f.task.data.bin(bin)
	if b.Foreign != nil {
		if err := f.claims.Allows(auth.RightFetch, name); err != nil {
			return err
		}
	}
	return f.mayRead(ctx, name)
}

// collect passes the planner's answers on.
func (f *fetching) collect(ctx context.Context, group *errgroup.Group, keys []key, places []int) error {
	replies := make(chan reply, len(keys)) // the loop never waits for us
	ticket := f.agent.ticket.Add(1)
	f.agent.mail.put(envelope{replies: replies, ev: fetchEvent{
		ticket: ticket, job: f.req.Job, run: f.req.Run, reader: readerOf(ctx), step: f.req.Step,
		progress: f.req.Progress, deadline: f.req.Deadline, keys: keys,
	}})
	for n := 0; n < len(keys); n++ {
		select {
		case r := <-replies:
			if err := f.pass(ctx, group, places[r.want], r); err != nil {
				f.leave(ticket, replies)
				return err
			}
		case <-ctx.Done():
			f.leave(ticket, replies)
			return ctx.Err()
		case <-f.agent.leaving:
			f.leave(ticket, replies)
			return status.Error(codes.Unavailable, "agent is stopping")
		}
	}
	return nil
}

// leave gives a ticket up and frees the answers that are on their way.
func (f *fetching) leave(ticket uint64, replies chan reply) {
	closed := make(chan struct{})
	f.agent.mail.put(envelope{ev: leftEvent{ticket: ticket}, handled: closed})
	select {
	case <-closed:
	case <-f.agent.ended:
		return
	}
	for len(replies) > 0 {
		if r := <-replies; r.tensor != nil {
			f.agent.mail.put(envelope{ev: releasedEvent{id: r.id}})
		}
	}
}

func (f *fetching) pass(ctx context.Context, group *errgroup.Group, want int, r reply) error {
	release := func() { f.agent.mail.put(envelope{ev: releasedEvent{id: r.id}}) }
	switch {
	case r.tensor != nil && int64(len(r.tensor.data)) <= f.req.MaxEntry:
		return f.give(want, fetch.Payload{
			Spec: r.tensor.spec, Data: r.tensor.data, Release: release, CRC: r.tensor.crc,
			PlanDigest: r.tensor.plan, LeadTime: r.lead, PrepareCPU: r.tensor.cpu,
		})
	case r.tensor != nil:
		release()
		r.reason = fetch.ReasonMemory
	case r.reason == fetch.ReasonUnknownJob, r.reason == fetch.ReasonIdentity:
		return f.give(want, fetch.Payload{Reason: r.reason})
	}
	group.Go(func() error { return f.giveRaw(ctx, want, r.reason) })
	return nil
}

// giveRaw reads a part and sends it. Where the promised bytes are not there the reader gets none and
// looks for itself; where they cannot be read now the fetch fails, and the reader does the same.
func (f *fetching) giveRaw(ctx context.Context, want int, reason fetch.Reason) (err error) {
	defer f.agent.recovered("agent.raw", &err)
	w := f.req.Wants[want]
	part, err := f.task.data.Part(ctx, w.Sample, w.Field)
	if err != nil {
		return f.unread(ctx, want, err)
	}
	if part.Len > f.req.MaxEntry {
		return f.give(want, fetch.Payload{Reason: fetch.ReasonMemory})
	}
	held := min(part.Len, rawMemory)
	if err := f.agent.raw.Acquire(ctx, held); err != nil {
		return err
	}
	data := make([]byte, part.Len)
	if err := f.task.data.read(ctx, part.Extent, data); err != nil {
		f.agent.raw.Release(held)
		return f.unread(ctx, want, err)
	}
	crc := part.CRC
	if !part.HasCRC {
		crc = binfmt.CRC32C(0, data)
	}
	return f.give(want, fetch.Payload{
		Raw: true, Reason: reason, Data: data, CRC: crc,
		Release: func() { f.agent.raw.Release(held) },
	})
}

func (f *fetching) unread(ctx context.Context, want int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(missing(err), errIdentity) || errors.Is(err, binfmt.ErrNoSample) || errors.Is(err, binfmt.ErrNoField) {
		return f.give(want, fetch.Payload{Reason: fetch.ReasonIdentity})
	}
	return status.Error(codes.Unavailable, err.Error())
}

// give sends one entry and counts it.
func (f *fetching) give(want int, p fetch.Payload) error {
	label := string(p.Reason)
	if p.Reason == fetch.ReasonNone {
		label = prepared
	}
	f.agent.metrics.answers.WithLabelValues(label).Inc()
	f.account(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.send(want, p)
}

func (f *fetching) account(p fetch.Payload) {
	if f.task == nil {
		return
	}
	node, ledger := f.agent.o.Node, f.task.ledger
	switch {
	case p.Reason != fetch.ReasonNone:
		ledger.Miss(node, string(p.Reason))
	case p.LeadTime > 0:
		ledger.Hit(node, p.LeadTime)
		f.agent.metrics.lead.Observe(p.LeadTime.Seconds())
	default:
		ledger.Late(node)
		f.agent.metrics.lead.Observe(0)
	}
}

// readerOf tells the processes that fetch apart: each has a connection of its own.
func readerOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "?"
	}
	return p.Addr.String()
}
