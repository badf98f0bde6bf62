package execute

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// mostFound is above the numbers that a controller can have given: a mark with a larger one is not its own, and must not use up the rest of them.
const mostFound = 1 << 62

// recover makes the planner, and tells it what a predecessor left.
func (l *loop) recover(ctx context.Context) error {
	e := l.e
	o := e.o.Plan
	all := make(map[plan.ID]*past)
	if !e.o.DryRun {
		if err := e.held(ctx); errors.Is(err, store.ErrNotHeld) { // as long as it is not known, nothing is changed
			return fmt.Errorf("execute.Run: the lease of the active controller: %w", err)
		}
	}
	if e.o.Journal != nil {
		last, err := e.o.Journal.LastPlacement()
		if err == nil {
			all, l.checks.over, err = fold(e.o.Journal)
		}
		if err != nil {
			return fmt.Errorf("execute.Run: %w", err)
		}
		o.NextID = plan.ID(last) + 1
	}
	var before map[plan.ID]bool
	survey := l.firstSurvey(ctx, &before)
	for _, found := range survey.Leavings {
		if found.Mark.Controller == e.o.Name && found.Mark.Placement < mostFound {
			o.NextID = max(o.NextID, found.Mark.Placement+1)
		}
	}
	l.p = plan.New(o)
	for _, ev := range e.o.Settings {
		l.step(ev)
	}
	held := l.adopt(all, survey)
	before = l.there()
	l.step(plan.Recovered{Held: held})
	l.surveyed(survey, nil)
	l.checks.next = e.o.Clock.Now() + e.o.Reconcile
	return nil
}

// firstSurvey asks what there is, and returns what is known soon. Of a site that answers later what was there before says what should be.
func (l *loop) firstSurvey(ctx context.Context, before *map[plan.ID]bool) Survey {
	places := l.places()
	answers := make(map[string]Survey, len(places))
	waiting := true
	for _, site := range places {
		l.survey(site, func(s Survey) {
			if waiting {
				answers[site] = s
				return
			}
			for _, found := range s.Leavings {
				if found.Mark.Controller == l.e.o.Name {
					l.checks.remember(found)
				}
			}
			l.surveyed(s, *before)
		})
	}
	late := l.e.o.Clock.After(firstAnswer)
	for waiting = len(places) > 0; waiting && len(answers) < len(places); {
		select {
		case then := <-l.done:
			l.workers--
			then()
		case <-late:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	waiting = false
	all := Survey{Listed: make(map[string]bool)}
	for _, site := range places {
		s, answered := answers[site]
		if !answered {
			l.e.o.Log.Warn("what is at a site is not known yet: it does not answer", zap.String("site", site))
		}
		all.Leavings, all.Listed[site] = append(all.Leavings, s.Leavings...), s.Listed[site]
	}
	return all
}

// adopt takes over the placements that the journal says are there. Where the world says otherwise, the world is right.
func (l *loop) adopt(all map[plan.ID]*past, s Survey) []plan.Held {
	e, now := l.e, l.e.o.Clock.Now()
	marks := make(map[plan.ID]Leaving)
	for _, found := range s.Leavings {
		if found.Mark.Controller == e.o.Name {
			l.checks.remember(found)
			marks[found.Mark.Placement] = found
		}
	}
	var held []plan.Held
	for _, id := range byID(all) {
		p := all[id]
		left := p.left(e.o.Clock.Wall())
		if mark, ok := marks[id]; ok {
			left = min(max(mark.Left, 0), max(p.lease, left)) // the clock of the store did not jump when this one did
		} else if s.Listed[p.make.Site] {
			p.undoing, p.made = true, false // there is nothing, or nothing that says whose it is: what there may be is undone
		}
		one := &line{past: *p, id: id, means: p.make.Means, site: p.make.Site, rate: newRate()}
		one.until, one.given, one.givenAt = now+left, now+left, now
		l.lines[id] = one
		held = append(held, p.held(left))
	}
	return held
}
