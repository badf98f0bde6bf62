package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// Announce implements hints.Handler.
func (a *Agent) Announce(ctx context.Context, h hints.Hint, c auth.Claims) (r hints.Reply, err error) {
	defer a.recovered("agent.announce", &err)
	markHandled(ctx)
	r, handle := a.inbox.Admit(h)
	if handle {
		r, err = a.announce(ctx, h, c)
	}
	if err != nil {
		return r, err
	}
	result := accepted
	if !r.Accepted {
		result = string(r.Reason)
		a.refused("hint", string(r.Reason), r.Detail, h.Job, h.Run, c)
	}
	a.metrics.hints.WithLabelValues(hintKind(h), result).Inc()
	return r, nil
}

func hintKind(h hints.Hint) string {
	switch {
	case h.Schedule != nil:
		return "schedule"
	case h.Progress != nil:
		return "progress"
	case h.Close != nil:
		return "close"
	}
	return "other"
}

func (a *Agent) announce(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	switch {
	case h.Schedule != nil:
		return a.schedule(ctx, h, c)
	case h.Progress != nil:
		return a.tell(ctx, envelope{hint: &h, ev: progressEvent{job: h.Job, run: h.Run, step: h.Progress.Step}})
	case h.Close != nil:
		return a.tell(ctx, envelope{hint: &h, ev: closeEvent{job: h.Job, run: h.Run}})
	}
	return hints.Refuse(hints.ReasonUnsupported, "this agent acts on schedule, progress and close only"), nil
}

// schedule opens the dataset that a schedule names, under the agent's own rights, only below the token's
// roots and only if its user may read it, and hands the schedule to the planner.
func (a *Agent) schedule(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	s := h.Schedule
	dir, err := a.o.Resolve(s.DatasetURL)
	if err != nil {
		return hints.Refuse(hints.ReasonDenied, "the dataset is not in this agent's store: "+err.Error()), nil
	}
	if err := c.Allows(auth.RightHint, dir); err != nil {
		return hints.Refuse(hints.ReasonDenied, err.Error()), nil
	}
	if err := a.rights.mayRead(ctx, c.User, path.Join(dir, binfmt.ManifestName)); err != nil {
		reason := hints.ReasonUnavailable // asked again later
		if errors.Is(err, fs.ErrPermission) {
			reason = hints.ReasonDenied
		}
		return hints.Refuse(reason, err.Error()), nil
	}
	golden, err := a.golden.get(ctx, a.o.Pool)
	if err != nil {
		return hints.Refuse(hints.ReasonUnavailable, "the workers do not start: "+err.Error()), nil
	}
	datasets, err := a.tasks.openAll(ctx, lake{a.o.Store, a.o.CacheDir, a.now}, []datasetKey{{dir, s.Dataset}})
	if err != nil {
		return refusal(err), nil
	}
	for _, d := range datasets {
		if err := d.allowed(c, auth.RightHint); err != nil {
			return hints.Refuse(hints.ReasonDenied, errors.Join(err, a.tasks.releaseAll(datasets)).Error()), nil
		}
	}
	t, err := newTask(h, newUnion([]string{""}, datasets), a.o.Node, golden)
	if err != nil {
		return refusal(errors.Join(err, a.tasks.releaseAll(datasets))), nil
	}
	t.user = c.User
	r, err := a.tell(ctx, envelope{hint: &h, task: t, ev: scheduleEvent{
		job: h.Job, run: h.Run, generation: s.Generation, first: s.FirstStep, stepTime: s.StepTime,
		confidence: h.Confidence, ttl: min(a.o.TTL, h.TTL),
	}})
	if r.Accepted {
		r.Detail = strings.TrimSpace(r.Detail + " " + t.rawOnly())
	}
	return r, err
}

// rawOnly says which fields, or which of their samples, are not prepared.
func (t *task) rawOnly() string {
	var b strings.Builder
	for _, f := range t.fields {
		if f.refused != "" {
			fmt.Fprintf(&b, "field %q is raw only: %q of its operators differ from this agent's;", f.name, f.differing)
		} else if len(f.differing) > 0 {
			fmt.Fprintf(&b, "samples of field %q that need %q are raw only: it differs from this agent's;", f.name, f.differing)
		}
	}
	return b.String()
}

// refusal is the reply to a schedule that cannot be worked with.
func refusal(err error) hints.Reply {
	switch {
	case errors.Is(err, errPlan):
		return hints.Refuse(hints.ReasonUnknownPlan, err.Error())
	case errors.Is(missing(err), errIdentity):
		return hints.Refuse(hints.ReasonIdentity, err.Error())
	}
	return hints.Refuse(hints.ReasonUnavailable, err.Error())
}

// tell hands a hint to the loop and waits for its verdict. The loop takes the envelope's task over.
func (a *Agent) tell(ctx context.Context, env envelope) (hints.Reply, error) {
	reply := make(chan hints.Reply, 1)
	env.reply = reply
	a.mail.put(env)
	select {
	case r := <-reply:
		return r, nil
	case <-ctx.Done():
		return hints.Reply{}, ctx.Err()
	case <-a.ended:
		return hints.Refuse(hints.ReasonUnavailable, "the agent is stopping"), nil
	}
}
