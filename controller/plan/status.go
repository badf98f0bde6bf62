package plan

import (
	"slices"
	"time"
)

// Standing is one placement, or one that is refused, as `ctl plan` and `ctl why` show it.
type Standing struct {
	ID         ID     // 0 where nothing was ever wanted
	Path, Site string // Site of copies
	Means      Means
	State      string
	Job        string
	Emergency  bool
	Bytes      int64
	Sources    int
	// Value is what it is expected to return, Cost what it takes, in the currency of the prices; Rank their quotient.
	Value, Cost, Rank float64
	// Left is the rest of its lease.
	Left time.Duration
	// Reason and Detail say why it is refused or waits, Why what it is for.
	Reason Reason
	Detail string
	Why    string
}

// Ranking returns the placements that there are or that wait, the best first, at most so many; and how many there are in all.
func (p *Planner) Ranking(most int) ([]Standing, int) {
	var all []*placement
	for _, f := range p.files {
		if f.slot.x != nil {
			all = append(all, f.slot.x)
		}
	}
	for _, c := range p.copies {
		for _, s := range c.slots {
			if s.x != nil {
				all = append(all, s.x)
			}
		}
	}
	slices.SortFunc(all, func(x, y *placement) int {
		if x.before(y) {
			return -1
		}
		return 1
	})
	list := make([]Standing, 0, min(most, len(all)))
	for _, x := range all[:min(most, len(all))] {
		list = append(list, p.standing(x.slot))
	}
	return list, len(all)
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

func (p *Planner) standing(s *slot) Standing {
	st := Standing{Path: s.owner.name(), Site: s.pool.site, State: "none"}
	st.Reason, st.Detail = s.because()
	x := s.x
	if x == nil {
		return st
	}
	w := x.want
	st.ID, st.Means, st.State, st.Emergency, st.Bytes, st.Sources = x.id, w.means, x.state.String(), w.emergency, w.bytes(), int(w.sources)
	st.Value, st.Cost, st.Rank, st.Left, st.Why = w.value, w.cost, w.rank, w.until-p.now, w.why()
	if w.job != nil {
		st.Job = w.job.name
	}
	if x.held != nil && x.state.undoing() {
		st.Why = x.held.why
	}
	return st
}

// Usage is what is taken of the budgets.
type Usage struct {
	// Held are bytes by site, "" for temporary sources of hot files; Rate the bytes a second granted to copies of each.
	Held, Rate map[string]int64
	// ByteHoursLeft of each allowance.
	ByteHoursLeft map[string]float64
	Egress        int64
	Cores         float64
	Memory        int64
	// Placements are those that have begun and are not gone.
	Placements int
}

// Usage returns what is taken of the budgets now.
func (p *Planner) Usage() Usage {
	u := Usage{
		Held: make(map[string]int64), Rate: make(map[string]int64), ByteHoursLeft: make(map[string]float64),
		Egress: p.working.egress, Cores: p.working.cores, Memory: p.working.memory, Placements: len(p.placements),
	}
	for _, l := range p.pools {
		l.days.fill(p.now)
		u.Held[l.site], u.ByteHoursLeft[l.site] = l.held, l.days.level/3600
		for _, x := range l.running {
			if l.site != "" {
				u.Rate[l.site] += x.held.rate
			}
		}
	}
	return u
}
