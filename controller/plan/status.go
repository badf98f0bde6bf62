package plan

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Standing is one placement, or one that is refused, as `ctl plan` and `ctl why` show it.
type Standing struct {
	ID    ID     `json:"id,omitempty"` // 0 where there is none
	Path  string `json:"path"`
	Site  string `json:"site,omitempty"` // of copies
	Means Means  `json:"means,omitempty"`
	State string `json:"state"`
	// Job is who pays, or would.
	Job       string `json:"job,omitempty"`
	Emergency bool   `json:"emergency,omitempty"`
	Bytes     int64  `json:"bytes"`
	// Sources are all of a hot file, Extra those of them that are made.
	Sources int `json:"sources,omitempty"`
	Extra   int `json:"extra,omitempty"`
	// Value is what it is expected to return, Cost what it takes, in the currency of the prices; Rank their quotient.
	Value float64 `json:"value"`
	Cost  float64 `json:"cost"`
	Rank  float64 `json:"rank"`
	// Left is the rest of its lease.
	Left time.Duration `json:"left_ns"`
	// Reason and Detail say why it is refused or waits, Why what it is for.
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Why    string `json:"why,omitempty"`
	// Progress is how far it is while it is made; nil where that is not known. A planner does not know: whoever carries it out does.
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is how far a making is: Done bytes of Total are made, and so many a second were lately, 0 where nothing is made or that is not known yet.
type Progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	Rate  int64 `json:"rate"`
}

// Left is how long the rest takes at the rate of late; false where nobody knows.
func (p Progress) Left() (time.Duration, bool) {
	if p.Rate <= 0 {
		return 0, false
	}
	return span(float64(max(p.Total-p.Done, 0)) / float64(p.Rate)), true
}

// UnderWay tells whether it is being made, or stands still in the midst of that.
func (s Standing) UnderWay() bool { return s.State == making.String() || s.State == paused.String() }

// Begun tells whether it has begun and is not gone: there is something, or will be soon.
func (s Standing) Begun() bool { return s.State != "none" && s.State != waiting.String() }

// Ranking returns the placements that there are or that wait, the best first, at most so many; and how many there are in all. Where of is not nil, only those
// whose path and job it takes.
func (p *Planner) Ranking(most int, of func(path, job string) bool) ([]Standing, int) {
	all := best[*placement]{most: most, compare: inRank}
	for s := range p.slotted {
		if s.x != nil && (of == nil || of(s.owner.name(), p.payerOf(s))) {
			all.add(s.x)
		}
	}
	return p.standings(all.sorted()), all.n
}

// Making returns the placements that are being made, the best first, at most so many. Where of is not nil, only those whose path and job it takes.
func (p *Planner) Making(most int, of func(path, job string) bool) []Standing {
	all := best[*placement]{most: most, compare: inRank}
	for _, x := range p.placements {
		if (x.state == making || x.state == paused) && (of == nil || of(x.slot.owner.name(), x.held.job)) {
			all.add(x)
		}
	}
	return p.standings(all.sorted())
}

// inRank orders placements by their rank.
func inRank(x, y *placement) int {
	if x.before(y) {
		return -1
	}
	return 1
}

func (p *Planner) standings(of []*placement) []Standing {
	list := make([]Standing, 0, len(of))
	for _, x := range of {
		list = append(list, p.standing(x.slot))
	}
	return list
}

// Refused returns what is asked for and not done, with the reason, at most so many, by path; and how many there are in all. What only waits for its time is not
// among them. Where of is not nil, only those whose path and job it takes.
func (p *Planner) Refused(most int, of func(path, job string) bool) ([]Standing, int) {
	all := best[*slot]{most: most, compare: func(s, t *slot) int {
		return cmp.Or(cmp.Compare(s.owner.name(), t.owner.name()), cmp.Compare(s.pool.site, t.pool.site))
	}}
	for s := range p.slotted {
		reason, _ := s.because()
		if s.x == nil && reason != "" && reason != ReasonWait && reason != ReasonUnneeded && (of == nil || of(s.owner.name(), p.payerOf(s))) {
			all.add(s)
		}
	}
	list := make([]Standing, 0, len(all.list))
	for _, s := range all.sorted() {
		list = append(list, p.standing(s))
	}
	return list, all.n
}

// best keeps the first of many, in an order; there may be a million, of which a hundred are wanted while everything waits.
type best[T any] struct {
	most    int
	compare func(x, y T) int
	list    []T // a heap, the last of them first
	n       int // how many there were
}

func (b *best[T]) Len() int           { return len(b.list) }
func (b *best[T]) Less(i, j int) bool { return b.compare(b.list[i], b.list[j]) > 0 }
func (b *best[T]) Swap(i, j int)      { b.list[i], b.list[j] = b.list[j], b.list[i] }
func (b *best[T]) Push(x any)         { b.list = append(b.list, x.(T)) }
func (b *best[T]) Pop() any {
	last := b.list[len(b.list)-1]
	b.list = b.list[:len(b.list)-1]
	return last
}

func (b *best[T]) add(x T) {
	b.n++
	switch {
	case len(b.list) < b.most:
		heap.Push(b, x)
	case b.most > 0 && b.compare(x, b.list[0]) < 0:
		b.list[0] = x
		heap.Fix(b, 0)
	}
}

// sorted returns them in their order; nothing can be added any more.
func (b *best[T]) sorted() []T {
	slices.SortFunc(b.list, b.compare)
	return b.list
}

// slotted gives all slots there are.
func (p *Planner) slotted(yield func(*slot) bool) {
	for _, f := range p.files {
		if !yield(&f.slot) {
			return
		}
	}
	for _, c := range p.copies {
		for _, s := range c.slots {
			if !yield(s) {
				return
			}
		}
	}
}

