package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	raised  bool
	was     int
}

type thingKey struct {
	controller string
	id         plan.ID
}

// world is what all processes share.
type world struct {
	t        testing.TB
	mu       sync.Mutex
	things   map[thingKey]*thing
	sources  map[string]string // versions by path
	replicas map[string]int
	skew     time.Duration // of the stores' clock
	wrong    []string
	holder   *process // of the lease
	sent     map[plan.ID]int64
	calls    []string
	behave   func(ctx context.Context, call string, p controller.Placement) error // before a call of a maker; nil: nothing
	deaf     map[string]bool                                                      // sites that do not answer
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, things: make(map[thingKey]*thing), sources: make(map[string]string), replicas: make(map[string]int), sent: make(map[plan.ID]int64),
		deaf: make(map[string]bool),
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
	// stop holds up the process in its next change of the world, after the fence, until it is closed.
	stop    chan struct{}
	stopped chan struct{}
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
	if err := t.Fence(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	stop, stopped := p.stop, p.stopped
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stopped)
		<-stop
	}
	return p.step(func() error {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		f()
		return nil
	})
}

// pause stops the process (as SIGSTOP does) in its next change of the world.
func (p *process) pause() (stopped, resume chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop, p.stopped = make(chan struct{}), make(chan struct{})
	return p.stopped, p.stop
}

// fakeMaker makes things of any means.
type fakeMaker struct{ p *process }

func (m fakeMaker) begin(ctx context.Context, call string, p controller.Placement) error {
	w := m.p.w
	w.mu.Lock()
	w.calls = append(w.calls, fmt.Sprintf("%s %d", call, p.Make.ID))
	behave, deaf := w.behave, w.deaf[p.Make.Site]
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
		if p.Fact != nil {
			_ = json.Unmarshal(p.Fact, &th.was)
		}
		th.written = time.Now().Add(w.skew)
		th.mark = temporary.Mark{
			Version: 1, Controller: m.p.name, Placement: p.Make.ID, Means: p.Make.Means, Path: p.Make.Path, Identity: p.Make.Identity, TTL: p.Lease, Job: p.Make.Job,
		}
	})
}

func (m fakeMaker) Make(ctx context.Context, p controller.Placement, t controller.Tools) (controller.Made, error) {
	w := m.p.w
	if err := m.begin(ctx, "make", p); err != nil {
		return controller.Made{}, err
	}
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
		th := w.things[m.key(p)]
		if th == nil {
			gone = errors.New("the mark is not there any more")
			return
		}
		th.data = w.sources[p.Make.Path]
		if p.Make.Means == plan.Raise || p.Make.Means == plan.StorageType {
			th.raised = true
			w.replicas[p.Make.Path] = th.was + p.Make.Extra
		}
	})
	return controller.Made{Digest: "digest of " + p.Make.Identity}, errors.Join(err, gone)
}

// transfer takes the time that the bytes need at the rate that they may have.
func (m fakeMaker) transfer(ctx context.Context, p controller.Placement, t controller.Tools) error {
	w := m.p.w
	for p.Make.Of == 0 {
		w.mu.Lock()
		left := p.Make.Bytes - w.sent[p.Make.ID]
		w.mu.Unlock()
		if left <= 0 {
			return nil
		}
		rate, changed := t.Rate()
		var ready <-chan time.Time
		if rate > 0 {
			ready = time.After(time.Duration(float64(left) / float64(rate) * float64(time.Second)))
		}
		began := time.Now()
		select {
		case <-ready:
			rate = unbounded
		case <-changed:
		case <-m.p.died:
			return errDead
		case <-ctx.Done():
		}
		w.mu.Lock()
		w.sent[p.Make.ID] += min(left, int64(min(float64(left), float64(rate)*time.Since(began).Seconds())))
		if rate == unbounded {
			w.sent[p.Make.ID] = p.Make.Bytes
		}
		t.Progress(w.sent[p.Make.ID])
		w.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
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
			w.fault("%d is published and has no mark", p.Make.ID)
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
			if th.raised {
				th.raised = false
				p.w.replicas[th.mark.Path] = th.was
			}
		}
	})
	if err != nil {
		return err
	}
	return p.change(ctx, t, func() { delete(p.w.things, key) })
}

// Survey and Undo are the World of a process.
func (p *process) Survey(context.Context) Survey {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	s := Survey{Listed: make(map[string]bool)}
	for _, site := range []string{"", "east", "west"} {
		s.Listed[site] = !p.w.deaf[site]
	}
	for _, th := range p.w.things {
		if s.Listed[th.site] {
			left := th.written.Add(th.mark.TTL).Sub(time.Now().Add(p.w.skew))
			s.Leavings = append(s.Leavings, Leaving{Site: th.site, Mark: th.mark, Left: left, Ours: !strings.HasPrefix(th.mark.Controller, "foreign")})
		}
	}
	slices.SortFunc(s.Leavings, func(a, b Leaving) int {
		return strings.Compare(fmt.Sprint(a.Mark.Controller, a.Mark.Placement), fmt.Sprint(b.Mark.Controller, b.Mark.Placement))
	})
	return s
}

func (p *process) Undo(ctx context.Context, found Leaving, fence func(context.Context) error) error {
	return p.undo(ctx, thingKey{found.Mark.Controller, found.Mark.Placement}, fence)
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
