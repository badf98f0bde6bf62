package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/journal"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// thing is what a placement has in the world.
type thing struct {
	mark    temporary.Mark
	site    string
	written time.Time // the mark
	data    string    // the version of what was copied; "" for nothing
	row     string    // the version that readers find; "" for none
}

type thingKey struct {
	controller string
	id         plan.ID
}

// world is what all processes share.
type world struct {
	t        rapid.TB
	mu       sync.Mutex
	things   map[thingKey]*thing
	sources  map[string]string // versions by path
	replicas map[string]int
	skew     time.Duration // of the stores' clock
	wrong    []string
	holder   *process // of the lease
	started  []*running
	stubborn bool                // makers do not care whether they are told to end
	of       map[plan.ID]plan.ID // what makings shared
	rates    map[plan.ID]int64   // what they began with
	sent     map[plan.ID]int64
	calls    []string
	behave   func(ctx context.Context, call string, p controller.Placement) error // before a call of a maker; nil: nothing
	deaf     map[string]bool                                                      // sites that say that they do not answer
	mute     map[string]chan struct{}                                             // sites that answer when it is closed
}

func newWorld(t rapid.TB) *world {
	return &world{
		t: t, things: make(map[thingKey]*thing), sources: make(map[string]string), replicas: make(map[string]int), sent: make(map[plan.ID]int64),
		deaf: make(map[string]bool), mute: make(map[string]chan struct{}), of: make(map[plan.ID]plan.ID), rates: make(map[plan.ID]int64),
	}
}

func (w *world) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// thing is what there is of a placement; the zero value if nothing is.
func (w *world) thing(controller string, id plan.ID) thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	if th := w.things[thingKey{controller, id}]; th != nil {
		return *th
	}
	return thing{}
}

// process is one controller: it dies at its step number dies (steps are changes of the world and appends), before it or, with after, when it was done.
type process struct {
	w     *world
	name  string
	j     Journal
	mu    sync.Mutex
	dies  int
	after bool
	steps int
	dead  bool
	died  chan struct{}
	// stop holds up the process in its change of the world number stopAt, after the fence, until it is closed.
	stopAt, changes int
	stop            chan struct{}
	stopped         chan struct{}
}

var errDead = errors.New("the process is dead")

// step does one thing that others can see, unless the process is dead.
func (p *process) step(f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	p.steps++
	if p.steps == p.dies && !p.after {
		p.die()
		return errDead
	}
	err := f()
	if p.steps == p.dies {
		p.die()
		return errDead
	}
	return err
}

func (p *process) die() {
	p.dead = true
	close(p.died)
}

func (p *process) Append(records ...journal.Record) (n uint64, err error) {
	err = p.step(func() error {
		n, err = p.j.Append(records...)
		return err
	})
	return n, err
}

func (p *process) Read(from uint64, each func(journal.Record) error) error {
	return p.j.Read(from, each)
}
func (p *process) LastPlacement() (uint64, error) { return p.j.LastPlacement() }
func (p *process) Compact(over func(uint64) bool) error {
	return p.step(func() error { return p.j.Compact(over) })
}

// Held is the lease: whoever took it last has it.
func (p *process) Held(ctx context.Context) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	switch {
	case p.w.holder != p:
		return store.ErrNotHeld
	case p.w.deaf["lease"]:
		return store.ErrUnavailable
	}
	return ctx.Err()
}

// change is one change of the world, after the fence.
func (p *process) change(ctx context.Context, t controller.Tools, f func()) error {
	p.w.mu.Lock()
	if p.w.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	p.w.mu.Unlock()
	if err := t.Fence(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.changes++
	stops := p.changes == p.stopAt
	p.mu.Unlock()
	if stops {
		close(p.stopped)
		<-p.stop
	}
	return p.step(func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		f()
		return nil
	})
}

// pauses has the process be stopped (as by SIGSTOP) in its change of the world number n.
func (p *process) pauses(n int) {
	p.stopAt, p.stop, p.stopped = n, make(chan struct{}), make(chan struct{})
}

func (w *world) replicasOf(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[path]
}

// fakeMaker makes things of any means.
type fakeMaker struct{ p *process }

func (m fakeMaker) begin(ctx context.Context, call string, p controller.Placement) error {
	w := m.p.w
	w.mu.Lock()
	w.calls = append(w.calls, fmt.Sprintf("%s %d", call, p.Make.ID))
	behave, deaf := w.behave, w.deaf[p.Make.Site]
	if w.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	w.mu.Unlock()
	if behave != nil {
		if err := behave(ctx, call, p); err != nil {
			return err
		}
	}
	if deaf {
		return &controller.Error{Reason: plan.ReasonSite, Err: errors.New("it does not answer")}
	}
	return ctx.Err()
}

