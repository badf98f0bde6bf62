package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/audit"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/relay"
	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

// TestMain runs the tests, or, in a process of TestKilledProcess, a controller that is killed.
func TestMain(m *testing.M) {
	if root := os.Getenv(childEnv); root != "" {
		fmt.Fprintln(os.Stderr, child(root))
		os.Exit(1)
	}
	hdfstest.Main(m)
}

// bubble is the clock of a test in a bubble; jump is how far the wall clock is off.
type bubble struct {
	zero time.Time
	mu   sync.Mutex
	jump time.Duration
}

func newBubble() *bubble { return &bubble{zero: time.Now()} }

func (b *bubble) Now() time.Duration { return time.Since(b.zero) }

func (b *bubble) Wall() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.jump).Round(0)
}

func (b *bubble) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (b *bubble) jumps(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jump += d
}

// memory is a journal that survives its process.
type memory struct {
	mu      sync.Mutex
	records []journal.Record
	last    uint64
	number  uint64
	full    bool
	fails   int
}

var errFull = errors.New("no space left on device")

func (m *memory) Append(records ...journal.Record) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		m.fails++
		return 0, errFull
	}
	for _, r := range records {
		m.number++
		r.Number = m.number
		m.last = max(m.last, r.Placement)
		m.records = append(m.records, r)
	}
	return m.number, nil
}

func (m *memory) Read(from uint64, each func(journal.Record) error) error {
	m.mu.Lock()
	list := slices.Clone(m.records)
	m.mu.Unlock()
	for _, r := range list {
		if r.Number >= from {
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) LastPlacement() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, nil
}

func (m *memory) Compact(over func(uint64) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return errFull
	}
	m.records = slices.DeleteFunc(m.records, func(r journal.Record) bool { return over(r.Placement) })
	return nil
}

func (m *memory) setFull(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = full
}

// rules allow everything, and of a path such as /hot/raise/1 the means that it names.
type rules struct{ spread []plan.Means }

func (rules) Copy(plan.Request) plan.Verdict { return plan.Verdict{Allowed: true, Rule: "all"} }
func (r rules) Spread(q plan.Request) plan.Verdict {
	for _, m := range []plan.Means{plan.Even, plan.Sibling, plan.StorageType, plan.Raise} {
		if strings.HasPrefix(q.Path, "/hot/"+string(m)+"/") {
			return plan.Verdict{Allowed: true, Rule: "by path", Means: []plan.Means{m}}
		}
	}
	return plan.Verdict{Allowed: true, Rule: "all", Means: r.spread}
}

func budgets() plan.Budgets {
	link := plan.Link{Rate: 100e6, EmergencyRate: 100e6, Transfers: 4, Held: 1 << 50, EmergencyHeld: 1 << 50, ByteHoursPerDay: 1e18}
	return plan.Budgets{
		WAN:      plan.WAN{On: true, Links: map[string]plan.Link{"east": link, "west": link}},
		Replicas: plan.Replicas{On: true, Held: 1 << 50, ByteHoursPerDay: 1e18, Makes: 100},
		Storage:  plan.Storage{On: true, Egress: 1e12, Cores: 1000, Memory: 1 << 50},
	}
}

func settings(means ...plan.Means) []plan.Event {
	if means == nil {
		means = []plan.Means{plan.Even, plan.Sibling}
	}
	list := []plan.Event{
		plan.ClusterChanged{Cluster: plan.Cluster{Nodes: 40, Tagged: 20, Load: 0.1, Free: 1 << 50, NodeRate: 100e6, ReadersPerSource: 8, MaxReplication: 512}},
		plan.PricesChanged{Prices: plan.Prices{AcceleratorHour: 2, WANGiB: 0.001}},
		plan.PolicyChanged{Policy: rules{means}},
		plan.BudgetsChanged{Budgets: budgets()},
	}
	for _, name := range []string{"east", "west"} {
		list = append(list, plan.SiteChanged{Site: plan.Site{Name: name, Up: true, Writable: true, Free: 1 << 50, RemoteRate: 50e6, LocalRate: 2e9}})
	}
	return list
}

