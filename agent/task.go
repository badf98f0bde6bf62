package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
)

// task is a schedule as the agent works with it: one generation of one run of a job. It is immutable
// and safe for concurrent use.
type task struct {
	job, run   string
	generation uint64
	node       string
	data       *union
	order      order
	announced  *announced // order, if it is told window by window
	sources    []string   // names of the members as they key randomness
	seed       uint64
	firsts     []string // the first media field of each member: a sample begins where it does
	fields     []fieldTask
	agents     map[string]bool // names of the agents that owners are chosen from
	user       string          // on whose behalf things are read; set, as ledger is, before the task is used
	ledger     *hints.Ledger   // of the run
}

// fieldTask is the agent's half of the plan of one field.
type fieldTask struct {
	name      string
	plan      *transform.Plan
	digest    [32]byte
	operators string          // identities of the plan's operators
	differing []string        // those whose golden digest is not the same on both sides
	foreign   map[string]bool // those of them that decode: content that needs one is not prepared
	refused   fetch.Reason    // not empty: nothing of the field is prepared
}

// offers tells whether content of a media type goes through operators that are the same on both sides.
func (f *fieldTask) offers(media string) bool { return !f.foreign[f.plan.Decoder(media)] }

// errPlan is a schedule whose plan this agent cannot read.
var errPlan = errors.New("the plan is not one that this agent knows")

// newTask checks a schedule against the dataset and the operators that the workers have.
func newTask(h hints.Hint, u *union, node string, golden map[string]string) (*task, error) {
	s := h.Schedule
	if got := u.Identity(); got != s.Dataset {
		return nil, fmt.Errorf("%w: identity %x of the union, asked for %x", errIdentity, got[:8], s.Dataset[:8])
	}
	t := &task{
		job: h.Job, run: h.Run, generation: s.Generation, node: node, data: u,
		seed: s.Seed, agents: make(map[string]bool, len(s.Agents)),
	}
	if err := t.setOrder(s); err != nil {
		return nil, err
	}
	for _, m := range s.Datasets() {
		t.sources = append(t.sources, cmp.Or(m.Name, s.Source))
	}
	for _, a := range s.Agents {
		t.agents[a.Node] = true
	}
	for _, d := range u.members {
		t.firsts = append(t.firsts, firstMedia(d.Manifest()))
	}
	for _, f := range s.Fields {
		ft, err := newFieldTask(f, u, s.Operators, golden)
		if err != nil {
			return nil, err
		}
		t.fields = append(t.fields, ft)
	}
	return t, nil
}

// setOrder takes the order of a schedule, in either form, if it is one over the datasets.
func (t *task) setOrder(s *hints.Schedule) error {
	var sources []uint64
	for _, d := range t.data.members {
		sources = append(sources, uint64(d.Manifest().Samples()))
	}
	if s.Window != nil {
		t.announced = &announced{sources: sources}
		t.order = t.announced
		if err := t.announced.check(s.Window); err != nil {
			return err
		}
		t.announced.add(s.Window)
		return nil
	}
	spec, err := sampler.ParseSpec(s.Spec)
	if err != nil {
		return err
	}
	if len(spec.Sources) != len(sources) {
		return fmt.Errorf("%w: the order has %d sources, the schedule %d datasets", errIdentity, len(spec.Sources), len(sources))
	}
	for i, source := range spec.Sources {
		if source.Samples != sources[i] {
			return fmt.Errorf("%w: the order is over %d samples, the dataset %s has %d", errIdentity, source.Samples, t.data.members[i].address(), sources[i])
		}
	}
	if spec.GroupByLength != nil {
		return fmt.Errorf("the order groups samples by length, which agents do not look up: announce the ids of its steps: %w", sampler.ErrVersion)
	}
	run, err := sampler.New(spec)
	t.order = foretold{run}
	return err
}

// firstMedia is the first media field of a dataset, "" if it has none.
func firstMedia(m *binfmt.Manifest) string {
	for _, f := range m.Fields {
		if f.Kind == binfmt.Media {
			return f.Name
		}
	}
	return ""
}

func newFieldTask(f hints.FieldPlan, u *union, theirs, ours map[string]string) (fieldTask, error) {
	for _, d := range u.members {
		if field, ok := d.Manifest().Field(f.Field); !ok || field.Kind != binfmt.Media {
			return fieldTask{}, fmt.Errorf("%w: field %q is not a media field of the dataset %s", errPlan, f.Field, d.address())
		}
	}
	plan, err := transform.ParsePlan(f.Plan)
	if err != nil {
		return fieldTask{}, fmt.Errorf("%w: field %q: %w", errPlan, f.Field, err)
	}
	if plan.Digest() != f.Digest {
		return fieldTask{}, fmt.Errorf("%w: field %q: digest %x of the plan, the schedule says %x", errPlan, f.Field, plan.Digest(), f.Digest)
	}
	t := fieldTask{name: f.Field, plan: plan, digest: f.Digest, operators: strings.Join(plan.Identities(), " ")}
	t.compare(theirs, ours)
	return t, nil
}

