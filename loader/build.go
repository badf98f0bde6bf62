package loader

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
)

// source says how a part came into the batch.
type source int

const (
	notYet source = iota
	fromAgent
	fromAgentRaw
	fromStore
)

// entry is one media part of one place of the batch. While a batch is built, it belongs to one
// goroutine at a time.
type entry struct {
	slot  int
	field int // in Loader.media
	ref   sampler.SampleRef
	part  binfmt.Part
	// stored: it is delivered as it is stored: read into dst, no plan, no agent, no worker.
	stored bool
	half   []byte // where the agent's half of the plan writes
	dst    []byte // the sample's place in the batch; half itself when there is nothing to finish

	source source
	reason fetch.Reason // why it was not prepared
	peer   *peer        // the agent that owns it
	lead   time.Duration
	cpu    time.Duration
	bad    *fault               // why its content is bad, if it is
	spec   transform.TensorSpec // of half as it was decoded; unset until then
	done   bool                 // it is in the batch
}

// decoded tells whether spec is known because the sample was decoded.
func (e *entry) decoded() bool { return len(e.spec.Shape) > 0 }

// build makes one step of one rank. It is used once.
type build struct {
	l     *Loader
	step  int64
	order stepOrder
	clock *phaseClock
	tasks *tasks
	queue queue
	share int // parts that a worker gets at once
	// reserved is what the build holds of Loader.room.
	reserved atomic.Int64

	planned  []sampler.SampleRef // what the order says
	refs     []sampler.SampleRef // what is delivered: substitutes included
	attempts []int               // substitutes taken, by slot
	anchors  []binfmt.Part       // the part whose place decides who owns a sample, by slot
	entries  []*entry            // slot by slot, in order of fields
	specs    []transform.TensorSpec
	out      *slab
	scratch  *slab // the agents' halves that are not delivered as they are
	stored   *slab // the parts that are delivered as they are stored; nil if there are none
	fields   []FieldData
}

// buildStep makes a batch from whatever is fastest. The bytes do not depend on where they come from.
func (l *Loader) buildStep(ctx context.Context, step int64, clock *phaseClock) (*Batch, error) {
	start := l.now()
	b := &build{l: l, step: step, clock: clock, specs: make([]transform.TensorSpec, len(l.media))}
	planned, err := b.deal(ctx)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", step, err)
	}
	b.planned = planned
	b.refs = append(b.refs, b.planned...)
	b.attempts = make([]int, len(b.refs))
	b.anchors = make([]binfmt.Part, len(b.refs))
	b.share = shareOf(b.transforms(), l.o.Workers)
	batch, err := b.make(ctx)
	b.unreserve(b.reserved.Load()) // of parts that were given up
	if err != nil {
		b.free()
		return nil, fmt.Errorf("step %d: %w", step, err)
	}
	batch.Stats.Build = (l.now() - start).Seconds()
	return batch, nil
}

// transforms is how many of the step's parts go through a plan.
func (b *build) transforms() int { return len(b.refs) * b.l.plans }

// deal asks for this rank's part of the step.
func (b *build) deal(ctx context.Context) (_ []sampler.SampleRef, err error) {
	defer b.clock.enter(waitNetwork)() // of balanced ranks and grouped samples, the first look into an index may fetch it
	if b.order, err = b.l.orderAt(ctx, b.step); err != nil {
		return nil, err
	}
	return b.l.share(ctx, b.step)
}

func (b *build) make(ctx context.Context) (*Batch, error) {
	if err := b.lookUp(ctx); err != nil {
		return nil, err
	}
	if err := b.shapes(ctx); err != nil {
		return nil, err
	}
	if err := b.allocate(); err != nil {
		return nil, err
	}
	if err := b.obtain(ctx, b.assign(ctx)); err != nil {
		return nil, err
	}
	if err := b.complete(ctx); err != nil {
		return nil, err
	}
	if err := b.scalars(ctx); err != nil {
		return nil, err
	}
	return b.finish()
}

