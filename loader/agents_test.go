package loader

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent/fetch"
)

// warm waits until every agent knows the schedule, and l that it does.
func (c *cluster) warm(t testing.TB, l *Loader) {
	t.Helper()
	for _, a := range c.agents {
		a.await(t, "schedule", func() bool { return a.schedule != nil })
		waitUntil(t, func() bool {
			l.agents.mu.Lock()
			defer l.agents.mu.Unlock()
			p := l.agents.roster.find(a.node)
			return p != nil && p.told > 0
		})
	}
}

func TestPreparedTensorsGiveTheSameBatches(t *testing.T) {
	for _, tail := range []bool{false, true} {
		k := newKit(t, 48, 20, nil)
		c := newCluster(t, k, kitNodes...)
		o, plain := c.options(t), k.options(t)
		if tail {
			o.Plans["image"], plain.Plans["image"] = floatPlan(t), floatPlan(t)
			o.Layout, plain.Layout = Contiguous, Contiguous
		}
		pool := &fakePool{}
		o.Runner, o.CanaryEvery = pool, 1<<60 // never
		l, p := mustOpen(t, o), mustOpen(t, plain)
		c.warm(t, l)
		for range 6 {
			a, err := l.Next(t.Context())
			must(t, err)
			b, err := p.Next(t.Context())
			must(t, err)
			for i := range a.Fields {
				if string(a.Fields[i].Bytes) != string(b.Fields[i].Bytes) || fmt.Sprint(a.Fields[i].Strings) != fmt.Sprint(b.Fields[i].Strings) {
					t.Fatalf("step %d, field %s differs", a.Step, a.Fields[i].Name)
				}
			}
			a.Release()
			b.Release()
		}
		s := l.Stats()
		if s.Prepared != 48 || s.PreparedShare != 1 || pool.runs.Load() != 0 || s.StoreReads != 0 {
			t.Fatalf("prepared %d (%.2f), %d local jobs, %d reads, %v", s.Prepared, s.PreparedShare, pool.runs.Load(), s.StoreReads, s.ByReason)
		}
		if s.LeadSeconds < 0.0049 || s.LeadSeconds > 0.0051 || s.AgentCPU < 0.047 {
			t.Fatalf("lead %v, agents' CPU %v", s.LeadSeconds, s.AgentCPU)
		}
		if s.Ledger.Hits != 48 || s.Ledger.Misses != 0 || s.Ledger.Nodes["dn1"].Hits != uint64(s.ByNode["dn1"]["prepared"]) {
			t.Fatalf("ledger: %+v", s.Ledger)
		}
		for _, n := range kitNodes {
			if s.ByNode[n]["prepared"] == 0 {
				t.Fatalf("node %s prepared nothing: %v", n, s.ByNode)
			}
		}
	}
}

// Whatever an agent does, the batches are the same, no step fails, and the reason is counted.
func TestEveryConduct(t *testing.T) {
	reasons := map[conduct]fetch.Reason{
		rawOnly: fetch.ReasonCPU, refusing: fetch.ReasonDenied, strange: fetch.ReasonIdentity, forgetful: fetch.ReasonUnknownJob,
		hanging: fetch.ReasonDeadline, cutting: fetch.ReasonUnreachable, lyingCRC: fetch.ReasonCorrupt, lyingRaw: fetch.ReasonCorrupt,
		lyingSize: fetch.ReasonCorrupt, lyingForm: fetch.ReasonCorrupt, tooNew: fetch.ReasonVersion, poisoned: fetch.ReasonPoison,
	}
	k := newKit(t, 48, 20, nil, with(7, kindBad))
	plain := mustOpen(t, k.options(t))
	want := contents(t, plain, 12)
	for _, how := range conducts {
		t.Run(string(how), func(t *testing.T) {
			c := newCluster(t, k, kitNodes...)
			o := c.options(t)
			if how == hanging {
				o.testing.minWait, o.FetchDeadline = 5*time.Millisecond, 5*time.Millisecond
			}
			l := c.openWarm(t, o, how)
			if got := contents(t, l, 12); got != want {
				t.Fatal("other bytes than without agents")
			}
			s := l.Stats()
			if r := reasons[how]; r != "" && s.ByReason[string(r)] == 0 {
				t.Fatalf("reason %q is not counted: %v, %v", r, s.ByReason, s.ByNode)
			}
			if how != honest && how != byIDs && how != cutting && s.Prepared != 0 {
				t.Fatalf("%d prepared parts were believed", s.Prepared)
			}
		})
	}
}

// openWarm opens a loader, lets the agents hear of it, and then behave.
func (c *cluster) openWarm(t testing.TB, o Options, how conduct) *Loader {
	t.Helper()
	if how == strange { // it shows when the schedule comes
		for _, a := range c.agents {
			a.set(how)
		}
	}
	l := mustOpen(t, o)
	if how == strange {
		waitUntil(t, func() bool { return l.Stats().HintsFailed >= int64(len(c.agents)) })
		return l
	}
	c.warm(t, l)
	for _, a := range c.agents {
		a.set(how)
	}
	return l
}

