package loader

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
)

const (
	// hintTimeout bounds one hint: nothing waits for it.
	hintTimeout = 2 * time.Second
	// byeTimeout bounds all of the hints that Close sends.
	byeTimeout = 500 * time.Millisecond
	// hintsAtOnce bounds the hints under way.
	hintsAtOnce = 16
)

// herald keeps the list of agents, and on rank 0 tells them what comes next: the schedule when one
// does not know it, the progress when no fetch carries it. No agent gets more than one hint a step, but for ids that take several messages.
type herald struct {
	l      *Loader
	finder *discovery.Finder

	listed  time.Duration // when the list was read last
	doubts  int           // times in a row that it was read because an agent failed
	started bool
	empty   bool  // the last list was empty, and the log says so
	seen    int64 // the position when progress was looked at last
	golden  map[string]string
	askAt   time.Duration // the local workers are not asked for golden before
}

// run returns when ctx ends. It fails only by a bug: an agent's failure is a log line.
func (h *herald) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if h.due() {
			h.list(ctx)
		}
		if h.l.o.Rank == 0 {
			h.announce(ctx)
		}
		t := time.NewTimer(h.pause())
		select {
		case <-ctx.Done():
		case <-h.l.agents.wake:
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// due tells whether the list must be read: at the start, every tick, and after a failure, with a
// growing pause.
func (h *herald) due() bool {
	a := h.l.agents
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !h.started || now-h.listed >= h.l.o.testing.tick:
		h.doubts = 0
	case a.relist && now-h.listed >= h.doubt():
		h.doubts++
	default:
		return false
	}
	h.started, h.listed, a.relist = true, now, false
	return true
}

func (h *herald) doubt() time.Duration { return backOff(h.doubts, h.l.agents.first) }

// pause is how long nothing can become due without a wake.
func (h *herald) pause() time.Duration {
	a := h.l.agents
	a.mu.Lock()
	defer a.mu.Unlock()
	next := h.listed + h.l.o.testing.tick
	if a.relist {
		next = min(next, h.listed+h.doubt())
	}
	for _, p := range a.roster.peers {
		if h.l.o.Rank == 0 && p.told != a.roster.generation && p.tellAt > a.now() {
			next = min(next, p.tellAt)
		}
	}
	return max(next-a.now(), time.Millisecond)
}

// list reads the list of agents.
func (h *herald) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	a := h.l.agents
	list, err := h.finder.Find(ctx, a.now(), a.failing())
	if err != nil {
		a.log.Warn("cannot read the list of agents: the last one is kept", zap.String("registry", h.finder.Address()), zap.Error(err))
		return
	}
	peers := make([]peer, len(list))
	for i, f := range list {
		peers[i] = newPeer(f.Node, f.Addr, f.Trusted)
	}
	a.mu.Lock()
	changed := a.roster.replace(peers)
	a.mu.Unlock()
	if changed {
		a.log.Info("agents", zap.Int("count", len(list)))
		h.warnOfToken(peers)
	}
	if len(list) == 0 && !h.empty {
		a.log.Warn("no agents found: everything is made here: start stepahead-agent with the store that holds the dataset",
			zap.String("registry", h.finder.Address()), zap.String("dataset", h.l.data.hinted[0].DatasetURL))
	}
	h.empty = len(list) == 0
}

// warnOfToken says that a token is kept back, since the agents will refuse without it.
func (h *herald) warnOfToken(list []peer) {
	for _, p := range list {
		if h.l.o.Token != "" && !p.trusted {
			h.l.o.Log.Warn("the token is not sent to this agent: its registry file is not known to belong to the store's owner: give its address in agents=",
				zap.String("node", p.Name), zap.String("addr", p.Addr))
		}
	}
}