// lookUp finds the parts of every place.
func (b *build) lookUp(ctx context.Context) error {
	defer b.clock.enter(waitNetwork)() // the first look into an index may fetch it
	for slot := range b.refs {
		for f, field := range b.l.media {
			b.entries = append(b.entries, &entry{slot: slot, field: f, stored: field.stored})
		}
		if err := b.lookUpSlot(ctx, slot); err != nil {
			return err
		}
	}
	b.l.data.prefetch(ctx, b.bins())
	return nil
}

// bins are those that hold the step's parts, several times where they hold several.
func (b *build) bins() []int {
	bins := make([]int, 0, len(b.entries)+len(b.anchors))
	for _, e := range b.entries {
		bins = append(bins, e.part.Bin)
	}
	for slot, a := range b.anchors {
		if b.l.anchors[b.refs[slot].Source].leftOut {
			bins = append(bins, a.Bin)
		}
	}
	return bins
}

func (b *build) lookUpSlot(ctx context.Context, slot int) error {
	ref := b.refs[slot]
	number, anchor := b.l.data.number(ref), b.l.anchors[ref.Source]
	for _, e := range b.slot(slot) {
		part, err := b.l.data.Part(ctx, number, b.l.media[e.field].name)
		if err != nil {
			return fmt.Errorf("look up %s: %w", b.l.nameOf(ref), err)
		}
		if part.Len < 0 || part.Len > b.l.maxPart && !e.stored {
			return fmt.Errorf("%s, field %q: %d bytes in %s at offset %d: at most %d are read",
				b.l.nameOf(ref), b.l.media[e.field].name, part.Len, b.l.data.address(part.Extent), part.Off, b.l.maxPart)
		}
		e.ref, e.part, e.bad, e.spec, e.done = ref, part, nil, transform.TensorSpec{}, false
		if b.l.media[e.field].name == anchor.field {
			b.anchors[slot] = part
		}
	}
	if anchor.leftOut {
		part, err := b.l.data.Part(ctx, number, anchor.field)
		if err != nil {
			return fmt.Errorf("look up %s: %w", b.l.nameOf(ref), err)
		}
		b.anchors[slot] = part
	}
	return nil
}

// slot returns the entries of a place.
func (b *build) slot(slot int) []*entry {
	n := len(b.l.media)
	return b.entries[slot*n : (slot+1)*n]
}

func (b *build) key(ref sampler.SampleRef) transform.Key {
	return transform.Key{Seed: b.l.spec.Seed, Source: b.l.sourceOf(ref), Epoch: ref.Epoch, Sample: ref.Sample}
}

// allocate maps the batch and gives every entry its place in it.
func (b *build) allocate() error {
	n := int64(len(b.refs))
	var size, scratch int64
	offsets := make([]int64, len(b.l.fields))
	for i, f := range b.l.fields {
		offsets[i] = size
		size += alignUp(n*b.sampleBytes(f), fieldAlign)
	}
	for f, field := range b.l.media {
		if !field.stored && !field.inPlace() {
			scratch += alignUp(n*b.specs[f].Bytes(), fieldAlign)
		}
	}
	var err error
	if b.out, err = b.l.slabs.get(size); err != nil {
		return err
	}
	if scratch > 0 {
		if b.scratch, err = b.l.slabs.get(scratch); err != nil {
			return err
		}
	}
	b.layOut(offsets)
	return b.placeStored()
}

func (b *build) sampleBytes(f field) int64 {
	switch {
	case f.media < 0:
		return scalarBytes(f.kind)
	case b.l.media[f.media].stored:
		return 0 // its parts have memory of their own
	}
	return b.delivered(f.media).Bytes()
}

// delivered is what the whole plan of media field f gives.
func (b *build) delivered(f int) transform.TensorSpec {
	if b.l.media[f].rest.Len() == 0 {
		return b.specs[f]
	}
	t, err := b.l.media[f].finisher(b.specs[f])
	if err != nil {
		return b.specs[f] // finish reports it
	}
	return t.Spec(b.specs[f])
}