// A killed agent costs nothing but speed; when it comes back it is used again.
func TestAgentKilledAndRestarted(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	want := contents(t, mustOpen(t, k.options(t)), 18)
	c := newCluster(t, k, kitNodes...)
	l := mustOpen(t, c.options(t))
	c.warm(t, l)
	got := contents(t, l, 6)
	dead := c.agents[1]
	dead.kill()
	got += contents(t, l, 6)
	s := l.Stats()
	if n := s.ByNode["dn2"]; n[string(fetch.ReasonUnreachable)] == 0 {
		t.Fatalf("the dead agent is not named: %v", s.ByNode)
	}
	back := c.add(t, "dn2", dead.addr, honest)
	got += contents(t, l, 6)
	for n := 0; l.Stats().ByNode["dn2"]["prepared"] <= s.ByNode["dn2"]["prepared"]; n++ {
		if n == 500 {
			t.Fatalf("the agent is not used again: %v", l.Stats().ByNode)
		}
		contents(t, l, 1)
	}
	if back.schedule.FirstStep == 0 {
		t.Fatal("the new agent was told to start at step 0")
	}
	if got != want {
		t.Fatal("other bytes than without agents")
	}
}

// One in CanaryEvery is made again here; a difference is found, ours is delivered, the agent is out.
func TestCanary(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	want := contents(t, mustOpen(t, k.options(t)), 12)
	c := newCluster(t, k, kitNodes...)
	o := c.options(t)
	o.CanaryEvery = 1
	l := mustOpen(t, o)
	c.warm(t, l)
	c.agents[0].set(lying)
	if got := contents(t, l, 12); got != want {
		t.Fatal("a lie was delivered")
	}
	s := l.Stats()
	if s.CanaryMismatches == 0 || s.ByNode["dn1"]["prepared"] != 0 || s.ByNode["dn1"]["corrupt"] == 0 || s.ByNode["dn2"]["prepared"] == 0 {
		t.Fatalf("mismatches %d, by node %v", s.CanaryMismatches, s.ByNode)
	}
}

// No agent gets more than one hint a step, and none while its fetches arrive.
func TestHintsAreFew(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	c := newCluster(t, k, kitNodes...)
	o := c.options(t)
	l, err := Open(t.Context(), o)
	must(t, err)
	c.warm(t, l)
	contents(t, l, 12)
	must(t, l.Close())
	for _, a := range c.agents {
		perStep, ended := map[int64]int{}, false
		a.mu.Lock()
		for _, h := range a.hints {
			switch {
			case h.Schedule != nil:
				perStep[h.Schedule.FirstStep]++
				if len(h.Schedule.Operators) != 1 || h.Schedule.Operators["jpeg/islow-fancy@1"] == "" {
					t.Errorf("operators: %v", h.Schedule.Operators)
				}
			case h.Progress != nil:
				perStep[h.Progress.Step]++
			case h.Close != nil: // what was under way then may arrive after it
				ended = h.Job == "job" && h.Run == o.Run
			}
		}
		a.mu.Unlock()
		for step, n := range perStep {
			if n > 1 {
				t.Errorf("agent %s: %d hints at step %d", a.node, n, step)
			}
		}
		if !ended {
			t.Errorf("agent %s was not told of the end", a.node)
		}
	}
}

// Rank 1 tells nobody anything.
func TestOnlyRankZeroAnnounces(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	c := newCluster(t, k, kitNodes...)
	o := c.options(t)
	o.World, o.Rank = 2, 1
	l := mustOpen(t, o)
	contents(t, l, 6)
	must(t, l.Close())
	for _, a := range c.agents {
		if len(a.hints) != 0 {
			t.Fatalf("agent %s got %d hints from rank 1", a.node, len(a.hints))
		}
	}
}

// Going back to a saved state announces the new first step.
func TestLoadAnnouncesAgain(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	c := newCluster(t, k, kitNodes...)
	l := mustOpen(t, c.options(t))
	c.warm(t, l)
	st := l.State()
	contents(t, l, 4)
	must(t, l.Load(st))
	a := c.agents[0]
	first := a.schedule.Generation
	a.await(t, "new generation", func() bool { return a.schedule.Generation > first && a.schedule.FirstStep == 0 })
	contents(t, l, 4)
}

// The registry is followed: an agent that registers later is used, by everyone who has no list.
func TestRegistry(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	c := newCluster(t, k, kitNodes[:2]...)
	for _, a := range c.agents {
		c.register(t, a)
	}
	o := c.options(t)
	o.Agents = []string{AgentsAuto}
	o.testing.tick = 1 // always
	l := mustOpen(t, o)
	c.warm(t, l)
	contents(t, l, 3)
	third := c.add(t, "dn3", "127.0.0.1:7009", honest)
	c.register(t, third)
	for n := 0; l.Stats().ByNode["dn3"]["prepared"] == 0; n++ {
		if n == 2000 {
			t.Fatalf("dn3 is not used: %v", l.Stats().ByNode)
		}
		contents(t, l, 1)
	}
	if g := third.schedule.Generation; g < 2 || len(third.schedule.Agents) != 3 {
		t.Fatalf("generation %d, agents %v", g, third.schedule.Agents)
	}
}

// With no agent to be found, everything is made here.
func TestNoAgents(t *testing.T) {
	k := newKit(t, 48, 20, nil)
	c := newCluster(t, k)
	o := c.options(t)
	o.Agents = []string{AgentsAuto}
	l := mustOpen(t, o)
	contents(t, l, 3)
	s := l.Stats()
	if s.Local != 24 || s.ByReason[string(fetch.ReasonNoAgent)] != 24 {
		t.Fatalf("local %d, reasons %v", s.Local, s.ByReason)
	}
}