func (m fakeMaker) key(p controller.Placement) thingKey { return thingKey{m.p.name, p.Make.ID} }

func (m fakeMaker) Fact(ctx context.Context, a plan.Make) (json.RawMessage, error) {
	if err := m.begin(ctx, "fact", controller.Placement{Make: a}); err != nil {
		return nil, err
	}
	if a.Means == plan.Copy || a.Means == plan.Sibling {
		return nil, nil
	}
	m.p.w.mu.Lock()
	defer m.p.w.mu.Unlock()
	return json.Marshal(m.p.w.replicas[a.Path])
}

// mark writes the mark, or renews it.
func (m fakeMaker) mark(ctx context.Context, p controller.Placement, t controller.Tools) error {
	return m.p.change(ctx, t, func() {
		w := m.p.w
		th := w.things[m.key(p)]
		if th == nil {
			th = &thing{site: p.Make.Site}
			w.things[m.key(p)] = th
		}
		th.written = time.Now().Add(w.skew)
		th.mark = temporary.Mark{
			Version: 1, Controller: m.p.name, Placement: p.Make.ID, Means: p.Make.Means, Path: p.Make.Path, Identity: p.Make.Identity, TTL: p.Lease, Job: p.Make.Job,
		}
		if p.Fact != nil {
			was := 0
			_ = json.Unmarshal(p.Fact, &was)
			th.mark.Was, th.mark.Raised = &temporary.State{Replicas: was}, &temporary.State{Replicas: was + p.Make.Extra}
		}
	})
}

func (m fakeMaker) Make(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	w := m.p.w
	if err := m.begin(ctx, "make", p); err != nil {
		return controller.Made{}, err
	}
	w.mu.Lock()
	if p.Of != nil {
		w.of[p.Make.ID] = p.Of.Make.ID
	}
	w.rates[p.Make.ID], _ = t.Rate()
	w.mu.Unlock()
	if err := m.mark(ctx, p, t); err != nil {
		return controller.Made{}, err
	}
	if err := m.transfer(ctx, p, t); err != nil {
		return controller.Made{}, err
	}
	var gone error
	err := m.p.change(ctx, t, func() {
		if w.sources[p.Make.Path] != p.Make.Identity {
			gone = store.ErrIdentity
			return
		}
		if p.Make.Means == plan.Raise || p.Make.Means == plan.StorageType {
			was := 0
			_ = json.Unmarshal(p.Fact, &was)
			w.replicas[p.Make.Path] = was + p.Make.Extra // whether the mark is still there or not
			return
		}
		th := w.things[m.key(p)]
		if th == nil { // what has no mark any more is an orphan
			th = &thing{site: p.Make.Site, mark: temporary.Mark{Controller: m.p.name, Placement: p.Make.ID, Means: "orphan"}}
			w.things[m.key(p)] = th
		}
		th.data = w.sources[p.Make.Path]
	})
	made := controller.Made{Digest: "digest of " + p.Make.Identity, Short: p.Make.Extra / 2}
	if p.Make.Of != 0 {
		made.Reused = p.Make.Content
	}
	return made, errors.Join(err, gone)
}

// transfer takes the time that the bytes need at the rate that they may have. Each quarter is a change of the world.
func (m fakeMaker) transfer(ctx context.Context, p controller.Placement, t controller.Tools) error {
	const pieces = 4
	w := m.p.w
	for p.Make.Of == 0 {
		w.mu.Lock()
		sent := w.sent[p.Make.ID]
		w.mu.Unlock()
		if sent >= pieces {
			break
		}
		if err := m.piece(ctx, (p.Make.Bytes+pieces-1)/pieces, t); err != nil {
			return err
		}
		if err := m.p.change(ctx, t, func() { w.sent[p.Make.ID]++ }); err != nil {
			return err
		}
		t.Progress((sent + 1) * p.Make.Bytes / pieces)
	}
	return nil
}

// piece takes the time that some bytes need.
func (m fakeMaker) piece(ctx context.Context, left int64, t controller.Tools) error {
	for left > 0 {
		rate, changed := t.Rate()
		var ready <-chan time.Time
		if rate > 0 {
			ready = time.After(time.Duration(float64(left) / float64(rate) * float64(time.Second)))
		}
		began := time.Now()
		select {
		case <-ready:
			return nil
		case <-changed:
		case <-m.p.died:
			return errDead
		case <-ctx.Done():
			return ctx.Err()
		}
		left -= int64(float64(rate) * time.Since(began).Seconds())
	}
	return nil
}

