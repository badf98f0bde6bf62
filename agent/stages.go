package agent

import (
	"math"
	"slices"
	"time"
)

// maxAhead bounds how many parts are read ahead for each core: a storage that has become slow must not be asked for
// ever more at once.
const maxAhead = 2

// pace is how long the two stages of a preparation take, over all kinds of work: its part is read, then a core makes the
// tensor.
type pace struct{ read, work time.Duration }

func (s *pace) learn(c cost) {
	seen := pace{c.read, c.wall - c.read}
	if *s == (pace{}) {
		*s = seen
		return
	}
	*s = pace{blend(s.read, seen.read), blend(s.work, seen.work)}
}

// ahead is how many parts must be on their way so that so many cores, whenever one is done, find the next one there: as many
// as the cores work off while one is read.
func (s pace) ahead(cores int) int {
	if s.read <= 0 {
		return 0
	}
	most := float64(maxAhead * cores)
	return int(math.Ceil(min(most, float64(cores)*float64(s.read)/float64(max(s.work, 1)))))
}

// places is how many preparations may be in their stages at once: one for each core that is granted, and the parts that are
// read ahead. Nothing is read ahead while others want some of the cores.
func (p *planner) places() int {
	if p.gate.granted < p.gate.max {
		return p.gate.granted
	}
	return p.gate.granted + p.pace.ahead(p.gate.granted)
}

// readEvent says that a part was read, and how long that took.
type readEvent struct {
	id   uint64
	took time.Duration
}

func (ev readEvent) apply(p *planner, _ time.Duration) {
	for _, e := range p.runs {
		if e.id == ev.id {
			e.read, e.took = true, ev.took
		}
	}
}

// work gives the cores that are granted and free to what was read, soonest first.
func (p *planner) work(now time.Duration) {
	for p.working() < p.gate.granted {
		e := p.nextRead()
		if e == nil {
			return
		}
		e.phase, e.core, e.began = running, true, now-e.took
		p.do(workAction{id: e.id, name: e.String()})
	}
}

// working is how many cores are in use, by what was told to stop too.
func (p *planner) working() int {
	n := 0
	for _, e := range p.runs {
		if e.core {
			n++
		}
	}
	return n
}

// nextRead returns what was read and must begin first; nil if there is nothing. A reader may have come since it was begun.
func (p *planner) nextRead() *entry {
	var read []*entry
	for _, e := range p.runs {
		if e.phase == begun && e.read {
			e.start = p.latest(e)
			read = append(read, e)
		}
	}
	if len(read) == 0 {
		return nil
	}
	return slices.MinFunc(read, sooner)
}
