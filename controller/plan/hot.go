package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/hints/relay"
)

// start is what was announced of one start of a job.
type start struct {
	marker
	stamp
	job      *job
	run      *run
	user     string
	until    time.Duration
	expected time.Duration
	ranks    int
	readers  int     // that do not share what they read: ranks, or hosts
	weight   float64 // ranks that wait, times the confidence
	files    []hot
	attached bool
	opened   bool
	over     string // why nothing is done for it any more
}

// hot is a file of a start.
type hot struct {
	path    string
	readers int32
	read    bool // by all
}

// claim is one start's wish for a file.
type claim struct {
	start *start
	n     int32 // of the start's files
}

// file is a hot file, and who asks for it.
type file struct {
	marker
	path   string
	place  int // in the planner's list
	claims []claim
	slot   slot
	facts  facts
}

// facts are a File without its path, small: there are many.
type facts struct {
	identity         string
	size             int64
	blocks, replicas int32
	erasure          bool
	open, ownPolicy  bool
	known, asked     bool
}

func (f *file) File() File {
	k := f.facts
	return File{
		Path: f.path, Identity: k.identity, Size: k.size, Blocks: int(k.blocks), Replicas: int(k.replicas),
		ErasureCoded: k.erasure, Open: k.open, OwnPolicy: k.ownPolicy,
	}
}

func (f *file) name() string { return f.path }

func (f *file) account(p *Planner) string {
	if _, first := f.demand(p); first != nil {
		return first.job.name
	}
	return ""
}

func (f *file) doubt() { f.facts.known, f.facts.asked = false, false }

func (p *Planner) file(path string) *file {
	f := p.files[path]
	if f == nil {
		f = &file{path: path}
		f.slot = slot{owner: f, pool: p.local, revoked: p.wasRevoked(path, "")}
		p.files[path] = f
		f.place = p.list.len
		p.list.push(f)
	}
	return f
}

// drop forgets a file.
func (p *Planner) drop(f *file) {
	delete(p.files, f.path)
	last := *p.list.at(p.list.len - 1)
	*p.list.at(f.place), last.place = last, f.place
	p.list.pop()
}

func (p *Planner) newStart(j *job, run *run, r relay.Record, s stamp, until time.Duration) *start {
	a := r.Start
	st := &start{
		stamp: s, job: j, run: run, user: r.User, until: until, expected: s.at + time.Duration(a.ExpectedInMS)*time.Millisecond,
		ranks: int(a.Ranks), readers: p.readersOf(a.Ranks, a.RanksPerHost), weight: float64(r.Confidence * float64(a.Ranks)), files: make([]hot, len(a.Files)),
	}
	for i, f := range a.Files {
		st.files[i] = hot{path: f.Path, readers: int32(min(p.readersOf(f.Readers, a.RanksPerHost), 1<<30))}
	}
	return st
}

// readersOf is how many readers some ranks are.
func (p *Planner) readersOf(ranks, perHost uint32) int {
	if p.o.HostsShare && perHost > 1 {
		return int((ranks + perHost - 1) / perHost)
	}
	return int(ranks)
}

// Readers returns how many readers the start that a run's ranks speak of announced of each of some files; 0 where it announced none.
func (p *Planner) Readers(job, run string, paths []string) []int {
	readers := make([]int, len(paths))
	st := p.startOf(job, run)
	if st == nil {
		return readers
	}
	of := make(map[string]int, len(paths))
	for i, path := range paths {
		of[path] = i
	}
	for _, h := range st.files {
		if i, asked := of[h.path]; asked {
			readers[i] = int(h.readers)
		}
	}
	return readers
}

// decide asks for a start's files while it lasts, and no longer.
func (st *start) decide(p *Planner) {
	deadline := st.expected + openWithin
	switch current := st.job.current(); {
	case st.run.start != st:
		st.over = "another announcement replaced it"
	case st.run.ended:
		st.over = "the job has ended"
	case current != st.run:
		st.over = "" // it may become the current one, when an older announcement arrives
		st.detach(p)
		return
	case st.until <= p.now:
		st.over = "its lease has ended"
	case !st.opened && deadline <= p.now:
		st.over = "it has opened nothing"
	}
	if st.over != "" {
		st.detach(p)
		p.touch(st.job)
		return
	}
	st.attach(p)
	next := st.until
	if !st.opened {
		next = min(next, deadline)
	}
	p.alarm(st, next)
}

func (st *start) attach(p *Planner) {
	if st.attached {
		return
	}
	st.attached = true
	for i, h := range st.files {
		if h.read {
			continue
		}
		f := p.file(h.path)
		f.claims = append(f.claims, claim{st, int32(i)})
		p.touch(f)
	}
}

func (st *start) detach(p *Planner) {
	if !st.attached {
		return
	}
	st.attached = false
	for _, h := range st.files {
		st.leave(p, h.path)
	}
}

// leave takes a start's wishes for a file back.
func (st *start) leave(p *Planner, path string) {
	f := p.files[path]
	if f == nil {
		return
	}
	f.claims = slices.DeleteFunc(f.claims, func(c claim) bool { return c.start == st })
	p.touch(f)
}

// startOf is the start that a run's ranks speak of; nil if none is known.
func (p *Planner) startOf(job, name string) *start {
	j := p.jobs[job]
	if j == nil {
		return nil
	}
	of := j.current()
	if i := slices.IndexFunc(j.runs, func(r *run) bool { return r.id == name && r.start != nil }); i >= 0 {
		of = j.runs[i]
	}
	if of == nil {
		return nil
	}
	return of.start
}

