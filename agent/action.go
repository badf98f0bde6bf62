package agent

import (
	"fmt"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
)

// verdictAction answers a hint.
type verdictAction struct {
	accepted bool
	fresh    bool // it changed something
	reason   hints.Reason
	detail   string
}

func (a verdictAction) String() string {
	switch {
	case !a.accepted:
		return "refuse  reason=" + string(a.reason)
	case a.fresh:
		return "accept"
	}
	return "accept  no change: " + a.detail
}

// resolveAction looks up which samples of a step this agent owns. A resolvedEvent follows.
type resolveAction struct {
	job, run   string
	generation uint64
	number     uint64 // of the window that the step was announced in
	step       int64
}

func (a resolveAction) String() string { return fmt.Sprintf("resolve %s/%d", a.job, a.step) }

// prepareAction reads and transforms an item. A doneEvent or a failedEvent follows.
type prepareAction struct {
	id   uint64
	item item
	job  string
	step int64
	name string
}

func (a prepareAction) String() string { return fmt.Sprintf("prepare %s out=%d", a.name, a.item.out) }

// stopAction gives a preparation up. The doneEvent or failedEvent that was due follows all the same.
type stopAction struct {
	id   uint64
	name string
	why  string
}

func (a stopAction) String() string { return fmt.Sprintf("stop    %s %s", a.name, a.why) }

// answerAction answers one want of a fetch. A releasedEvent follows an answer that carries an entry.
type answerAction struct {
	ticket uint64
	index  int
	id     uint64 // the entry whose bytes are the answer, 0 if there is none
	reason fetch.Reason
	lead   time.Duration // how long the entry lay ready
}

func (a answerAction) String() string {
	if a.id != 0 {
		return fmt.Sprintf("answer  %d[%d] prepared lead=%v", a.ticket, a.index, a.lead)
	}
	return fmt.Sprintf("answer  %d[%d] %s", a.ticket, a.index, a.reason)
}

// evictAction frees an entry's bytes.
type evictAction struct {
	id     uint64
	name   string
	job    string
	unused bool // nobody was given them
}

func (a evictAction) String() string {
	if a.unused {
		return fmt.Sprintf("evict   %s unused", a.name)
	}
	return "evict   " + a.name
}

// dropAction forgets a job.
type dropAction struct{ job, run, why string }

func (a dropAction) String() string { return fmt.Sprintf("drop    %s run=%s %s", a.job, a.run, a.why) }

// gateAction reports that the gate opened, or closed and why.
type gateAction struct {
	open   bool
	reason fetch.Reason
}

func (a gateAction) String() string {
	if a.open {
		return "gate    open"
	}
	return fmt.Sprintf("gate    closed reason=%s", a.reason)
}
