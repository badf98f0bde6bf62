package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// checkpoint is what was said of a path, and its copies.
type checkpoint struct {
	marker
	path        string
	life        register // saving, committed, deleted
	spike       register
	evaluations []*evaluation // by name
	slots       []*slot       // by site
	known       bool
	asked       bool
	askedFor    string
	askAgain    time.Duration
	facts       Checkpoint
	missed      []string // sites at which a predicted evaluation did not come
	jobs        []*job   // whose runs have said something
}

// evaluation is one evaluation of a checkpoint.
type evaluation struct {
	name  string
	said  register
	noted bool // in the job's history
	read  bool // how long that took is in the job's history
}

func (c *checkpoint) name() string { return c.path }

func (c *checkpoint) account(p *Planner) string {
	if life := c.life.last(p); life != nil {
		return life.job
	}
	for _, e := range c.evaluations {
		if s := e.said.last(p); s != nil {
			return s.job
		}
	}
	return ""
}

func (c *checkpoint) doubt() { c.known, c.asked = false, false }

func (p *Planner) checkpoint(path string) *checkpoint {
	c := p.copies[path]
	if c == nil {
		c = &checkpoint{path: path}
		p.copies[path] = c
	}
	return c
}

func (c *checkpoint) evaluation(name string) *evaluation {
	i, found := slices.BinarySearchFunc(c.evaluations, name, func(e *evaluation, name string) int { return cmp.Compare(e.name, name) })
	if !found {
		c.evaluations = slices.Insert(c.evaluations, i, &evaluation{name: name})
	}
	return c.evaluations[i]
}

func (c *checkpoint) slot(p *Planner, site string) *slot {
	i, found := slices.BinarySearchFunc(c.slots, site, func(s *slot, site string) int { return cmp.Compare(s.pool.site, site) })
	if !found {
		c.slots = slices.Insert(c.slots, i, &slot{owner: c, pool: p.poolOf(site), revoked: p.wasRevoked(c.path, site)})
		c.slots[i].pool.slots++
	}
	return c.slots[i]
}

// heard takes a hint about a checkpoint.
func (p *Planner) heard(r relay.Record, state hints.CheckpointState, st stamp, until time.Duration) {
	a := r.Checkpoint
	j, c := p.job(r.Job), p.checkpoint(a.Path)
	s := said{
		stamp: st, job: r.Job, run: r.Run, seq: a.Sequence, until: until, state: state, identity: r.Identity, user: r.User, step: a.Step,
		urgency: a.Urgency, confidence: r.Confidence, site: a.Site, due: st.at + time.Duration(a.ExpectedInMS)*time.Millisecond,
	}
	to := &c.life
	switch {
	case state == hints.LossSpike:
		to = &c.spike
	case state.OfEvaluation():
		to = &c.evaluation(a.Evaluation).said
	}
	if !to.put(s) {
		return
	}
	if !slices.Contains(c.jobs, j) {
		c.jobs = append(c.jobs, j)
		j.said = append(j.said, c)
	}
	if state == hints.LossSpike && (j.spike == nil || st.compare(j.spiked) > 0) {
		if j.spike != nil {
			p.touch(j.spike)
		}
		j.spike, j.spiked = c, st
	}
	if j.replaced(r.Run, st.at) {
		p.do(Refuse{Path: a.Path, Job: r.Job, Reason: ReasonOldRun, Detail: "run " + r.Run + " was replaced"})
	}
	p.touch(c)
}

func (ev Inspected) apply(p *Planner) {
	c := p.copies[ev.Checkpoint.Path]
	if c == nil {
		return
	}
	c.known, c.asked = true, false
	c.facts = ev.Checkpoint
	c.facts.Labels = maps.Clone(ev.Checkpoint.Labels)
	p.touch(c)
}

// wish is an evaluation that will read, or reads, a checkpoint at a site.
type wish struct {
	site       string
	due, until time.Duration
	confidence float64
	urgency    float64
	other      bool // it is bound to another version
}