func (ev Took) apply(p *Planner) {
	if st := p.startOf(ev.Job, ev.Run); st != nil && ev.Last > 0 {
		p.tallyTook(st, ev)
	}
}

func (ev FanOut) apply(p *Planner) {
	st := p.startOf(ev.Job, ev.Run)
	if st == nil {
		return
	}
	st.opened = true
	p.touch(st)
	p.tallyRead(st, ev.Path)
	if !ev.Ended {
		return
	}
	for i := range st.files {
		h := &st.files[i]
		if !h.read && (ev.Path == "" || h.path == ev.Path || strings.HasPrefix(h.path, strings.TrimSuffix(ev.Path, "/")+"/")) {
			h.read = true
			st.leave(p, h.path)
		}
	}
}

func (ev Looked) apply(p *Planner) {
	for _, k := range ev.Files {
		f := p.files[k.Path]
		if f == nil {
			continue
		}
		f.facts = facts{
			identity: k.Identity, size: k.Size, blocks: int32(min(k.Blocks, 1<<30)), replicas: int32(min(k.Replicas, 1<<15)),
			known: true, erasure: k.ErasureCoded, open: k.Open, ownPolicy: k.OwnPolicy,
		}
		p.touch(f)
	}
}

// demand adds up who asks for a file.
func (f *file) demand(p *Planner) (d demand, first *start) {
	soonest := never
	until := time.Duration(0)
	heaviest := -1.0
	for _, c := range f.claims {
		d.readers += int(c.start.files[c.n].readers)
		d.weight += c.start.weight
		until = max(until, c.start.until)
		soonest = min(soonest, c.start.expected)
		if c.start.weight > heaviest || c.start.weight == heaviest && c.start.job.name < first.job.name {
			heaviest, first = c.start.weight, c.start
		}
	}
	d.lease, d.soon = until-p.now, soonest-p.now
	return d, first
}

// decide asks for sources of the file while somebody does.
func (f *file) decide(p *Planner) {
	d, first := f.demand(p)
	switch {
	case first == nil:
		f.slot.revoked = p.wasRevoked(f.path, "")
		p.settle(&f.slot, nil, ReasonUnneeded, "nobody reads it any more")
		if p.files[f.path] == f && f.slot.x == nil && f.slot.keep() <= p.now {
			p.drop(f)
		}
		return
	case target(d.readers, p.cluster.ReadersPerSource) <= 1 && (p.cluster.known() || !f.slot.begun()): // of a cluster that does not answer what there is stays
		p.settle(&f.slot, nil, ReasonUnneeded, "one source is enough")
		return
	case !f.facts.known:
		if !f.facts.asked {
			f.facts.asked = true
			p.lookups = append(p.lookups, f.path)
		}
		return
	case f.facts.identity == "":
		p.settle(&f.slot, nil, ReasonSource, "there is no such file")
		return
	case f.facts.open:
		p.settle(&f.slot, nil, ReasonSource, "it is still being written")
		return
	}
	verdict := p.policy.Spread(Request{Path: f.path, Job: first.job.name, User: first.user})
	if !verdict.Allowed {
		p.settle(&f.slot, nil, ReasonPolicy, verdict.Rule)
		return
	}
	f.propose(p, d, first, verdict)
}

// propose settles on the means.
func (f *file) propose(p *Planner, d demand, first *start, v Verdict) {
	k := f.File()
	allowed := v.Means
	if f.slot.begun() {
		x := f.slot.x
		if !has(allowed, x.want.means()) {
			p.settle(&f.slot, nil, ReasonPolicy, v.Rule+": "+string(x.want.means())+" is not allowed")
			return
		}
		if better, _, _ := p.choose(k, d, allowed); x.want.means() != Even || better.extra == 0 || d.soon < 2*p.ready(better.means, k) {
			p.settle(&f.slot, f.kept(p, d, first), "", "")
			return
		}
	}
	c, reason, detail := p.choose(k, d, allowed)
	if reason != "" {
		p.settle(&f.slot, nil, reason, detail)
		return
	}
	const slack = 30 * time.Second
	early := p.ready(c.means, k)
	p.settle(&f.slot, &proposal{
		way: wayOf(c.means), identity: k.Identity, sources: int32(c.sources), extra: int32(c.extra), readers: int32(min(d.readers, 1<<30)), content: k.Size,
		start: max(p.now+d.soon-early-early/2-slack, 0), until: p.now + d.lease, job: first.job, weight: d.weight, saved: c.saved, value: c.value, cost: c.cost,
	}, "", "")
}

// kept is what was begun, for those who ask by now.
func (f *file) kept(p *Planner, d demand, first *start) *proposal {
	want := f.slot.x.want
	want.identity = f.facts.identity
	want.until, want.job, want.weight, want.readers = p.now+d.lease, first.job, d.weight, int32(min(d.readers, 1<<30))
	k := f.File()
	have := p.cluster.present(k)
	if want.means() != Even {
		want.saved = p.cluster.lastReader(d.readers, have, k.Size, false) - p.cluster.lastReader(d.readers, have+int(want.extra), k.Size, true)
	}
	want.value = p.prices.worth(float64(d.weight * want.saved.Seconds()))
	return &want
}

// describe is what is known of a file and who asks for it, for people.
func (f *file) describe(p *Planner) string {
	d, first := f.demand(p)
	if first == nil {
		return "nobody asks for it"
	}
	reading := 0
	for _, c := range f.claims {
		if c.start.opened {
			reading++
		}
	}
	return fmt.Sprintf("%d readers of %d starts, of which %d have begun to read, %d sources wanted, %d present", d.readers, len(f.claims), reading,
		target(d.readers, p.cluster.ReadersPerSource), p.cluster.present(f.File()))
}
