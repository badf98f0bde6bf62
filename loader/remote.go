package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

const (
	// minWait is the least an agent is given, and that its answers may be late: a fetch of a batch that
	// lies ready takes a few milliseconds, and a busy network some tens.
	minWait = 100 * time.Millisecond
	// firstWait is given while the step time is not known.
	firstWait = time.Second
	// maxGrace bounds the time that answers may take beyond the agent's deadline.
	maxGrace = time.Second
)

// work is who makes the entries of a step.
type work struct {
	remote map[*peer]*ask
	local  []*entry
}

// ask is what one agent is asked for.
type ask struct {
	try     int // for agents.failed
	entries []*entry
}

// assign gives every entry to the agent that owns it, or to ourselves with the reason.
func (b *build) assign(ctx context.Context) work {
	w := work{remote: map[*peer]*ask{}}
	if !b.l.agents.wanted || b.l.plans == 0 {
		w.local = b.entries
		return w
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait())
	defer cancel()
	defer b.clock.enter(waitNetwork)()
	refused := map[*peer]fetch.Reason{}
	for slot := range b.refs {
		p := b.owner(ctx, slot)
		b.give(&w, b.slot(slot), p, refused)
	}
	return w
}

// owner returns the agent that prepares a place's sample, nil if there is none.
func (b *build) owner(ctx context.Context, slot int) *peer {
	part := b.anchors[slot]
	blocks, err := b.l.places.Of(ctx, part.Bin)
	if err != nil {
		b.l.o.Log.Warn("cannot locate a bin: its samples are made here for a while", zap.String("bin", b.l.data.address(part.Extent)), zap.Error(err))
	}
	return b.l.agents.owner(b.l.data.Identity(), b.l.data.number(b.refs[slot]), blocks.Holders(part.Off))
}

// give adds the entries of one place to what p is asked for, unless p must not be asked now. What is delivered as it is
// stored is read here: an agent has nothing to prepare.
func (b *build) give(w *work, entries []*entry, p *peer, refused map[*peer]fetch.Reason) {
	reason := fetch.ReasonNoAgent
	if p != nil {
		if w.remote[p] == nil && refused[p] == "" {
			if try, ok, why := b.l.agents.allow(p); ok {
				w.remote[p] = &ask{try: try}
			} else {
				refused[p] = why
			}
		}
		reason = refused[p]
	}
	for _, e := range entries {
		if e.stored {
			w.local = append(w.local, e)
			continue
		}
		if e.peer, e.reason = p, reason; reason != "" {
			w.local = append(w.local, e)
		} else {
			w.remote[p].entries = append(w.remote[p].entries, e)
		}
	}
}

// wait is how long agents may take: until the step is wanted, less the time to make it here after all.
func (b *build) wait() time.Duration {
	wait := firstWait
	if lead, known := b.l.clock.lead(b.step, b.l.now()); known {
		wait = lead - b.l.pace.of(b.transforms(), b.l.o.Workers)
	}
	least := b.l.o.testing.minWait
	return min(max(wait, least), max(b.l.o.FetchDeadline, least))
}

// fetch asks one agent and makes here what it does not give. An agent's failure is never an error.
func (b *build) fetch(ctx context.Context, p *peer, a *ask) error {
	left, err := b.fetchFrom(ctx, p, a)
	if err != nil {
		return err
	}
	b.startLocal(left)
	return nil
}

// fetchFrom returns the entries that the agent gave neither as tensor nor as bytes, with the reasons.
func (b *build) fetchFrom(ctx context.Context, p *peer, a *ask) ([]*entry, error) {
	defer b.clock.enter(waitNetwork)()
	wait := b.wait()
	fctx, cancel := context.WithTimeout(ctx, wait+min(max(wait/4, b.l.o.testing.minWait), maxGrace))
	defer cancel()
	answers := &answers{b: b, entries: a.entries, seen: make([]bool, len(a.entries))}
	err := b.l.agents.client(p).Fetch(fctx, p.Addr, b.request(a.entries, wait), answers.alloc, answers.got)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if answers.err != nil {
		return nil, answers.err
	}
	answers.rest(err)
	b.l.agents.note(p, a.try, b.step, answers.verdict(err), err)
	return answers.left, nil
}

func (b *build) request(entries []*entry, wait time.Duration) *fetch.Request {
	req := &fetch.Request{
		Job: b.l.o.Job, Run: b.l.o.Run, Generation: b.l.agents.generation(), Step: b.step, Progress: b.l.position(),
		Dataset: b.l.data.Identity(), PlanDigests: map[string][32]byte{}, Deadline: wait, Wants: make([]fetch.Want, len(entries)),
	}
	for i, e := range entries {
		f := b.l.media[e.field]
		req.Wants[i] = fetch.Want{Sample: b.l.data.number(e.ref), Epoch: e.ref.Epoch, Field: f.name}
		req.PlanDigests[f.name] = f.digest
	}
	return req
}