// decide asks for copies at the sites of the checkpoint's evaluations.
func (c *checkpoint) decide(p *Planner) {
	c.tidy(p)
	life := c.life.last(p)
	version, reason, detail := c.version(p, life)
	wishes := c.wishes(p, life, version)
	c.note(p, life)
	for _, w := range wishes {
		c.slot(p, w.site)
	}
	if len(wishes) > 0 && reason == "" && !c.ready(p, version) {
		return
	}
	for _, s := range c.slots {
		at := slices.DeleteFunc(slices.Clone(wishes), func(w wish) bool { return w.site != s.pool.site })
		switch {
		case len(at) == 0:
			s.revoked = p.wasRevoked(c.path, s.pool.site)
			p.settle(s, nil, ReasonUnneeded, "no evaluation will read it")
		case reason != "":
			p.settle(s, nil, reason, detail)
		default:
			c.propose(p, s, at, life)
		}
	}
	c.slots = slices.DeleteFunc(c.slots, func(s *slot) bool {
		if s.x != nil || slices.ContainsFunc(wishes, func(w wish) bool { return w.site == s.pool.site }) {
			return false
		}
		p.leave(s.pool)
		return true
	})
	c.forget(p)
}

// tidy drops words that are too old to count, and wakes up when the next will be.
func (c *checkpoint) tidy(p *Planner) {
	next := min(c.life.forget(p.now), c.spike.forget(p.now))
	c.evaluations = slices.DeleteFunc(c.evaluations, func(e *evaluation) bool {
		end := e.said.forget(p.now)
		next = min(next, end)
		return end == never
	})
	if next < never {
		p.alarm(c, next)
	}
}

// forget drops the checkpoint when nothing is known of it any more.
func (c *checkpoint) forget(p *Planner) {
	if p.copies[c.path] != c || len(c.life)+len(c.spike)+len(c.evaluations)+len(c.slots) > 0 {
		return
	}
	delete(p.copies, c.path)
	for _, j := range c.jobs {
		j.said = slices.DeleteFunc(j.said, func(o *checkpoint) bool { return o == c })
		if j.spike == c {
			j.spike = nil
		}
		p.touch(j)
	}
}

// version says which version may be copied: one that was committed. A reason says that there is none.
func (c *checkpoint) version(p *Planner, life *said) (identity string, reason Reason, detail string) {
	switch {
	case life == nil:
		for _, e := range c.evaluations {
			if s := e.said.holds(p); s != nil && s.identity != "" {
				return s.identity, "", "" // whoever announced it has seen it committed
			}
		}
		return "", ReasonCommit, "no commit was announced"
	case life.state == hints.Deleted:
		return "", ReasonSource, "it was deleted"
	case life.state != hints.Committed:
		return "", ReasonCommit, "it is being saved"
	case life.identity == "":
		return "", ReasonCommit, "its commit names no version"
	}
	return life.identity, "", "" // however long ago: what lies there is compared with it
}

// ready tells whether the version that may be copied is known, and asks for it.
func (c *checkpoint) ready(p *Planner, version string) bool {
	if c.known && c.facts.Identity == version && c.facts.Complete {
		return true
	}
	const between = 30 * time.Second
	if !c.asked && (p.now >= c.askAgain || c.askedFor != version) {
		c.asked, c.askedFor = true, version
		c.askAgain = p.now + between
		p.do(Inspect{Path: c.path})
	}
	if !c.asked {
		p.alarm(c, c.askAgain)
	}
	return c.known
}

// wishes lists the evaluations of the checkpoint that are to come or under way, and those that are predicted.
func (c *checkpoint) wishes(p *Planner, life *said, version string) []wish {
	var all []wish
	announced := make(map[string]bool)
	for _, e := range c.evaluations {
		s := e.said.last(p)
		if s == nil {
			continue
		}
		announced[s.site] = true
		if s.until <= p.now || s.state != hints.EvaluationScheduled && s.state != hints.EvaluationOpened {
			continue
		}
		p.alarm(c, s.until)
		w := wish{
			site: s.site, due: s.due, until: s.until, confidence: s.confidence, urgency: s.urgency,
			other: version != "" && s.identity != "" && s.identity != version,
		}
		for _, site := range c.sitesOf(p, s, life) {
			w.site = site
			if w.site != p.o.Home {
				all = append(all, w)
			}
		}
	}
	if life == nil || life.state != hints.Committed {
		return all
	}
	return append(all, c.predicted(p, life, announced)...)
}

