package plan

import (
	"slices"
	"time"
)

// Tally is what came of what was made, since the planner began. Its numbers only grow.
type Tally struct {
	// InTime are copies that were ready when their evaluation opened the checkpoint, Late those that were not; Missed are openings at a site to which
	// nothing was on its way, and Unused copies that went without having been opened.
	InTime int64 `json:"in_time"`
	Late   int64 `json:"late"`
	Missed int64 `json:"missed"`
	Unused int64 `json:"unused"`
	// Lead adds up how long those in time had been ready.
	Lead time.Duration `json:"lead_ns"`
	// IdleByteHours are bytes of copies times the hours before the first opening.
	IdleByteHours float64 `json:"idle_byte_hours"`
	// CopyByteHours and SourceByteHours are what placements that are gone took: copies, and temporary sources of hot files.
	CopyByteHours   float64 `json:"copy_byte_hours"`
	SourceByteHours float64 `json:"source_byte_hours"`
	// ReusedBytes are those of copies that lay at their site already, and were not sent.
	ReusedBytes int64 `json:"reused_bytes"`
	// SavedSeconds are the ranks' seconds that temporary sources, which ranks did read, were expected to save them.
	SavedSeconds float64 `json:"saved_seconds"`
	// MeasuredStarts read files that had temporary sources, and said how long their last rank took; to Unhelped of them it took no less than was expected
	// without. MeasuredSeconds are the ranks' seconds that the others saved, against the same expectation.
	MeasuredStarts  int64   `json:"measured_starts"`
	Unhelped        int64   `json:"unhelped"`
	MeasuredSeconds float64 `json:"measured_seconds"`
}

// Tally returns what came of what was made.
func (p *Planner) Tally() Tally { return p.tally }

// Count is how many placements there are of a means in a state, and what they hold.
type Count struct {
	Means Means  `json:"means"`
	State string `json:"state"`
	N     int    `json:"n"`
	Bytes int64  `json:"bytes"`
}

// Counts returns how many placements have begun and are not gone, by means and state, in no order; and how many wait for room.
func (p *Planner) Counts() (begun []Count, waiting int) {
	type kind struct {
		means Means
		state state
	}
	at := make(map[kind]int)
	for _, x := range p.placements {
		k := kind{x.want.means(), x.state}
		i, ok := at[k]
		if !ok {
			i, at[k] = len(begun), len(begun)
			begun = append(begun, Count{Means: k.means, State: k.state.String()})
		}
		begun[i].N++
		begun[i].Bytes += x.held.bytes
	}
	for _, l := range p.pools {
		waiting += l.queue.list.len
		for _, list := range l.parked {
			waiting += len(list)
		}
	}
	return begun, waiting
}

// Drained tells whether nothing new begins.
func (p *Planner) Drained() bool { return p.drained }

// Cluster returns what is believed of the cluster.
func (p *Planner) Cluster() Cluster { return p.cluster }

// Starts returns how many starts of jobs files are prepared for: those whose ranks are still to come, and those whose ranks have begun to read.
func (p *Planner) Starts() (announced, reading int) {
	for _, j := range p.jobs {
		switch r := j.current(); {
		case r == nil || r.start == nil || !r.start.attached || r.start.done():
		case r.start.opened:
			reading++
		default:
			announced++
		}
	}
	return announced, reading
}

// done tells whether all files were read.
func (st *start) done() bool {
	return !slices.ContainsFunc(st.files, func(h hot) bool { return !h.read })
}

// Margins returns the largest lead time beyond the predicted duration that any job's copies to a site have by now, by site.
func (p *Planner) Margins() map[string]time.Duration {
	most := make(map[string]time.Duration)
	for _, j := range p.jobs {
		for site, h := range j.history {
			if h.margin > 0 {
				most[site] = max(most[site], h.margin)
			}
		}
	}
	return most
}

// tallyOpened counts the opening of a checkpoint, at a time, that has a copy or one on its way.
func (p *Planner) tallyOpened(x *placement, late bool, at time.Duration) {
	if late {
		p.tally.Late++
	} else {
		p.tally.InTime++
		p.tally.Lead += at - x.held.readyAt
	}
	if x.held == nil || x.held.opened {
		return
	}
	x.held.opened = true
	p.tallyIdle(x, at)
}

func (p *Planner) tallyIdle(x *placement, until time.Duration) {
	if x.held.readyAt > 0 && until > x.held.readyAt {
		p.tally.IdleByteHours += float64(x.held.bytes) * (until - x.held.readyAt).Hours()
	}
}

// tallyRead counts that a start's ranks read files that have temporary sources; an empty path stands for all.
func (p *Planner) tallyRead(st *start, path string) {
	for _, h := range st.files {
		if path != "" && h.path != path {
			continue
		}
		f := p.files[h.path]
		if f == nil || f.slot.x == nil || f.slot.x.state != live || f.slot.x.held.opened {
			continue
		}
		x := f.slot.x
		x.held.opened = true
		p.tally.SavedSeconds += x.want.weight * x.want.saved.Seconds()
	}
}

// tallyTook compares how long a start took that had temporary sources with what is expected without.
func (p *Planner) tallyTook(st *start, ev Took) {
	before, made, announced := 0, false, 0.0
	for _, h := range st.files {
		f := p.files[h.path]
		if f == nil || !f.facts.known || !covers(ev.Paths, h.path) {
			continue
		}
		announced += float64(f.facts.size) * float64(h.readers)
		x := f.slot.x
		if x == nil || x.state != live {
			before += p.cluster.present(f.File())
			continue
		}
		made = true
		before += int(x.want.sources - x.want.extra)
	}
	if !made {
		return
	}
	bytes := ev.Bytes
	if bytes <= 0 {
		bytes = int64(announced / float64(max(st.readers, 1)))
	}
	without := p.cluster.lastReader(st.readers, max(min(before, p.cluster.Nodes), 1), bytes, false)
	p.tally.MeasuredStarts++
	if without <= ev.Last {
		p.tally.Unhelped++
		return
	}
	p.tally.MeasuredSeconds += float64(st.weight * (without - ev.Last).Seconds())
}

// covers tells whether a path is one of some, or below one; all are where none is named.
func covers(paths []string, path string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(root string) bool { return below(path, root) })
}

// tallyGone counts what a placement took.
func (p *Planner) tallyGone(x *placement) {
	h := x.held
	took := float64(h.bytes) * (p.now - h.begun).Hours()
	if x.want.means() != Copy {
		p.tally.SourceByteHours += took
		return
	}
	p.tally.CopyByteHours += took
	if h.readyAt > 0 && !h.opened {
		p.tally.Unused++
		p.tallyIdle(x, p.now)
	}
}