// announce sends what is due and returns when it was answered.
func (h *herald) announce(ctx context.Context) {
	if h.nobody() || !h.learn(ctx) {
		return
	}
	due := h.withWindows(ctx, h.dueHints(h.l.position()))
	places := make(chan struct{}, hintsAtOnce)
	t := newTasks(ctx, "hints")
	for _, d := range due {
		places <- struct{}{}
		t.start(func(ctx context.Context) error {
			defer func() { <-places }()
			h.send(ctx, d)
			return nil
		})
	}
	if err := t.wait(); err != nil && ctx.Err() == nil {
		h.l.o.Log.Error("hints", zap.Error(err))
	}
}

func (h *herald) nobody() bool {
	a := h.l.agents
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.roster.peers) == 0
}

// dueHint is a hint for one agent. generation is that of a schedule, 0 for others.
type dueHint struct {
	peer       *peer
	generation uint64
	step       int64
	ids        window // what is to be told of the ids of steps, if anything
	hint       hints.Hint
}

func (d *dueHint) kind() string {
	switch {
	case d.generation > 0:
		return "schedule"
	case d.ids.end > 0:
		return "window"
	}
	return "progress"
}

// dueHints decides who is told what at a position, and notes it: whoever is to be told more meanwhile (hurry) is looked at again.
func (h *herald) dueHints(step int64) []dueHint {
	a := h.l.agents
	a.mu.Lock()
	defer a.mu.Unlock()
	moved := step != h.seen
	h.seen = step
	var due []dueHint
	for _, p := range a.roster.peers {
		silent := moved && !p.fetched
		if moved {
			p.fetched = false
		}
		told := p.told == a.roster.generation
		switch more := h.more(p, step); {
		case p.quarantined || p.hinted == step:
		case !told && a.now() >= p.tellAt && more.possible():
			due = append(due, dueHint{peer: p, generation: a.roster.generation, step: step, ids: more, hint: h.schedule(step)})
		case told && more.end > 0 && a.now() >= p.moreAt:
			due = append(due, dueHint{peer: p, step: step, ids: more})
		case told && silent && p.failures == 0:
			due = append(due, dueHint{peer: p, step: step, hint: h.hint(hints.Hint{Progress: &hints.Progress{Step: step}})})
		}
	}
	for _, d := range due {
		d.peer.hinted = step
	}
	return due
}

// hint fills in what all hints have.
func (h *herald) hint(k hints.Hint) hints.Hint {
	k.ID, k.Job, k.Run = hints.NewID(), h.l.o.Job, h.l.o.Run
	k.TTL, k.Confidence, k.Identity = hints.MaxTTL, 1, h.l.data.Identity()
	return k
}

// schedule foretells everything from step on: the order is known, so it is certain. The agents'
// mutex is held.
func (h *herald) schedule(step int64) hints.Hint {
	spec, r := &h.l.spec, &h.l.agents.roster
	s := &hints.Schedule{
		Dataset: h.l.data.Identity(), Spec: spec.Canonical(), Seed: spec.Seed,
		FirstStep: step, StepTime: h.l.clock.step(), Generation: r.generation, Operators: h.operators(),
	}
	if spec.Version > 1 || spec.Sources[0].Name != "" { // which agents that cannot work with it must be able to refuse
		s.Members = h.l.data.hinted
	} else {
		s.DatasetURL = h.l.data.hinted[0].DatasetURL
	}
	for _, f := range h.l.media {
		if !f.stored {
			s.Fields = append(s.Fields, hints.FieldPlan{Field: f.name, Plan: f.agent.Canonical(), Digest: f.digest})
		}
	}
	for _, p := range r.peers {
		s.Agents = append(s.Agents, hints.Agent{Node: p.Name, Addr: p.Addr})
	}
	return h.hint(hints.Hint{Schedule: s})
}

// operators are the golden digests of the operators that the plans use.
func (h *herald) operators() map[string]string {
	m := map[string]string{}
	for _, f := range h.l.media {
		if f.stored {
			continue
		}
		for _, id := range f.agent.Identities() {
			if digest := h.golden[id]; digest != "" {
				m[id] = digest
			}
		}
	}
	return m
}