// answers takes what one agent sends. Its methods are called one at a time.
type answers struct {
	b       *build
	entries []*entry
	seen    []bool
	left    []*entry // to be made from the store
	worst   fetch.Reason
	err     error // our own failure
}

// errSize says that an agent offers an entry of another size than the dataset and the plan say.
var errSize = errors.New("the agent's entry has a wrong size")

// alloc gives the memory of an entry: its place in the batch, or a buffer for stored bytes.
func (a *answers) alloc(want int, prepared bool, size int64) ([]byte, error) {
	e := a.entries[want]
	promised := e.part.Len
	if prepared {
		promised = int64(len(e.half))
	}
	if size != promised {
		a.worst = fetch.ReasonCorrupt
		return nil, fmt.Errorf("%s: %d bytes, expected %d: %w", a.b.l.nameOf(e.ref), size, promised, errSize)
	}
	if prepared {
		return e.half, nil
	}
	return a.b.l.buf.get(int(size)), nil
}

// got takes one answer.
func (a *answers) got(want int, ans fetch.Answer) {
	e := a.entries[want]
	a.seen[want] = true
	e.reason = ans.Reason
	switch {
	case ans.Prepared != nil && ans.Prepared.Spec.Equal(a.b.specs[e.field]):
		e.source, e.reason, e.lead, e.cpu = fromAgent, "", ans.LeadTime, ans.PrepareCPU
		a.prepared(e)
	case ans.Raw != nil && e.part.Check(ans.Raw) == nil:
		e.source = fromAgentRaw
		a.b.queue.add(a.b, job{e, ans.Raw})
	case ans.Prepared != nil || ans.Raw != nil:
		e.reason = fetch.ReasonCorrupt
		fallthrough
	default:
		if grave(e.reason) {
			a.worst = e.reason
		}
		a.left = append(a.left, e)
	}
}

// prepared finishes a tensor, or compares it with our own first if it is a canary.
func (a *answers) prepared(e *entry) {
	if a.b.l.canary(e) {
		a.b.tasks.start(func(ctx context.Context) error { return a.b.compare(ctx, e) })
		return
	}
	if err := a.b.settle(e); err != nil {
		a.err = err
	}
}

// rest leaves to the store what did not come before the fetch ended with err.
func (a *answers) rest(err error) {
	for i, e := range a.entries {
		if a.seen[i] {
			continue
		}
		e.reason = fetch.ReasonOf(err)
		if errors.Is(err, errSize) {
			e.reason = fetch.ReasonCorrupt
		}
		a.left = append(a.left, e)
	}
}

// verdict is what the fetch says about the agent: "" if it works.
func (a *answers) verdict(err error) fetch.Reason {
	if a.worst != "" {
		return a.worst
	}
	return fetch.ReasonOf(err)
}

// grave tells whether a reason is about the agent rather than about one entry.
func grave(r fetch.Reason) bool {
	switch r {
	case fetch.ReasonIdentity, fetch.ReasonDenied, fetch.ReasonUnknownJob, fetch.ReasonVersion, fetch.ReasonCorrupt:
		return true
	}
	return false
}

// canary tells whether a prepared entry is made again here. The choice is random to the agent and the
// same for the same entry.
func (l *Loader) canary(e *entry) bool {
	h := maphash.Comparable(l.seed, [3]uint64{l.data.number(e.ref), e.ref.Epoch, uint64(e.field)})
	return h%uint64(l.o.CanaryEvery) == 0
}

// compare makes a prepared entry again here. If it differs, ours is delivered and the agent is not
// asked any more.
func (b *build) compare(ctx context.Context, e *entry) error {
	pieces, err := b.read(ctx, []*entry{e})
	if err != nil {
		return err
	}
	raw := pieces[0].buf
	defer b.drop(raw)
	own := b.l.buf.get(len(e.half))
	defer b.l.buf.put(own)
	if pieces[0].err != nil {
		e.bad = faultOf(pieces[0].err)
		return nil
	}
	spec, bad, err := b.transform(ctx, e, raw, own)
	if err != nil {
		return err
	}
	same := bad == nil && spec.Equal(b.specs[e.field]) && bytes.Equal(own, e.half)
	b.l.count(func(s *Stats) {
		s.Canaries++
		if !same {
			s.CanaryMismatches++
		}
	})
	if !same {
		e.source, e.reason = fromStore, fetch.ReasonCorrupt
		b.l.agents.quarantine(e.peer)
		b.l.o.Log.Error("an agent prepared other bytes than this host: it is not asked any more",
			zap.String("node", e.peer.Name), zap.String("addr", e.peer.Addr), zap.String("source", b.l.sourceOf(e.ref)), zap.Uint64("sample", e.ref.Sample),
			zap.Strings("operators", b.l.media[e.field].agent.Identities()))
		copy(e.half, own)
	}
	if bad != nil {
		e.bad = faultOf(bad)
		return nil
	}
	return b.settle(e)
}