func (b *build) layOut(offsets []int64) {
	n := len(b.refs)
	var scratch int64
	for i, f := range b.l.fields {
		size := b.sampleBytes(f)
		end := offsets[i] + int64(n)*size
		data := FieldData{Name: f.name, Bytes: b.out.mem[offsets[i]:end:end]}
		switch {
		case f.media < 0:
			data.Dtype, data.Shape, data.Strides = scalarDtype(f.kind), []int{n}, []int{1}
		case b.l.media[f.media].stored:
			data.Dtype, data.Shape, data.Strides = dtypeStored, []int{n}, []int{1}
		default:
			spec := b.delivered(f.media)
			data.Dtype = string(spec.Dtype)
			data.Shape, data.Strides = logical(n, spec.Shape, b.l.media[f.media].contiguous)
			scratch = b.place(f.media, data.Bytes, scratch)
		}
		b.fields = append(b.fields, data)
	}
}

// place points the entries of media field f into the batch and, where they need it, into the scratch
// memory from offset at on; it returns the offset after them.
func (b *build) place(f int, field []byte, at int64) int64 {
	size, half := int64(len(field))/int64(len(b.refs)), b.specs[f].Bytes()
	for slot := range b.refs {
		e := b.slot(slot)[f]
		e.dst = field[int64(slot)*size : int64(slot+1)*size]
		e.half = e.dst
		if !b.l.media[f].inPlace() {
			from := at + int64(slot)*half
			e.half = b.scratch.mem[from : from+half]
		}
	}
	if b.l.media[f].inPlace() {
		return at
	}
	return at + alignUp(int64(len(b.refs))*half, fieldAlign)
}

// obtain fills entries: those that an agent owns from it, whatever it does not give from the store.
func (b *build) obtain(ctx context.Context, w work) error {
	b.tasks = newTasks(ctx, "step")
	for p, f := range w.remote {
		b.tasks.start(func(ctx context.Context) error { return b.fetch(ctx, p, f) })
	}
	b.startLocal(w.local)
	if err := b.tasks.wait(); err != nil {
		return err
	}
	return b.distrust(ctx)
}

// distrust makes again what came from an agent that has been caught with wrong bytes meanwhile.
func (b *build) distrust(ctx context.Context) error {
	var again []*entry
	for _, e := range b.entries {
		if e.source == fromAgent && b.l.agents.quarantined(e.peer) {
			e.reason = fetch.ReasonCorrupt
			again = append(again, e)
		}
	}
	if len(again) == 0 {
		return nil
	}
	b.tasks = newTasks(ctx, "step")
	b.startLocal(again)
	return b.tasks.wait()
}

// free gives the memory of a build back that failed or is laid out anew.
func (b *build) free() {
	for _, s := range []*slab{b.out, b.scratch, b.stored} {
		if s != nil {
			b.l.slabs.put(s)
		}
	}
	b.out, b.scratch, b.stored = nil, nil, nil
}

// finish hashes what is recorded and hands the batch over.
func (b *build) finish() (*Batch, error) {
	batch := &Batch{Step: b.step, Epoch: b.l.epoch(b.step), Fields: b.fields, Samples: b.refs}
	if b.l.records != nil {
		batch.records = b.record()
	}
	b.count(batch)
	if b.scratch != nil {
		b.l.slabs.put(b.scratch)
	}
	out, stored, slabs := b.out, b.stored, b.l.slabs
	batch.release = func() { slabs.put(out) }
	if stored != nil {
		batch.releaseStored = func() { slabs.put(stored) }
	}
	return batch, nil
}

// count fills in how the parts were obtained.
func (b *build) count(batch *Batch) {
	s := &batch.Stats
	s.Step, s.Epoch, s.ByReason = batch.Step, batch.Epoch, map[string]int{}
	for _, n := range b.attempts {
		if n > 0 {
			s.Substituted++
		}
	}
	var lead, cpu time.Duration
	for _, e := range b.entries {
		if e.stored {
			continue // an agent could not have prepared it
		}
		switch e.source {
		case fromAgent:
			s.Prepared++
			lead, cpu = lead+e.lead, cpu+e.cpu
		case fromAgentRaw:
			s.Raw++
		default:
			s.Local++
		}
		o := origin{reason: e.reason, lead: e.lead}
		if e.peer != nil {
			o.node = e.peer.Name
		}
		if e.source == fromAgent || e.reason != "" {
			batch.origins = append(batch.origins, o)
			s.note(o)
		}
	}
	if s.Prepared > 0 {
		s.LeadSeconds = lead.Seconds() / float64(s.Prepared)
		s.AgentCPU = cpu.Seconds()
	}
}
