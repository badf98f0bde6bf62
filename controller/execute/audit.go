package execute

import (
	"cmp"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/plan"
)

// self is who does what nobody told the controller to.
const self = "controller"

// did are the words for what was done.
var did = map[string]string{makeVerb: "made", publishVerb: "published", extendVerb: "extended", withdrawVerb: "withdrawn", removeVerb: "removed"}

// wordFor is what a result is called.
func wordFor(r result) string {
	if r.err != nil {
		return r.verb
	}
	return did[r.verb]
}

// audit writes a line about an action that begins, was done or failed.
func (l *loop) audit(one *line, what, why string, err error, done doneMake) {
	m := one.make.Less(one.short)
	if one.short > 0 && what == did[makeVerb] {
		why = fmt.Sprintf("%d of %d extra sources, the cluster has no place for more: %s", m.Extra, one.make.Extra, why)
	}
	e := audit.Entry{
		Who: self, What: what, Placement: one.id, Means: one.means, Path: m.Path, Site: one.site, Job: m.Job, Bytes: m.Bytes,
		Until: l.e.o.Clock.Wall().Add(one.until - l.e.o.Clock.Now()), Why: why, Took: done.Took, Reused: done.Reused,
	}
	if err != nil {
		e.Err = err.Error()
		l.e.o.Log.Warn("an action failed", zap.Uint64("placement", uint64(one.id)), zap.String("action", what), zap.String("path", m.Path), zap.Error(err))
	}
	l.write(e)
}

func (l *loop) write(e audit.Entry) {
	e.At = l.e.o.Clock.Wall()
	l.e.o.Audit(e)
}

// auditEvent writes what an operator has the planner told.
func (l *loop) auditEvent(who string, ev plan.Event) {
	e := audit.Entry{Who: who}
	switch ev := ev.(type) {
	case plan.Revoke:
		e.What, e.Placement, e.Path, e.Job, e.Why = "revoke", ev.ID, ev.Path, ev.Job, ev.Why
	case plan.Drain:
		e.What = "drain"
		if !ev.On {
			e.What = "undrain"
		}
	case plan.BudgetsChanged:
		e.What = "budgets"
	case plan.PricesChanged:
		e.What = "prices"
	case plan.PolicyChanged:
		e.What = "policy"
	case plan.Damaged:
		e.What, e.Placement, e.Why = "damaged", ev.ID, ev.Detail
	default:
		return
	}
	l.write(e)
}

const (
	refusedEvery = time.Minute
	mostRefused  = 1 << 14
)

// refusals keeps the same refusal from being written again and again.
type refusals map[refusal]time.Duration

type refusal struct {
	path, site, job string
	reason          plan.Reason
}

func newRefusals() refusals { return make(refusals) }

// news tells whether a refusal was not written lately.
func (r refusals) news(a plan.Refuse, now time.Duration) bool {
	key := refusal{a.Path, a.Site, a.Job, a.Reason}
	if at, ok := r[key]; ok && now < at+refusedEvery {
		return false
	}
	if len(r) >= mostRefused {
		clear(r)
	}
	r[key] = now
	return true
}

func (l *loop) refuse(a plan.Refuse) {
	l.e.count(func(s *Stats) { s.Refused[a.Reason]++ })
	if !l.refused.news(a, l.e.o.Clock.Now()) {
		return
	}
	l.e.o.Log.Info("refused", zap.String("path", a.Path), zap.String("site", a.Site), zap.String("job", a.Job), zap.String("reason", string(a.Reason)), zap.String("detail", a.Detail))
	l.write(audit.Entry{Who: self, What: "refuse", Path: a.Path, Site: a.Site, Job: a.Job, Why: cmp.Or(string(a.Reason)+": "+a.Detail, string(a.Reason))})
}

// pretend says what would be done, and tells the planner that it was; false for what only reads or reports.
func (l *loop) pretend(a plan.Action) bool {
	e := audit.Entry{Who: self}
	switch a := a.(type) {
	case plan.Make:
		e = audit.Entry{Who: self, What: makeVerb, Placement: a.ID, Means: a.Means, Path: a.Path, Site: a.Site, Job: a.Job, Bytes: a.Bytes, Until: l.end(a.Lease), Why: a.Why}
	case plan.Publish:
		e = audit.Entry{Who: self, What: publishVerb, Placement: a.ID, Means: a.Means, Path: a.Path, Site: a.Site, Job: a.Job, Until: l.end(a.Lease), Why: a.Why}
	case plan.Extend:
		e = audit.Entry{Who: self, What: extendVerb, Placement: a.ID, Until: l.end(a.Lease), Why: a.Why}
	case plan.Withdraw:
		e = audit.Entry{Who: self, What: withdrawVerb, Placement: a.ID, Why: a.Why}
	case plan.Remove:
		e = audit.Entry{Who: self, What: removeVerb, Placement: a.ID, Why: a.Why}
	case plan.Pace:
		return true
	default:
		return false
	}
	if e.What != extendVerb {
		l.tell(plan.Done{ID: e.Placement, Action: e.What})
	}
	e.What = "would " + e.What
	l.write(e)
	return true
}

// end is the end of a lease by the wall clock.
func (l *loop) end(lease time.Duration) time.Time { return l.e.o.Clock.Wall().Add(lease) }