// learn asks the local workers for their golden digests, once.
func (h *herald) learn(ctx context.Context) bool {
	if h.golden != nil {
		return true
	}
	if h.l.now() < h.askAt {
		return false
	}
	golden, err := h.l.runner.Golden(ctx)
	if err != nil {
		h.askAt = h.l.now() + maxBackOff
		h.l.o.Log.Warn("cannot ask the local workers for their operators: agents are not told anything yet", zap.Error(err))
		return false
	}
	h.golden = golden
	return true
}

// send gives one hint and notes the reply.
func (h *herald) send(ctx context.Context, d dueHint) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	a, p := h.l.agents, d.peer
	reply, err := a.links(p).hints.Announce(ctx, p.Addr, d.hint)
	h.l.count(func(s *Stats) {
		addTo(&s.Hints, d.kind(), 1)
		if err != nil || !reply.Accepted {
			s.HintsFailed++
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil && reply.Accepted && d.generation > 0:
		p.told, p.refusal, p.refused = d.generation, 0, ""
		h.goOn(p, d.ids)
		p.answered()
	case err == nil && reply.Accepted:
		h.goOn(p, d.ids)
		p.misses = 0
	case err == nil && reply.Reason == hints.ReasonUnknownJob:
		p.told, p.window = 0, window{}
	case err == nil && reply.Reason == hints.ReasonVersion && d.generation > 0 && !p.window.wanted:
		p.window, p.hinted = window{wanted: true}, -1
		a.log.Info("an agent does not know the order's version: it is told the ids of steps instead", zap.String("node", p.Name), zap.String("detail", reply.Detail))
		a.poke()
		return
	case d.kind() == "window":
		p.misses++
		p.moreAt = a.now() + backOff(p.misses, a.first)
	case d.generation > 0:
		p.refusal++
		p.refused = refusedBecause(reply, err)
		p.tellAt = a.now() + backOff(p.refusal, a.first)
		a.relist = true
	}
	if p.refusal == 1 {
		a.log.Warn("an agent did not take the schedule", zap.String("node", p.Name), zap.String("addr", p.Addr),
			zap.String("reason", string(reply.Reason)), zap.String("detail", reply.Detail), zap.Error(err))
	}
}

// goOn notes what an agent has accepted of the ids of steps, and has it told at once what did not go into the message. The agents'
// mutex is held.
func (h *herald) goOn(p *peer, told window) {
	p.window.take(told)
	if told.cut {
		p.hinted = -1
		h.l.agents.poke()
	}
}

// refusedBecause is the reason of the parts that an agent will not be asked for.
func refusedBecause(r hints.Reply, err error) fetch.Reason {
	if err != nil {
		return fetch.ReasonOf(err)
	}
	switch r.Reason {
	case hints.ReasonIdentity:
		return fetch.ReasonIdentity
	case hints.ReasonDenied:
		return fetch.ReasonDenied
	case hints.ReasonVersion:
		return fetch.ReasonVersion
	case hints.ReasonUnknownPlan:
		return fetch.ReasonUnknownPlan
	}
	return fetch.ReasonUnknownJob
}

// bye tells the agents that the run is over, so that what lies ready is freed at once.
func (h *herald) bye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, byeTimeout)
	defer cancel()
	a := h.l.agents
	t := newTasks(ctx, "hints")
	a.mu.Lock()
	for _, p := range a.roster.peers {
		if p.told > 0 {
			t.start(func(ctx context.Context) error {
				_, err := a.links(p).hints.Announce(ctx, p.Addr, h.hint(hints.Hint{Close: &hints.Close{}}))
				if err != nil {
					a.log.Info("an agent was not told of the end: it notices by itself", zap.String("node", p.Name), zap.Error(err))
				}
				return nil
			})
		}
	}
	a.mu.Unlock()
	if err := t.wait(); err != nil && ctx.Err() == nil {
		a.log.Error("hints", zap.Error(err))
	}
}