// running is an engine that runs.
type running struct {
	*process
	e      *Engine
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	audit  []audit.Entry
	logs   *observer.ObservedLogs
}

// start starts a controller, which takes the lease.
func (w *world) start(c *bubble, j Journal, name string, change func(*process, *Options)) *running {
	w.t.Helper()
	p := &process{w: w, name: name, j: j, died: make(chan struct{})}
	core, logs := observer.New(zap.InfoLevel)
	r := &running{process: p, done: make(chan error, 1), logs: logs}
	makers := make(map[plan.Means]controller.Maker)
	for _, m := range []plan.Means{plan.Copy, plan.Even, plan.Sibling, plan.StorageType, plan.Raise} {
		makers[m] = fakeMaker{p}
	}
	o := Options{
		Plan: plan.Options{Home: "home"}, Journal: p, Name: name, Makers: makers, Looker: p, Lease: p, World: p, Clock: c, Log: zap.New(core), Settings: settings(),
		Audit: func(e audit.Entry) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.audit = append(r.audit, e)
		},
	}
	if change != nil {
		change(p, &o)
	}
	w.mu.Lock()
	w.holder = p
	w.mu.Unlock()
	e, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	r.e = e
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	w.started = append(w.started, r)
	go func() {
		select { // a process that dies does nothing more
		case <-p.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	go func() {
		r.done <- e.Run(ctx)
		cancel()
	}()
	return r
}

// end ends all controllers that still run.
func (w *world) end() {
	for _, r := range w.started {
		r.cancel()
		<-r.e.stopped
	}
}

// end ends a controller.
func (r *running) end() error {
	r.cancel()
	return <-r.done
}

func (r *running) tell(ev plan.Event) {
	if err := r.e.Tell(context.Background(), "test", ev); err != nil && !errors.Is(err, errStopped) {
		r.w.t.Error(err)
	}
}

// lines are what was audited, for comparing.
func (r *running) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.audit {
		line := fmt.Sprintf("%s %d %s", e.What, e.Placement, e.Path)
		if e.Err != "" {
			line += " failed"
		}
		all = append(all, line)
	}
	return all
}

var hintNumber int

// said is a hint about a checkpoint.
func said(path string, state hints.CheckpointState, change func(*relay.Record)) plan.Hint {
	hintNumber++
	c := &relay.Checkpoint{State: state.String(), Path: path, Step: -1}
	r := relay.Record{Version: 1, ID: fmt.Sprintf("h%06d", hintNumber), Job: "train", Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(), Checkpoint: c}
	if state.OfEvaluation() {
		c.Evaluation, c.Site = "e1", "east"
	}
	if state == hints.Committed {
		r.Identity = "v1"
	}
	if change != nil {
		change(&r)
	}
	return plan.Hint{Record: r}
}

// starts is a start announcement of 64 ranks that read one file.
func starts(job, path string, change func(*relay.Record)) plan.Hint {
	hintNumber++
	s := &relay.Start{Ranks: 64, RanksPerHost: 8, ExpectedInMS: 100_000, Files: []relay.HotFile{{Path: path, Readers: 64}}}
	r := relay.Record{Version: 1, ID: fmt.Sprintf("h%06d", hintNumber), Job: job, Run: "a", Confidence: 1, TTLMS: time.Hour.Milliseconds(), Start: s}
	if change != nil {
		change(&r)
	}
	return plan.Hint{Record: r}
}

// empty checks that nothing is left and nothing was ever wrong.
func (w *world) empty() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, th := range w.things {
		if !strings.HasPrefix(key.controller, "foreign") {
			w.t.Errorf("%v is left: %+v", key, *th)
		}
	}
	for path, n := range w.replicas {
		if n != 3 {
			w.t.Errorf("%s has %d replicas", path, n)
		}
	}
	w.right()
}

func (w *world) right() {
	w.t.Helper()
	for _, line := range w.wrong {
		w.t.Error(line)
	}
}
