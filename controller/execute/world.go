package execute

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
)

// World finds and undoes what controllers left in the stores. It is safe for concurrent use, and each method returns soon after ctx ends.
type World interface {
	// Places are the sites at which something may be, "" for the home of the files.
	Places() []string
	// SurveyOf returns what is at one of them, and, with an error, what is known of it all the same.
	SurveyOf(ctx context.Context, site string) ([]Leaving, error)
	// Undo removes what is left of a leaving. fence is asked before each change.
	Undo(ctx context.Context, found Leaving, fence func(context.Context) error) error
	// Again undoes what a stopped process did to a raised file when it went on after everything had been undone, where nothing but the file itself tells
	// of it: it has the attribute again, or, of one that was raised (Leaving.Raised), just what the mark says that it was raised to. It tells whether that was so.
	Again(ctx context.Context, found Leaving, fence func(context.Context) error) (bool, error)
}

// Survey is what stores say is there.
type Survey struct {
	Leavings []Leaving
	// Listed are the sites of which all is known, "" for the home of the files.
	Listed map[string]bool
	// Unknown says of the others why not.
	Unknown map[string]error
}

// Leaving is something that a controller made, as its mark says.
type Leaving struct {
	// Site is where it is, "" for the home of the files.
	Site string
	Mark temporary.Mark
	// Left is what is left of its time, by the clock of the store in which it is; below 0 it is over.
	Left time.Duration
	// Shown says that readers find it: the catalogue has its row, and not another's for the same path.
	Shown bool
	// Raised says that the file had the attribute that names the mark, and said the same as the mark. Only who may write a file can give it that: a mark alone
	// says nothing about a file.
	Raised bool
	// Ours says that a controller of these files made it: this one, or one before it. Others are left alone.
	Ours bool
}

// checks are what is done now and then: is this controller still the active one, and is there what should be, and nothing else?
type checks struct {
	next time.Duration
	// asking: the lease is being asked for; busy are the sites that are being asked what is there: none waits for another.
	asking bool
	busy   map[string]bool
	// undoing are the leavings that are being undone.
	undoing map[leavingKey]bool
	// raised are files that a predecessor had raised, which may be stopped and go on later, by the placement that was undone; order is that in which they came.
	raised map[leavingKey]Leaving
	order  []leavingKey
	// over are placements of which the journal need not know any more.
	over map[plan.ID]bool
	// unsaid: the journal could not be told that some of them are over.
	unsaid bool
}

type leavingKey struct {
	site, controller string
	placement        plan.ID
}

func (l Leaving) key() leavingKey { return leavingKey{l.Site, l.Mark.Controller, l.Mark.Placement} }

func newChecks() checks {
	return checks{busy: make(map[string]bool), undoing: make(map[leavingKey]bool), raised: make(map[leavingKey]Leaving), over: make(map[plan.ID]bool)}
}

// remember keeps a file that was raised by a predecessor.
func (c *checks) remember(found Leaving) {
	const most = 1024
	key := found.key()
	before, known := c.raised[key]
	if known && !before.Raised && found.Raised {
		c.raised[key] = found
	}
	if known || found.Mark.Raised == nil {
		return
	}
	c.raised[key] = found
	c.order = append(c.order, key)
	if len(c.order) > most {
		delete(c.raised, c.order[0])
		c.order = c.order[1:]
	}
}

const (
	// surveyLimit is how long a site may take to say what is there, and firstAnswer how long all of them are waited for before anything is begun: what comes later is taken in
	// when it comes.
	surveyLimit, firstAnswer = time.Minute, 5 * time.Second
	// mostOver is how many placements are over before the journal is written anew.
	mostOver = 1024
)

// check compares the world with what should be there, when it is time.
func (l *loop) check(now time.Duration) {
	if now < l.checks.next || l.e.o.DryRun {
		return
	}
	l.checks.next = now + l.e.o.Reconcile
	before := l.there()
	l.compact()
	if !l.checks.asking {
		l.checks.asking = true
		l.spawn(func() func() {
			_ = l.e.held(l.ctx) // ends the run where it is lost
			return func() { l.checks.asking = false }
		})
	}
	for _, site := range l.places() {
		l.survey(site, func(s Survey) { l.surveyed(s, before) })
	}
}

// places are the sites at which something may be.
func (l *loop) places() []string {
	if l.e.o.World == nil || l.e.o.DryRun {
		return nil
	}
	return l.e.o.World.Places()
}

// there are the placements of now; true: what they are is in the world, and stays.
func (l *loop) there() map[plan.ID]bool {
	all := make(map[plan.ID]bool, len(l.lines))
	for id, one := range l.lines {
		all[id] = one.settled()
	}
	return all
}

