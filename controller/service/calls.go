package service

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/control"
	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/internal/auth"
)

// mostListed bounds a list where the caller says nothing, and hardMost where he does.
const (
	mostListed = 1000
	hardMost   = 100_000
	// mostMaking bounds what Status tells of makings.
	mostMaking = 100
)

// Status implements the generated service. A standby answers too.
func (s *Service) Status(ctx context.Context, _ *controllerpb.StatusRequest) (*controllerpb.StatusReply, error) {
	c, err := s.from(ctx)
	if err != nil {
		return nil, err
	}
	st := control.Status{Version: s.o.Version, State: "standby", Up: time.Since(s.began)}
	a := s.now()
	if a == nil {
		return st.Encode(), nil
	}
	st.State, st.Controller = "active", a.Name
	if a.DryRun {
		st.State = "dry-run"
	}
	err = a.Engine.Ask(ctx, func(p *plan.Planner, _ time.Duration) {
		st.Drained, st.Making = p.Drained(), p.Making(mostMaking, c.sees)
		if !c.whole() {
			st.Begun, st.Waiting = countOf(p, c)
			return
		}
		st.Begun, st.Waiting = p.Counts()
		u, y, k := p.Usage(), p.Tally(), p.Cluster()
		st.Usage, st.Tally, st.Cluster = &u, &y, &k
	})
	if err != nil {
		return nil, err
	}
	a.far(st.Making)
	s.trouble(ctx, a, c, &st)
	return st.Encode(), nil
}

// countOf counts what a caller sees.
func countOf(p *plan.Planner, c caller) (begun []plan.Count, waiting int) {
	list, all := p.Ranking(hardMost, c.sees)
	for _, x := range list {
		if !x.Begun() {
			waiting++
			continue
		}
		i := 0
		for i < len(begun) && (begun[i].Means != x.Means || begun[i].State != x.State) {
			i++
		}
		if i == len(begun) {
			begun = append(begun, plan.Count{Means: x.Means, State: x.State})
		}
		begun[i].N++
		begun[i].Bytes += x.Bytes
	}
	return begun, waiting + all - len(list)
}

// trouble says what is not as it should be, to those who see all.
func (s *Service) trouble(ctx context.Context, a *Active, c caller, st *control.Status) {
	if a.Held != nil {
		if err := a.Held(ctx); err != nil {
			st.LeaseProblem = err.Error()
		}
	}
	if !c.whole() {
		return
	}
	if a.Problems != nil {
		st.Problems = a.Problems()
	}
	if a.Audit == nil {
		return
	}
	if h := a.Audit.Health(); h.Failing || h.Lost > 0 {
		st.Problems = append(st.Problems, fmt.Sprintf("audit log: %d lines wait for the disk, %d were lost", h.Waiting, h.Lost))
	}
}

// Ranking implements the generated service.
func (s *Service) Ranking(ctx context.Context, m *controllerpb.RankingRequest) (*controllerpb.RankingReply, error) {
	c, a, err := s.called(ctx)
	if err != nil {
		return nil, err
	}
	most := mostListed
	if m.Most != 0 {
		most = int(min(max(m.Most, 1), hardMost))
	}
	var r control.Ranking
	err = a.Engine.Ask(ctx, func(p *plan.Planner, _ time.Duration) {
		r.Placements, r.All = p.Ranking(most, c.sees)
		r.Refused, r.RefusedAll = p.Refused(most, c.sees)
		if c.whole() {
			u := p.Usage()
			r.Usage = &u
		}
	})
	if err != nil {
		return nil, err
	}
	a.far(r.Placements)
	return r.Encode(), nil
}

// Why implements the generated service.
func (s *Service) Why(ctx context.Context, m *controllerpb.WhyRequest) (*controllerpb.WhyReply, error) {
	c, a, err := s.called(ctx)
	if err != nil {
		return nil, err
	}
	if m.Path, err = a.named(m.Path); err != nil {
		return nil, err
	}
	w := control.Why{Path: m.Path}
	if err := oneOf(m.Id != 0, m.Path != ""); err != nil {
		return nil, err
	}
	if m.Path != "" {
		if err := c.checkPath(m.Path); err != nil {
			return nil, err
		}
	}
	err = a.Engine.Ask(ctx, func(p *plan.Planner, _ time.Duration) {
		if m.Id != 0 {
			st, there := p.Find(plan.ID(m.Id))
			if !there || !c.sees(st.Path, st.Job) {
				return
			}
			w.Path = st.Path
		}
		var list []plan.Standing
		list, w.Known = p.Why(w.Path)
		others := false
		for _, st := range list {
			if c.sees(st.Path, st.Job) {
				w.Standings = append(w.Standings, st)
			} else {
				others = true
			}
		}
		w.Policy = c.explain(p, w.Path)
		if others || !c.everybodys() && !c.isAll(p.Speakers(w.Path)) { // what is known speaks of other jobs
			w.Known = ""
		}
	})
	switch {
	case err != nil:
		return nil, err
	case m.Id != 0 && len(w.Standings) == 0:
		return nil, noPlacement(m.Id)
	}
	a.far(w.Standings)
	a.readiness(ctx, &w)
	return w.Encode(), nil
}