// Why returns what is decided on a path, and what is known of it; nothing if it was never heard of.
func (p *Planner) Why(path string) (list []Standing, known string) {
	if f := p.files[path]; f != nil {
		list, known = append(list, p.standing(&f.slot)), f.describe(p)
	}
	if c := p.copies[path]; c != nil {
		for _, s := range c.slots {
			list = append(list, p.standing(s))
		}
		known = c.describe(p)
	}
	return list, known
}

// Speakers are the jobs that what is known of a path, as Why says it, speaks of: those that said something of a checkpoint, and those that ask for a hot file.
func (p *Planner) Speakers(path string) (jobs []string) {
	add := func(name string) {
		if !slices.Contains(jobs, name) {
			jobs = append(jobs, name)
		}
	}
	if f := p.files[path]; f != nil {
		for _, c := range f.claims {
			add(c.start.job.name)
		}
	}
	if c := p.copies[path]; c != nil {
		for _, s := range c.life {
			add(s.job)
		}
		for _, e := range c.evaluations {
			for _, s := range e.said {
				add(s.job)
			}
		}
	}
	return jobs
}

// Find returns the placement with a number; false where there is none, or no more.
func (p *Planner) Find(id ID) (Standing, bool) {
	x := p.find(id)
	if x == nil {
		return Standing{}, false
	}
	return p.standing(x.slot), true
}

// find returns a placement that has begun or waits for room; nil if there is none.
func (p *Planner) find(id ID) *placement {
	if x := p.placements[id]; x != nil {
		return x
	}
	of := func(x *placement) bool { return x.id == id }
	for _, l := range p.pools {
		for x := range l.queue.list.each() {
			if of(x) {
				return x
			}
		}
		for _, list := range l.parked {
			if i := slices.IndexFunc(list, of); i >= 0 {
				return list[i]
			}
		}
	}
	return nil
}

// payerOf is the job on whose account a slot's placement is, or would be.
func (p *Planner) payerOf(s *slot) string {
	switch x := s.x; {
	case x == nil:
		return s.owner.account(p)
	case x.held != nil:
		return x.held.job
	case x.want.job != nil:
		return x.want.job.name
	}
	return ""
}

// Asked returns the policy, and what it is asked, or would be, about a path: copies to the sites where it is wanted, and, if it is a hot file, sources.
func (p *Planner) Asked(path string) (policy Policy, copies, spread []Request) {
	if c := p.copies[path]; c != nil && c.known {
		payer, user := c.payer(p, c.life.last(p))
		for _, s := range c.slots {
			copies = append(copies, c.request(s, payer, user))
		}
	}
	if f := p.files[path]; f != nil {
		if _, first := f.demand(p); first != nil {
			spread = append(spread, Request{Path: path, Job: first.job.name, User: first.user})
		}
	}
	return p.policy, copies, spread
}

func (p *Planner) standing(s *slot) Standing {
	st := Standing{Path: s.owner.name(), Site: s.pool.site, State: "none"}
	st.Reason, st.Detail = s.because()
	st.Job = p.payerOf(s)
	x := s.x
	if x == nil {
		return st
	}
	w := x.want
	st.ID, st.Means, st.State, st.Emergency, st.Bytes, st.Sources, st.Extra = x.id, w.means(), x.state.String(), w.emergency, x.bytes(), int(w.sources), int(w.extra)
	st.Value, st.Cost, st.Rank, st.Left, st.Why = w.value, w.cost, w.rank, w.until-p.now, w.why()
	switch {
	case x.held == nil:
	case x.state.undoing():
		st.Why = x.held.why
	case x.held.short > 0 && st.Reason == "":
		st.Reason, st.Detail = ReasonFewer, fmt.Sprintf("%d of %d extra sources were made: the cluster has no place for more", w.extra, w.extra+x.held.short)
	}
	return st
}

// Usage is what is taken of the budgets.
type Usage struct {
	// Held are bytes by site, "" for temporary sources of hot files; Rate the bytes a second granted to copies of each.
	Held map[string]int64 `json:"held"`
	Rate map[string]int64 `json:"rate"`
	// ByteHoursLeft of each allowance.
	ByteHoursLeft map[string]float64 `json:"byte_hours_left"`
	// Expected is the bytes a second that the next copy to a site is expected to get: what the last ones got, at most its part of the link's rate.
	Expected map[string]int64 `json:"expected"`
	Egress   int64            `json:"egress"`
	Cores    float64          `json:"cores"`
	Memory   int64            `json:"memory"`
	// Placements are those that have begun and are not gone.
	Placements int `json:"placements"`
	// Off names the budgets that are switched off: wan, replicas, storage.
	Off []string `json:"off,omitempty"`
}

// Usage returns what is taken of the budgets now.
func (p *Planner) Usage() Usage {
	u := Usage{
		Held: make(map[string]int64), Rate: make(map[string]int64), ByteHoursLeft: make(map[string]float64), Expected: make(map[string]int64),
		Egress: p.working.egress, Cores: p.working.cores, Memory: p.working.memory, Placements: len(p.placements),
	}
	for _, b := range []struct {
		name string
		on   bool
	}{{"wan", p.budgets.WAN.On}, {"replicas", p.budgets.Replicas.On}, {"storage", p.budgets.Storage.On}} {
		if !b.on {
			u.Off = append(u.Off, b.name)
		}
	}
	for _, l := range p.pools {
		l.days.fill(p.now)
		u.Held[l.site], u.ByteHoursLeft[l.site] = l.held, l.days.level/3600
		if l.site != "" {
			u.Expected[l.site] = l.expectedRate()
		}
		for _, x := range l.running {
			if l.site != "" {
				u.Rate[l.site] += x.held.rate
			}
		}
	}
	return u
}
