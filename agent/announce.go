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
	"github.com/stepahead-io/stepahead/sampler"
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
	case h.Window != nil:
		return "window"
	case h.Start != nil:
		return "start"
	case h.Checkpoint != nil:
		return "checkpoint"
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
		return a.closed(ctx, h, c)
	case h.Window != nil:
		return a.window(ctx, h)
	case h.Start != nil, h.Checkpoint != nil:
		return a.relayed(ctx, h, c)
	}
	return hints.Refuse(hints.ReasonUnsupported, "this agent does not know the kind"), nil
}

// window hands the planner more steps of a job whose order is told window by window.
func (a *Agent) window(ctx context.Context, h hints.Hint) (hints.Reply, error) {
	t := a.tasks.of(h.Job, h.Run)
	if t == nil {
		return hints.Refuse(hints.ReasonUnknownJob, ""), nil
	}
	if t.announced != nil {
		if err := t.announced.check(h.Window); err != nil {
			return refusal(err), nil
		}
	}
	return a.tell(ctx, envelope{hint: &h, window: h.Window, ev: windowEvent{
		job: h.Job, run: h.Run, stretch: stretchOf(h.Window),
	}})
}

// schedule opens the datasets that a schedule names, under the agent's own rights, only below the token's
// roots and only if its user may read them, and hands the schedule to the planner.
func (a *Agent) schedule(ctx context.Context, h hints.Hint, c auth.Claims) (hints.Reply, error) {
	s := h.Schedule
	var names []string
	var keys []datasetKey
	for _, m := range s.Datasets() {
		dir, refused := a.mayOpen(ctx, m, c)
		if refused != nil {
			return *refused, nil
		}
		names, keys = append(names, m.Name), append(keys, datasetKey{dir, m.Dataset})
	}
	golden, err := a.golden.get(ctx, a.o.Pool)
	if err != nil {
		return hints.Refuse(hints.ReasonUnavailable, "the workers do not start: "+err.Error()), nil
	}
	datasets, err := a.tasks.openAll(ctx, lake{a.o.Store, a.o.CacheDir, a.now}, keys)
	if err != nil {
		return refusal(err), nil
	}
	for _, d := range datasets {
		if err := d.allowed(c, auth.RightHint); err != nil {
			return hints.Refuse(hints.ReasonDenied, errors.Join(err, a.tasks.releaseAll(datasets)).Error()), nil
		}
	}
	t, err := newTask(h, newUnion(names, datasets), a.o.Node, golden)
	if err != nil {
		return refusal(errors.Join(err, a.tasks.releaseAll(datasets))), nil
	}
	t.user = c.User
	r, err := a.tell(ctx, envelope{hint: &h, task: t, ev: scheduleEvent{
		job: h.Job, run: h.Run, generation: s.Generation, first: s.FirstStep, known: stretchOf(s.Window), stepTime: s.StepTime,
		confidence: h.Confidence, ttl: min(a.o.TTL, h.TTL),
	}})
	if r.Accepted {
		r.Detail = strings.TrimSpace(r.Detail + " " + t.rawOnly())
	}
	return r, err
}

// mayOpen returns the folder of a dataset that the sender may have opened for him, or the refusal.
func (a *Agent) mayOpen(ctx context.Context, m hints.Member, c auth.Claims) (dir string, refused *hints.Reply) {
	refuse := func(reason hints.Reason, detail string) (string, *hints.Reply) {
		r := hints.Refuse(reason, detail)
		return "", &r
	}
	dir, err := a.o.Resolve(m.DatasetURL)
	if err != nil {
		return refuse(hints.ReasonDenied, "the dataset is not in this agent's store: "+err.Error())
	}
	if err := c.Allows(auth.RightHint, dir); err != nil {
		return refuse(hints.ReasonDenied, err.Error())
	}
	err = a.rights.mayRead(ctx, c.User, path.Join(dir, binfmt.ManifestName))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return refuse(hints.ReasonDenied, err.Error())
	case err != nil:
		return refuse(hints.ReasonUnavailable, err.Error()) // asked again later
	}
	return dir, nil
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
	case errors.Is(err, sampler.ErrVersion):
		return hints.Refuse(hints.ReasonVersion, err.Error())
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