// sitesOf is where an evaluation will be: where it says, else where those of the job were.
func (c *checkpoint) sitesOf(p *Planner, s, life *said) []string {
	if s.site != "" || life == nil {
		return []string{cmp.Or(s.site, p.o.Home)}
	}
	j := p.jobs[life.job]
	if j == nil {
		return nil
	}
	return sorted(j.history)
}

// predicted lists the evaluations that the job's history says will come.
func (c *checkpoint) predicted(p *Planner, life *said, announced map[string]bool) []wish {
	j := p.jobs[life.job]
	if j == nil || j.replaced(life.run, life.at) {
		return nil
	}
	var all []wish
	for _, site := range sorted(j.history) {
		if announced[site] || announced[""] || site == p.o.Home || slices.Contains(c.missed, site) {
			continue
		}
		likely, delay := j.history[site].predict(life.step)
		if likely == 0 {
			continue
		}
		w := wish{
			site: site, due: life.at + delay, until: life.at + delay + predictedLease, confidence: likely * life.confidence, urgency: life.urgency,
		}
		if w.until <= p.now {
			c.missed = append(c.missed, site)
			j.history[site].misses++
			continue
		}
		p.alarm(c, w.until)
		all = append(all, w)
	}
	return all
}

// note learns from evaluations that were opened.
func (c *checkpoint) note(p *Planner, life *said) {
	for _, e := range c.evaluations {
		s := e.said.last(p)
		if e.noted || s == nil || s.state != hints.EvaluationOpened && s.state != hints.EvaluationDone || life == nil || s.site == "" || s.site == p.o.Home {
			continue
		}
		e.noted = true
		if p.sites[s.site] == nil { // it is named as somebody likes: nothing is remembered of it
			if s.state == hints.EvaluationOpened {
				p.tally.Missed++
			}
			continue
		}
		j := p.job(life.job)
		h := j.history[s.site]
		if h == nil {
			h = &history{}
			j.history[s.site] = h
		}
		if s.state == hints.EvaluationOpened {
			h.note(life.step, s.at-life.at)
			i := slices.IndexFunc(c.slots, func(sl *slot) bool { return sl.pool.site == s.site && sl.x != nil })
			if i < 0 {
				p.tally.Missed++
				continue
			}
			x := c.slots[i].x
			late := x.state != live || x.held.readyAt > s.at
			h.learn(late, firstMargin)
			p.tallyOpened(x, late, s.at)
		}
	}
}

// loaded learns from an evaluation that has read, how long that took.
func (p *Planner) loaded(a *relay.Checkpoint, at time.Duration) {
	c := p.copies[a.Path]
	if c == nil || !c.known || c.facts.Bytes <= 0 {
		return
	}
	i := slices.IndexFunc(c.evaluations, func(e *evaluation) bool { return e.name == a.Evaluation })
	life := c.life.last(p)
	if i < 0 || life == nil {
		return
	}
	e := c.evaluations[i]
	s := e.said.last(p)
	if e.read || s == nil || s.state != hints.EvaluationOpened {
		return
	}
	h := p.job(life.job).history[s.site]
	if h == nil { // it was not noted: it is at home
		return
	}
	e.read = true
	x := (*placement)(nil)
	if n := slices.IndexFunc(c.slots, func(sl *slot) bool { return sl.pool.site == s.site }); n >= 0 {
		x = c.slots[n].x
	}
	switch {
	case x == nil || x.held == nil || x.held.readyAt == 0:
		h.remote.add(c.facts.Bytes, at-s.at, leastRead)
	case x.state == live && x.held.readyAt <= s.at:
		h.local.add(c.facts.Bytes, at-s.at, leastRead)
	}
}