// compare finds the operators of the plan whose golden digests are not the same on both sides. Of the decoders each sample
// needs one, so that those which differ concern their own formats only; every other operator concerns all samples.
func (f *fieldTask) compare(theirs, ours map[string]string) {
	decoders := map[string]bool{}
	for _, media := range transform.MediaTypes() {
		decoders[f.plan.Decoder(media)] = true
	}
	f.foreign = map[string]bool{}
	for _, id := range f.plan.Identities() {
		switch {
		case ours[id] != "" && ours[id] == theirs[id]:
			continue
		case decoders[id]:
			f.foreign[id] = true
		default:
			f.refused = fetch.ReasonUnknownPlan
		}
		f.differing = append(f.differing, id)
	}
	if len(f.foreign) == len(decoders) {
		f.refused = fetch.ReasonUnknownPlan
	}
}

// field returns the place of a field, -1 if the schedule does not have it.
func (t *task) field(name string) int {
	return slices.IndexFunc(t.fields, func(f fieldTask) bool { return f.name == name })
}

// key names the tensor of a sample, by its number in the union.
func (t *task) key(sample, epoch uint64, f *fieldTask) key {
	return key{
		dataset: t.data.Identity(), sample: sample, field: f.name, epoch: epoch,
		plan: f.digest, seed: t.seed, source: t.transformKey(sample, epoch).Source, differing: strings.Join(f.differing, " "),
	}
}

// items returns what this agent prepares for a step: the parts of the samples it owns. A sample whose
// index cannot be read now is left out, and the error says so.
func (t *task) items(ctx context.Context, step int64) ([]item, error) {
	var items []item
	var errs []error
	for _, ref := range t.order.refs(step) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sample := t.data.Number(int(ref.Source), ref.Sample)
		first, owned, err := t.owns(ctx, int(ref.Source), sample)
		if err != nil {
			errs = append(errs, err)
		}
		if !owned {
			continue
		}
		for i := range t.fields {
			it, err := t.item(ctx, int(ref.Source), sample, ref.Epoch, &t.fields[i], first)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			items = append(items, it)
		}
	}
	return items, errors.Join(errs...)
}

// owns tells whether this node prepares a sample; then it returns the sample's first part. The index of a
// bin is not opened when the node holds no block of it.
func (t *task) owns(ctx context.Context, source int, sample uint64) (first binfmt.Part, owned bool, err error) {
	bin, err := t.data.Find(sample)
	if err != nil {
		return first, false, err
	}
	blocks, err := t.data.blocks(ctx, bin)
	if err != nil || !blocks.On(t.node) {
		return first, false, err
	}
	first, err = t.data.Part(ctx, sample, t.firsts[source])
	if err != nil {
		return first, false, err
	}
	var holders []fetch.Node
	for _, name := range blocks.Holders(first.Off) {
		if t.agents[name] {
			holders = append(holders, fetch.Node{Name: name})
		}
	}
	owner, ok := fetch.Owner(t.data.Identity(), sample, holders)
	return first, ok && owner.Name == t.node, nil
}

// item describes the preparation of one field of a sample whose first part is known.
func (t *task) item(ctx context.Context, source int, sample, epoch uint64, f *fieldTask, first binfmt.Part) (item, error) {
	part := first
	if f.name != t.firsts[source] {
		var err error
		if part, err = t.data.Part(ctx, sample, f.name); err != nil {
			return item{}, err
		}
	}
	it := item{
		key:    t.key(sample, epoch, f),
		extent: extent{t.data.Identity(), part.Extent},
		media:  part.Type, operators: f.operators, in: part.Len, task: t,
	}
	it.out, it.refused = outputSize(part, f, t.transformKey(sample, epoch))
	if !f.offers(part.Type) {
		it.refused = fetch.ReasonUnknownPlan
	}
	return it, nil
}

// outputSize returns how many bytes a part becomes. Without the size of its image it is not known
// before the work, so nothing can be reserved for it.
func outputSize(p binfmt.Part, f *fieldTask, k transform.Key) (int64, fetch.Reason) {
	if spec, ok := f.plan.Fixed(); ok {
		return spec.Bytes(), f.refused
	}
	if f.refused != "" {
		return 0, f.refused
	}
	if p.Width == 0 || p.Height == 0 {
		return 0, fetch.ReasonMemory
	}
	spec, _, err := f.plan.OutputStored(int(p.Width), int(p.Height), k)
	if err != nil {
		return 0, fetch.ReasonPoison
	}
	return spec.Bytes(), ""
}

// transformKey keys the randomness of a sample of the union: by its source's name and its number there. One that
// there is not has no source.
func (t *task) transformKey(sample, epoch uint64) transform.Key {
	k := transform.Key{Seed: t.seed, Epoch: epoch, Sample: sample}
	if member, own, err := t.data.Own(sample); err == nil {
		k.Source, k.Sample = t.sources[member], own
	}
	return k
}
