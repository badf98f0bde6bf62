package execute

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// The names of actions, in the journal and to the planner. They are only added to.
const (
	makeVerb     = "make"
	publishVerb  = "publish"
	extendVerb   = "extend"
	withdrawVerb = "withdraw"
	removeVerb   = "remove"
)

// past is what the journal says of one placement. The same records give the same past, in memory and after a restart.
type past struct {
	make    plan.Make // of even, made up from its publish
	fact    json.RawMessage
	publish *plan.Publish // the last
	// begun: something may be in the world; made: it is whole.
	begun, made, published, undoing, over bool

	short int           // extra sources that were not made
	until time.Time     // the end of its lease, by the wall clock that wrote it
	lease time.Duration // how long it was when it was given
}

// doneMake is the body of a making's done: the digest of what was made, the bytes of it that were not sent, and how long it was not paused.
type doneMake struct {
	Digest string        `json:"digest,omitempty"`
	Reused int64         `json:"reused,omitempty"`
	Took   time.Duration `json:"took_ns,omitempty"`
	Short  int           `json:"short,omitempty"` // as plan.Done.Short
}

// failure is the body of what failed.
type failure struct {
	Reason plan.Reason `json:"reason"`
	Detail string      `json:"detail"`
}

// add takes the next record of the placement.
func (p *past) add(r journal.Record) error {
	switch r.Kind {
	case journal.Intent:
		return p.intent(r)
	case journal.Fact:
		if p.fact == nil { // what was there before; later ones saw what had been made in part
			p.fact = r.Body
		}
	case journal.Done:
		return p.done(r)
	case journal.Failed:
	default:
		return fmt.Errorf("%w: record %d of placement %d has the kind %q", journal.ErrVersion, r.Number, r.Placement, r.Kind)
	}
	return nil
}

func (p *past) intent(r journal.Record) error {
	var end struct {
		Lease time.Duration `json:"lease_ns"`
		Until time.Time     `json:"until"`
	}
	if err := decode(r, &end); err != nil {
		return err
	}
	if !end.Until.IsZero() {
		p.until, p.lease = end.Until, end.Lease
	}
	switch r.Action {
	case makeVerb:
		p.begun = true
		return decode(r, &p.make)
	case publishVerb:
		a := plan.Publish{}
		if err := decode(r, &a); err != nil {
			return err
		}
		if !p.begun {
			p.make = madeUp(a)
		}
		p.begun, p.published, p.undoing, p.publish = true, true, false, &a
	case extendVerb:
	case withdrawVerb:
		p.undoing = true
	case removeVerb:
		p.undoing, p.made = true, false // what is left of it is not whole
	default:
		return fmt.Errorf("%w: record %d of placement %d has the action %q", journal.ErrVersion, r.Number, r.Placement, r.Action)
	}
	return nil
}

// madeUp is the making of what is only published.
func madeUp(a plan.Publish) plan.Make {
	return plan.Make{ID: a.ID, Means: a.Means, Path: a.Path, Identity: a.Identity, Site: a.Site, Lease: a.Lease, Job: a.Job, Why: a.Why}
}

func (p *past) done(r journal.Record) error {
	switch r.Action {
	case makeVerb:
		d := doneMake{}
		if err := decode(r, &d); err != nil {
			return err
		}
		p.made, p.short = true, d.Short
	case withdrawVerb:
		p.published = false
		p.over = p.over || p.make.Means == plan.Even
	case removeVerb:
		p.over = true
	}
	return nil
}

func decode(r journal.Record, into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("%w: record %d of placement %d, %s of %q: %w", journal.ErrDamaged, r.Number, r.Placement, r.Kind, r.Action, err)
	}
	return nil
}

// left is what is left of the lease by the wall clock, which may have jumped: never more than the lease was.
func (p *past) left(now time.Time) time.Duration {
	return max(min(p.until.Sub(now), p.lease), 0)
}

// held is what a new planner is told of it.
func (p *past) held(left time.Duration) plan.Held {
	return plan.Held{Make: p.make, Made: p.made || p.make.Means == plan.Even, Published: p.published, Undoing: p.undoing, Short: p.short, Left: left}
}

// fold reads a journal and returns the placements that are not over, and those that are.
func fold(j Journal) (all map[plan.ID]*past, over map[plan.ID]bool, err error) {
	all, over = make(map[plan.ID]*past), make(map[plan.ID]bool)
	err = j.Read(0, func(r journal.Record) error {
		id := plan.ID(r.Placement)
		p := all[id]
		if p == nil {
			p = &past{}
			all[id] = p
		}
		return p.add(r)
	})
	if err != nil {
		return nil, nil, err
	}
	for id, p := range all {
		if p.over || !p.begun {
			delete(all, id)
			over[id] = true
		}
	}
	return all, over, nil
}

// byID returns the numbers of placements, in their order.
func byID[V any](m map[plan.ID]V) []plan.ID {
	ids := make([]plan.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b plan.ID) int { return cmp.Compare(a, b) })
	return ids
}
