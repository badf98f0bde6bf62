package loader

import (
	"cmp"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/hints"
)

// agents is what the loader knows about agents, and its connections to them. It guards the roster and
// the peers in it. Safe for concurrent use.
type agents struct {
	wanted bool // agents are used at all
	tells  bool // this rank announces: an agent that it has not told yet need not be asked
	now    func() time.Duration
	first  time.Duration // first back-off
	log    *zap.Logger
	wake   chan struct{} // something for the herald to do; holds at most one

	trusted, others links

	mu     sync.Mutex
	roster roster
	relist bool // the list is doubted: an agent failed
}

// links are the connections to agents that may, or may not, see the token.
type links struct {
	fetch *fetch.Client
	hints *hints.Client
}

func newLinks(o Options, token string) links {
	return links{
		fetch: fetch.NewClient(fetch.ClientOptions{Token: token, TLS: o.TLS, Dial: o.Dial}),
		hints: hints.NewClient(hints.ClientOptions{Token: token, TLS: o.TLS, Dial: o.Dial}),
	}
}

func newAgents(o Options) *agents {
	return &agents{
		wanted: len(o.Agents) > 0, tells: o.Rank == 0,
		now: o.testing.now, first: o.testing.backOff, log: o.Log, wake: make(chan struct{}, 1),
		trusted: newLinks(o, o.Token), others: newLinks(o, ""),
	}
}

// links returns the connections that p may be called by.
func (a *agents) links(p *peer) links {
	if p.trusted { // never changes
		return a.trusted
	}
	return a.others
}

func (a *agents) client(p *peer) *fetch.Client { return a.links(p).fetch }

// owner returns which agent on nodes owns a sample, nil if none.
func (a *agents) owner(dataset [32]byte, sample uint64, nodes []string) *peer {
	a.mu.Lock()
	defer a.mu.Unlock()
	var holders []fetch.Node
	for _, n := range nodes {
		if p := a.roster.find(n); p != nil {
			holders = append(holders, p.Node)
		}
	}
	n, ok := fetch.Owner(dataset, sample, holders)
	if !ok {
		return nil
	}
	return a.roster.find(n.Name)
}

// allow tells whether p may be asked now, and if not, why.
func (a *agents) allow(p *peer) (try int, ok bool, why fetch.Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tells && p.told == 0 {
		return 0, false, cmp.Or(p.refused, fetch.ReasonUnknownJob)
	}
	if try, ok = p.allow(a.now(), a.first); !ok {
		return 0, false, p.skipReason()
	}
	return try, true, ""
}

// note takes the verdict of a fetch: "" means that the agent works.
func (a *agents) note(p *peer, try int, step int64, verdict fetch.Reason, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if verdict == "" {
		p.answered()
		p.fetched = true
		return
	}
	if p.failures == 0 {
		level := zap.WarnLevel
		if verdict == fetch.ReasonUnknownJob { // it was restarted, or rank 0 has not come to it yet
			level = zap.InfoLevel
		}
		a.log.Log(level, "an agent does not help: its samples are made here until it does",
			zap.String("node", p.Name), zap.String("addr", p.Addr), zap.Int64("step", step),
			zap.String("reason", string(verdict)), zap.Error(err))
	}
	p.failed(try, verdict, a.now(), a.first)
	if verdict == fetch.ReasonUnknownJob {
		p.told = 0
	}
	a.relist = true
	a.poke()
}

// failing are the nodes whose agents failed when they were called last.
func (a *agents) failing() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var nodes []string
	for _, p := range a.roster.peers {
		if p.failures > 0 || p.refusal > 0 {
			nodes = append(nodes, p.Name)
		}
	}
	return nodes
}

// poke wakes the herald. a.mu may be held.
func (a *agents) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *agents) quarantine(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.quarantined = true
}

func (a *agents) quarantined(p *peer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.quarantined
}

func (a *agents) generation() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.roster.generation
}

// renew makes every agent be told the schedule again: the run goes on at another step.
func (a *agents) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roster.generation++
	for _, p := range a.roster.peers {
		p.hinted = -1
	}
	a.poke()
}

// hurry lets every agent be told what there is to tell, also those that were told something at this step.
func (a *agents) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.roster.peers {
		p.hinted = -1
	}
	a.poke()
}

func (a *agents) close() {
	for _, l := range []links{a.trusted, a.others} {
		l.fetch.Close() // nothing is under way any more
		l.hints.Close()
	}
}