// propose settles what lies at one site.
func (c *checkpoint) propose(p *Planner, s *slot, at []wish, life *said) {
	k := c.facts
	at = slices.DeleteFunc(at, func(w wish) bool { return w.other })
	site := p.sites[s.pool.site]
	switch {
	case len(at) == 0:
		p.settle(s, nil, ReasonIdentity, "the evaluation is of another version")
		return
	case k.Identity == "":
		p.settle(s, nil, ReasonSource, "there is no checkpoint")
		return
	case !k.Complete:
		p.settle(s, nil, ReasonSource, cmp.Or(k.Problem, "it is not whole"))
		return
	case life != nil && life.state == hints.Committed && life.identity != k.Identity:
		p.settle(s, nil, ReasonIdentity, "what lies there is not the version that was committed")
		return
	case site == nil:
		p.settle(s, nil, ReasonSite, "it is not known")
		return
	}
	payer, user := c.payer(p, life)
	verdict := p.policy.Copy(c.request(s, payer, user))
	if !verdict.Allowed {
		p.settle(s, nil, ReasonPolicy, verdict.Rule)
		return
	}
	want := c.proposal(p, s, at, payer, *site, verdict)
	if want.until <= p.now && verdict.Lease > 0 {
		p.settle(s, nil, ReasonPolicy, fmt.Sprintf("%s: it may be there for %v, and that is over", verdict.Rule, verdict.Lease))
		return
	}
	if want.value < want.cost && (s.x == nil || s.x.held == nil) {
		p.settle(s, nil, ReasonWorth, want.why())
		return
	}
	p.settle(s, &want, "", "")
}

// request is what policy decides on.
func (c *checkpoint) request(s *slot, payer *job, user string) Request {
	return Request{Path: c.path, Job: payer.name, User: user, Site: s.pool.site, Layout: c.facts.Layout, Labels: c.facts.Labels}
}

// payer is the job whose checkpoint it is, else the one that evaluates it.
func (c *checkpoint) payer(p *Planner, life *said) (*job, string) {
	if life != nil {
		return p.job(life.job), life.user
	}
	for _, e := range c.evaluations {
		if s := e.said.last(p); s != nil {
			return p.job(s.job), s.user
		}
	}
	return p.job(""), ""
}

// proposal puts the wishes of one site together.
func (c *checkpoint) proposal(p *Planner, s *slot, at []wish, payer *job, site Site, v Verdict) proposal {
	k := c.facts
	want := proposal{way: wayOf(Copy), private: v.Access != AsOriginal, identity: k.Identity, content: k.Bytes, job: payer, start: never}
	urgency := 0.0
	if spike := c.spike.holds(p); spike != nil && payer.spike == c {
		want.emergency, urgency = true, spike.urgency
		p.alarm(c, spike.until)
	}
	h := payer.history[s.pool.site]
	if remoteRate, localRate := h.rates(site); remoteRate > 0 && localRate > 0 {
		remote := float64(k.Bytes) / float64(remoteRate)
		local := float64(k.Bytes) / float64(localRate)
		want.saved = span(max(remote-local, 0))
	}
	margin := firstMargin
	if h != nil && h.margin > 0 {
		margin = h.margin
	}
	lead := s.pool.predicted(k.Bytes)
	lead += lead/4 + margin
	for _, w := range at {
		accelerators := evaluationAccelerators + float64(max(w.urgency, urgency)*payer.ranks())
		want.weight += float64(w.confidence * accelerators)
		want.start = min(want.start, w.due-lead)
		want.until = max(want.until, w.until)
	}
	want.start = max(want.start, 0)
	if want.emergency {
		want.start = 0
	}
	if v.Lease > 0 {
		want.until = min(want.until, s.mayStay(p, k.Identity, max(want.start, p.now), v.Lease))
		if want.until > p.now {
			p.alarm(c, want.until)
		}
	}
	want.value = p.prices.worth(float64(want.weight * want.saved.Seconds()))
	want.cost = p.prices.ofCopy(k.Bytes, want.until-p.now)
	return want
}

// mayStay is until when a version may be there, if it is there from some moment on, where it is not yet. When that began of what a predecessor left is
// not known: it stays no longer than that one said.
func (s *slot) mayStay(p *Planner, identity string, from, lease time.Duration) time.Duration {
	if s.here() != identity && s.x != nil && s.x.held != nil && s.x.want.identity == identity {
		s.stay(identity, min(s.x.held.until-lease, p.now))
	}
	if s.here() == identity {
		from = s.was.since
	}
	return from + lease
}

// describe is what is known of a checkpoint, for people.
func (c *checkpoint) describe(p *Planner) string {
	life := c.life.last(p)
	word := "nothing was said of it"
	if life != nil {
		word = fmt.Sprintf("%s by job %s, run %s", life.state, life.job, life.run)
	}
	return fmt.Sprintf("%s; %d evaluations", word, len(c.evaluations))
}