// settled tells whether nothing is under way, and what there is is whole.
func (l *line) settled() bool {
	whole := l.made || l.means == plan.Even && l.published
	return whole && !l.undoing && l.active == "" && len(l.queue) == 0
}

// survey asks what is at a site, and goes on with then, unless it is being asked.
func (l *loop) survey(site string, then func(Survey)) {
	if l.checks.busy[site] {
		return
	}
	l.checks.busy[site] = true
	l.spawn(func() func() {
		ctx, cancel := context.WithTimeout(l.ctx, surveyLimit)
		defer cancel()
		s := Survey{Listed: make(map[string]bool)}
		l.e.guarded("SurveyOf", func() {
			var err error
			s.Leavings, err = l.e.o.World.SurveyOf(ctx, site)
			s.Listed[site] = err == nil
		})
		return func() {
			delete(l.checks.busy, site)
			then(s)
		}
	})
}

// surveyed undoes what should not be there at the sites that were asked, and has the planner told of what should be and is not. before is what there was when the survey began: what came or
// went since says nothing.
func (l *loop) surveyed(s Survey, before map[plan.ID]bool) {
	marked, there := make(map[plan.ID]bool), make(map[leavingKey]bool)
	for _, found := range s.Leavings {
		there[found.key()] = true
		id := found.Mark.Placement
		if found.Mark.Controller == l.e.o.Name {
			marked[id] = found.Shown || l.lines[id] == nil || !l.lines[id].published
			_, was := before[id]
			if l.lines[id] != nil || was {
				continue
			}
		} else if !found.Ours && found.Left > 0 {
			continue
		}
		l.sweep(found)
	}
	for _, id := range byID(before) {
		if one := l.lines[id]; before[id] && one != nil && one.settled() && !marked[id] && s.Listed[one.site] {
			l.e.count(func(s *Stats) { s.Lost++ })
			l.tell(plan.Damaged{ID: id, Detail: "it is not there any more"})
		}
	}
	for _, key := range l.checks.order {
		if one := l.lines[key.placement]; !there[key] && s.Listed[key.site] && (one == nil || key.controller != l.e.o.Name) {
			l.again(l.checks.raised[key])
		}
	}
	l.step(plan.Tick{})
}

// sweep undoes a leaving.
func (l *loop) sweep(found Leaving) {
	l.checks.remember(found)
	l.undo(found, func(ctx context.Context) (bool, error) { return true, l.e.o.World.Undo(ctx, found, l.e.held) })
}

// again looks whether a file was raised once more by a process that was stopped when its placement was undone.
func (l *loop) again(found Leaving) {
	l.undo(found, func(ctx context.Context) (bool, error) { return l.e.o.World.Again(ctx, found, l.e.held) })
}

func (l *loop) undo(found Leaving, f func(ctx context.Context) (bool, error)) {
	key := found.key()
	if l.checks.undoing[key] {
		return
	}
	l.checks.undoing[key] = true
	l.background("sweep "+found.Site, func(ctx context.Context) func() {
		something, err := false, l.e.held(ctx)
		if err == nil {
			err = errPanicked
			l.e.guarded("Undo", func() { something, err = f(ctx) })
		}
		return func() {
			delete(l.checks.undoing, key)
			if something || err != nil {
				l.swept(found, err)
			}
		}
	})
}

var errPanicked = errors.New("the call panicked")

// swept says what came of it. What could not be undone is found again.
func (l *loop) swept(found Leaving, err error) {
	m := found.Mark
	why := "placement " + strconv.FormatUint(uint64(m.Placement), 10) + " of controller " + m.Controller + " should not be there"
	e := audit.Entry{Who: self, What: "sweep", Placement: m.Placement, Means: m.Means, Path: m.Path, Site: found.Site, Job: m.Job, Why: why}
	if err != nil {
		e.Err = err.Error()
		l.e.o.Log.Warn("a leaving could not be undone", zap.String("why", why), zap.String("path", m.Path), zap.String("site", found.Site), zap.Error(err))
	} else {
		l.e.count(func(s *Stats) { s.Strays++ })
	}
	l.write(e)
}

// compact drops what is over from the journal, when it is much, or the journal does not know.
func (l *loop) compact() {
	if len(l.checks.over) < mostOver && !l.checks.unsaid {
		return
	}
	over, unsaid := l.checks.over, l.checks.unsaid
	l.checks.over, l.checks.unsaid = make(map[plan.ID]bool), false
	l.background(compacting, func(context.Context) func() {
		err := l.e.o.Journal.Compact(func(placement uint64) bool { return over[plan.ID(placement)] })
		return func() {
			if err == nil {
				return
			}
			l.e.o.Log.Error("the journal cannot be compacted", zap.Error(err))
			l.checks.unsaid = l.checks.unsaid || unsaid
			for id := range over {
				l.checks.over[id] = true
			}
		}
	})
}