func (m fakeMaker) Publish(ctx context.Context, p controller.Placement, t controller.Tools) error {
	w := m.p.w
	if err := m.begin(ctx, "publish", p); err != nil {
		return err
	}
	if err := m.mark(ctx, p, t); err != nil {
		return err
	}
	return m.p.change(ctx, t, func() {
		th := w.things[m.key(p)]
		switch {
		case th == nil:
			return
		case p.Publish == nil || p.Publish.Identity != p.Make.Identity:
			w.fault("%d is published as %+v, of %+v", p.Make.ID, p.Publish, p.Make)
		case p.Make.Means != plan.Even && th.data != p.Make.Identity:
			w.fault("%d is published as version %s and has %q", p.Make.ID, p.Make.Identity, th.data)
		}
		th.row = p.Publish.Identity
	})
}

func (m fakeMaker) Extend(ctx context.Context, p controller.Placement, t controller.Tools) error {
	if err := m.begin(ctx, "extend", p); err != nil {
		return err
	}
	return m.mark(ctx, p, t)
}

func (m fakeMaker) Withdraw(ctx context.Context, p controller.Placement, t controller.Tools) error {
	if err := m.begin(ctx, "withdraw", p); err != nil {
		return err
	}
	return m.p.change(ctx, t, func() {
		if th := m.p.w.things[m.key(p)]; th != nil {
			th.row = ""
			if p.Make.Means == plan.Even {
				delete(m.p.w.things, m.key(p))
			}
		}
	})
}

func (m fakeMaker) Remove(ctx context.Context, p controller.Placement, t controller.Tools) error {
	if err := m.begin(ctx, "remove", p); err != nil {
		return err
	}
	return m.p.undo(ctx, m.key(p), t.Fence)
}

// undo removes a thing, in two steps.
func (p *process) undo(ctx context.Context, key thingKey, fence func(context.Context) error) error {
	t := controller.Tools{Fence: fence}
	err := p.change(ctx, t, func() {
		if th := p.w.things[key]; th != nil {
			th.row, th.data = "", ""
			if m := th.mark; m.Was != nil {
				p.w.replicas[m.Path] = m.Was.Replicas
			}
		}
	})
	if err != nil {
		return err
	}
	return p.change(ctx, t, func() { delete(p.w.things, key) })
}

// Places, SurveyOf, Undo and Again are the World of a process.
func (p *process) Places() []string { return []string{"", "east", "west"} }

func (p *process) SurveyOf(ctx context.Context, site string) (list []Leaving, err error) {
	p.w.mu.Lock()
	mute, deaf := p.w.mute[site], p.w.deaf[site]
	p.w.mu.Unlock()
	if mute != nil {
		select {
		case <-mute:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if deaf {
		return nil, store.ErrUnavailable
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, th := range p.w.things {
		if th.site == site {
			left := th.written.Add(th.mark.TTL).Sub(time.Now().Add(p.w.skew))
			list = append(list, Leaving{Site: th.site, Mark: th.mark, Left: left, Shown: th.row != "", Ours: !strings.HasPrefix(th.mark.Controller, "foreign")})
		}
	}
	slices.SortFunc(list, func(a, b Leaving) int {
		return strings.Compare(fmt.Sprint(a.Mark.Controller, a.Mark.Placement), fmt.Sprint(b.Mark.Controller, b.Mark.Placement))
	})
	return list, nil
}

func (p *process) Undo(ctx context.Context, found Leaving, fence func(context.Context) error) error {
	return p.undo(ctx, thingKey{found.Mark.Controller, found.Mark.Placement}, fence)
}

func (p *process) Again(ctx context.Context, found Leaving, fence func(context.Context) error) (again bool, err error) {
	err = p.change(ctx, controller.Tools{Fence: fence}, func() {
		if m := found.Mark; p.w.replicas[m.Path] == m.Raised.Replicas {
			again = true
			p.w.replicas[m.Path] = m.Was.Replicas
		}
	})
	return again, err
}

// Look and Inspect are the Looker of a process.
func (p *process) Look(_ context.Context, paths []string) []plan.File {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	var files []plan.File
	for _, path := range paths {
		files = append(files, plan.File{Path: path, Identity: p.w.sources[path], Size: 64 << 20, Blocks: 1, Replicas: 3})
	}
	return files
}

func (p *process) Inspect(_ context.Context, path string) plan.Checkpoint {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return plan.Checkpoint{Path: path, Identity: p.w.sources[path], Complete: true, Bytes: 1 << 30}
}
