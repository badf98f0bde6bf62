// Package servicetest has an engine without an executor, for tests of what asks one.
package servicetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
)

// Engine is a service.Engine whose makings never end, at a moment that never passes; what it was told is kept. It has three placements: 1 and 2 of job a, of
// /runs/a/1 and /runs/a/2, are being made; 3 of job b, of /runs/b/1, waits; and policy refuses /secret/1 of job b.
type Engine struct {
	mu   sync.Mutex
	p    *plan.Planner
	told []string
}

// New returns an engine.
func New() *Engine {
	e := &Engine{}
	e.Reset()
	return e
}

// Reset makes all as it was at the beginning.
func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.p, e.told = plan.New(plan.Options{Home: "home"}), nil
	e.step(plan.PolicyChanged{Policy: policy{}})
	e.step(plan.PricesChanged{Prices: plan.Prices{AcceleratorHour: 2, WANGiB: 0.01}})
	e.step(plan.BudgetsChanged{Budgets: plan.Budgets{
		WAN:     plan.WAN{On: true, Links: map[string]plan.Link{"east": {Rate: 1e8, Transfers: 2, Held: 1 << 40, ByteHoursPerDay: 1 << 50}}},
		Storage: plan.Storage{On: true, Egress: 1e10, Cores: 16, Memory: 1 << 40},
	}})
	e.step(plan.ClusterChanged{Cluster: plan.Cluster{Nodes: 9, Load: 0.2, Free: 1 << 40, NodeRate: 1e8, ReadersPerSource: 4, MaxReplication: 512}})
	e.step(plan.SiteChanged{Site: plan.Site{Name: "east", Up: true, Writable: true, Free: 1 << 50, RemoteRate: 5e7, LocalRate: 2e9}})
	for i, c := range [][2]string{{"a", "/runs/a/1"}, {"a", "/runs/a/2"}, {"b", "/runs/b/1"}, {"b", "/secret/1"}} {
		for _, state := range []hints.CheckpointState{hints.Committed, hints.EvaluationScheduled} {
			r := relay.Record{Version: 1, TTLMS: time.Hour.Milliseconds(), ID: fmt.Sprint(i, state), Job: c[0], Run: "1", User: "u", Confidence: 1, Identity: "v1"}
			r.Checkpoint = &relay.Checkpoint{State: state.String(), Path: c[1], Step: -1}
			if state == hints.EvaluationScheduled {
				r.Checkpoint.Evaluation, r.Checkpoint.Site = "e", "east"
			}
			e.step(plan.Hint{Record: r})
		}
		e.step(plan.Inspected{Checkpoint: plan.Checkpoint{Path: c[1], Identity: "v1", Complete: true, Bytes: int64(i+1) << 30}})
	}
}

func (e *Engine) step(ev plan.Event) {
	e.p.Step(ev, 0)
	for {
		if at, ok := e.p.Wake(); !ok || at > 0 {
			return
		}
		e.p.Step(plan.Tick{}, 0)
	}
}

// Tell implements service.Engine.
func (e *Engine) Tell(_ context.Context, who string, ev plan.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprintf("%s: %+v", who, ev))
	e.step(ev)
	return nil
}

// Ask implements service.Engine.
func (e *Engine) Ask(_ context.Context, f func(p *plan.Planner, now time.Duration)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.p, 0)
	return nil
}

// Note adds to what Took returns.
func (e *Engine) Note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, what)
}

// Took returns what the engine was told since the last call, as "who: event".
func (e *Engine) Took() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.told
	e.told = nil
	return told
}

// policy allows everything but what lies under /secret.
type policy struct{}

func (policy) Copy(q plan.Request) plan.Verdict {
	return plan.Verdict{Allowed: !strings.HasPrefix(q.Path, "/secret"), Rule: "no secrets"}
}

func (policy) Spread(plan.Request) plan.Verdict { return plan.Verdict{} }