// readyTime bounds how long the store is asked where a file lies.
const readyTime = 5 * time.Second

// readiness adds which nodes serve a hot file, if something has begun for it.
func (a *Active) readiness(ctx context.Context, w *control.Why) {
	i := slices.IndexFunc(w.Standings, func(s plan.Standing) bool { return s.Means != plan.Copy && s.Begun() })
	if i < 0 || a.Ready == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	racks, err := a.Ready(ctx, w.Path, w.Standings[i].ID)
	if err != nil {
		w.ReadyProblem = err.Error()
		return
	}
	w.Ready = make(map[string]int64, len(racks))
	for rack, n := range racks {
		w.Ready[rack] = int64(n)
	}
}

// noPlacement is said of a number, whether it is nobody's or that of a placement that the caller may not see.
func noPlacement(id uint64) error {
	return fmt.Errorf("%w: there is no placement %d: it is gone, or not yours to see: `stepahead ctl audit` says what became of it", errNotFound, id)
}

// oneOf holds a request to naming exactly one thing.
func oneOf(given ...bool) error {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%w: %d of id, path and all are given: give one", errInvalid, n)
	}
	return nil
}

// checkPath refuses a path that the caller has no say of, or that is none.
func (c caller) checkPath(name string) error {
	if !strings.HasPrefix(name, "/") || path.Clean(name) != name {
		return fmt.Errorf("%w: %.128q is not an absolute, clean path in the home store", errInvalid, name)
	}
	return c.claims.Covers(name)
}

// Revoke implements the generated service.
func (s *Service) Revoke(ctx context.Context, m *controllerpb.RevokeRequest) (*controllerpb.RevokeReply, error) {
	c, a, err := s.called(ctx)
	if err != nil {
		return nil, err
	}
	if m.Path, err = a.named(m.Path); err != nil {
		return nil, err
	}
	if err := oneOf(m.Id != 0, m.Path != "", m.All); err != nil {
		return nil, err
	}
	if len(m.Why) > mostWhy {
		return nil, fmt.Errorf("%w: a reason of %d bytes: give at most %d", errInvalid, len(m.Why), mostWhy)
	}
	if !m.DryRun {
		if err := s.limits.revokes(c); err != nil {
			return nil, err
		}
	}
	found, err := c.toRevoke(ctx, a.Engine, m)
	if err != nil {
		return nil, err
	}
	if !m.DryRun {
		if err := a.revoke(ctx, c, plan.Revoke{ID: plan.ID(m.Id), Path: m.Path, Why: m.Why}, found); err != nil {
			return nil, err
		}
	}
	return &controllerpb.RevokeReply{Standings: control.EncodeStandings(found)}, nil
}

// revoke takes back what was found, and remembers that. What cannot be remembered is done all the same: on a disk that is full, too, everything can be taken back.
func (a *Active) revoke(ctx context.Context, c caller, r plan.Revoke, found []plan.Standing) error {
	err := a.Engine.Tell(ctx, c.String(), c.bound(r))
	if err == nil && a.Revoked != nil {
		err = forgotten(a.Revoked(found))
	}
	return err
}

// forgotten says what an error of remembering means for what was done.
func forgotten(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errForgotten, err)
}

// toRevoke returns what a revocation takes back, all of which the caller may take back.
func (c caller) toRevoke(ctx context.Context, e Engine, m *controllerpb.RevokeRequest) (found []plan.Standing, err error) {
	if m.Path != "" {
		if err := c.checkPath(m.Path); err != nil {
			return nil, err
		}
	}
	if m.All {
		if err := c.may(c.claims.Roots[0], c.claims.Job); err != nil {
			return nil, err
		}
	}
	var denied error
	asked := e.Ask(ctx, func(p *plan.Planner, _ time.Duration) {
		var list []plan.Standing
		switch {
		case m.All:
			list, _ = p.Ranking(hardMost, c.sees)
		case m.Path != "":
			list, _ = p.Why(m.Path)
		default:
			if st, ok := p.Find(plan.ID(m.Id)); ok {
				list = append(list, st)
			}
		}
		for _, st := range list {
			if !c.sees(st.Path, st.Job) {
				continue
			}
			if err := c.may(st.Path, st.Job); err != nil {
				denied = err
				continue
			}
			found = append(found, st)
		}
	})
	switch {
	case asked != nil:
		return nil, asked
	case len(found) == 0 && denied != nil:
		return nil, denied
	case len(found) == 0 && m.Id != 0:
		return nil, noPlacement(m.Id)
	case len(found) == 0 && m.Path != "":
		return nil, fmt.Errorf("%w: nothing is wanted of %s: see `stepahead ctl why %s`", errNotFound, m.Path, m.Path)
	}
	return found, nil
}

