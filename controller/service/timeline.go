package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/policy"
	"github.com/stepahead-io/stepahead/controller/timeline"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// Timeline implements the generated service. Whoever sees one job only sees of others' checkpoints the evaluations that are its own, and not whose they are.
func (s *Service) Timeline(ctx context.Context, m *controllerpb.TimelineRequest) (*controllerpb.TimelineReply, error) {
	c, a, err := s.called(ctx)
	if err != nil {
		return nil, err
	}
	if a.Timeline == nil {
		return nil, fmt.Errorf("%w: this controller keeps no timelines", errNotFound)
	}
	if m.Path, err = a.named(m.Path); err != nil {
		return nil, err
	}
	if (m.Path == "") == (m.Job == "") {
		return nil, fmt.Errorf("%w: give a path or a job", errInvalid)
	}
	var all []timeline.Timeline
	switch {
	case m.Path != "":
		if err := c.checkPath(m.Path); err != nil {
			return nil, err
		}
		all = a.Timeline.Of(m.Path)
	case !c.everybodys() && m.Job != c.claims.Job:
		return nil, fmt.Errorf("%w: the token is of %q: %s or %s is needed", auth.ErrJob, c.claims.Job, auth.RightView, auth.RightOperate)
	default:
		all = a.Timeline.OfJob(m.Job)
	}
	t := control.Timelines{Timelines: c.timelines(all)}
	if err := a.Engine.Ask(ctx, func(_ *plan.Planner, now time.Duration) { t.Now, t.Wall = now, time.Now() }); err != nil {
		return nil, err
	}
	return t.Encode()
}

// timelines are what a caller sees of some.
func (c caller) timelines(all []timeline.Timeline) []timeline.Timeline {
	var seen []timeline.Timeline
	for _, t := range all {
		if c.claims.Covers(t.Path) != nil {
			continue
		}
		if !c.sees(t.Path, t.Job) {
			t.Evaluations = slices.DeleteFunc(t.Evaluations, func(e timeline.Evaluation) bool { return e.Job != c.claims.Job })
			if len(t.Evaluations) == 0 {
				continue
			}
			t.Job = ""
		}
		seen = append(seen, t)
	}
	return seen
}

// explain says which rules decide on what is wanted of a path, as far as the caller sees it.
func (c caller) explain(p *plan.Planner, path string) (texts []string) {
	in, copies, spread := p.Asked(path)
	rules, ok := in.(*policy.Rules)
	if !ok {
		return nil
	}
	for _, q := range copies {
		if c.sees(q.Path, q.Job) {
			texts = append(texts, "copy to "+q.Site+"\n"+rules.ExplainCopy(q).String())
		}
	}
	for _, q := range spread {
		if c.sees(q.Path, q.Job) {
			texts = append(texts, "more sources\n"+rules.ExplainSpread(q).String())
		}
	}
	return texts
}