// Drain implements the generated service.
func (s *Service) Drain(ctx context.Context, m *controllerpb.DrainRequest) (*controllerpb.DrainReply, error) {
	c, a, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	reply := &controllerpb.DrainReply{}
	if err := a.Engine.Ask(ctx, func(p *plan.Planner, _ time.Duration) { reply.Was = p.Drained() }); err != nil {
		return nil, err
	}
	if m.DryRun || reply.Was == !m.Off {
		return reply, nil
	}
	if m.Off && a.Drained != nil { // else it would be drained again after a restart
		if err := a.Drained(false); err != nil {
			return nil, fmt.Errorf("it was not done, since it is remembered that nothing new is to begin: %w", err)
		}
	}
	err = a.Engine.Tell(ctx, c.String(), plan.Drain{On: !m.Off})
	if err == nil && !m.Off && a.Drained != nil {
		err = forgotten(a.Drained(true))
	}
	return reply, err
}

// operator returns a caller who may change what the controller does.
func (s *Service) operator(ctx context.Context) (caller, *Active, error) {
	c, err := s.from(ctx)
	if err != nil {
		return c, nil, err
	}
	if err := c.mayOperate(); err != nil {
		return c, nil, err
	}
	a, err := s.acting()
	return c, a, err
}

// Sweep implements the generated service. The controller's own placements are revoked, which it undoes by itself.
func (s *Service) Sweep(ctx context.Context, m *controllerpb.SweepRequest) (*controllerpb.SweepReply, error) {
	c, a, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	if a.Sweep == nil {
		return nil, errors.New("a dry run sweeps nothing: ask the active controller, or stop it and give stepahead ctl sweep --store")
	}
	var own []plan.Standing
	var later error // of what was done
	if m.All {
		err := a.Engine.Ask(ctx, func(p *plan.Planner, _ time.Duration) { own, _ = p.Ranking(hardMost, nil) })
		if err == nil && !m.DryRun {
			err = a.revoke(ctx, c, plan.Revoke{Why: "sweep --all"}, own)
		}
		if errors.Is(err, errForgotten) {
			later, err = err, nil
		}
		if err != nil {
			return nil, err
		}
	}
	r := a.Sweep(ctx, m.All, m.DryRun)
	r.Revoked = own
	for _, w := range r.Swept {
		if !m.DryRun {
			s.Record(audit.Entry{At: time.Now(), Who: c.String(), What: "sweep", Means: w.Means, Path: w.Path, Site: w.Site, Why: "left behind: " + w.Mark, Err: w.Problem})
		}
	}
	if later != nil {
		return nil, later
	}
	return r.Encode(), nil
}

// Audit implements the generated service.
func (s *Service) Audit(m *controllerpb.AuditRequest, stream controllerpb.Control_AuditServer) error {
	ctx := stream.Context()
	c, a, err := s.called(ctx)
	if err != nil {
		return err
	}
	if a.Audit == nil {
		return fmt.Errorf("%w: this controller keeps no audit log: it has no --audit FILE", errNotFound)
	}
	if m.Path, err = a.named(m.Path); err != nil {
		return err
	}
	if m.Path != "" {
		if err := c.checkPath(m.Path); err != nil {
			return err
		}
	}
	leave, err := s.limits.reads(c)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.valid(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	after, since := m.After, time.UnixMilli(m.SinceMs)
	for {
		err := a.Audit.Read(after, since, func(l audit.Line) error {
			if err := stream.Context().Err(); err != nil { // nobody waits for the rest of up to half a gigabyte
				return err
			}
			after = l.Number
			if !c.hears(l) || m.Job != "" && l.Job != m.Job || m.Path != "" && !below(l.Path, m.Path) {
				return nil
			}
			return stream.Send(control.EncodeLine(l))
		})
		if err != nil || !m.Follow {
			return err
		}
		err = a.Audit.Wait(ctx, after)
		switch {
		case err == nil:
		case stream.Context().Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
			return auth.ErrExpired
		default: // the controller ends
			return nil
		}
	}
}

// hears tells whether a line of the audit log is for the caller. Whoever sees all hears of what has a path of another store, too.
func (c caller) hears(l audit.Line) bool {
	switch {
	case c.whole():
		return true
	case l.Path == "":
		return l.Job != "" && l.Job == c.claims.Job
	}
	return c.sees(l.Path, l.Job)
}

// below tells whether a path is root or lies below it.
func below(name, root string) bool {
	return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}
