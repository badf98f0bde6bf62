package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/transform"
)

// ErrClosed is returned by a Pool that was closed.
var ErrClosed = errors.New("worker pool is closed")

// The reasons for which worker processes are lost; the keys of Stats.Killed.
const (
	reasonCrash    = "crash"    // died by itself, a kill by the kernel included
	reasonDeadline = "deadline" // took longer than Options.Deadline
	reasonCancel   = "cancel"   // its job's context ended
	reasonProtocol = "protocol" // said something impossible
	reasonStart    = "start"    // did not come up, or speaks another version
	reasonRetired  = "retired"  // used its share of CPU time, or a picture left it too large
	reasonClosed   = "closed"   // the pool was closed
)

// Stats is a snapshot of a Pool.
type Stats struct {
	Running int              // worker processes alive
	Busy    int              // jobs at work or starting a worker
	Started int64            // worker processes ever started
	Killed  map[string]int64 // worker processes lost, by reason: crash, deadline, cancel, protocol, start, retired, closed
	// Isolation lists what confines the workers, joined by "+"; "" before the first start. All that there is reads
	// process+rlimits+no_new_privs+landlock+landlock_net+landlock_scope+seccomp+sched_idle, the last when asked for.
	Isolation string
}

// Pool is a set of worker processes that start on demand and stay warm. It is safe for concurrent use.
type Pool struct {
	o      Options
	places chan struct{} // one token a job, Options.Workers in all
	closed chan struct{}

	mu        sync.Mutex
	idle      []*process // the last used is the next used: its memory is warm
	live      map[*process]struct{}
	emptied   sync.WaitGroup // one for each of live
	started   int64
	killed    map[string]int64
	golden    map[string]string // of the first worker; all others must agree
	isolation string
	gone      time.Duration // CPU time of dead workers
	failures  int           // starts that failed in a row
	pause     chan struct{} // closed when the next start may be tried; nil: at once
}

// New returns a pool. It starts nothing.
func New(o Options) (*Pool, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	p := &Pool{
		o: o, places: make(chan struct{}, o.Workers), closed: make(chan struct{}),
		live: map[*process]struct{}{}, killed: map[string]int64{},
	}
	for _, r := range []string{reasonCrash, reasonDeadline, reasonCancel, reasonProtocol, reasonStart, reasonRetired, reasonClosed} {
		p.killed[r] = 0
	}
	return p, nil
}

// acquire waits for a place and returns a worker that is up. The caller gives it back with release.
func (p *Pool) acquire(ctx context.Context) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, ErrClosed
	}
	for {
		w := p.takeIdle()
		if w == nil {
			break
		}
		if !w.gone() {
			return w, nil
		}
		p.bury(w)
	}
	w, err := p.start(ctx)
	if err != nil {
		<-p.places
	}
	return w, err
}

func (p *Pool) takeIdle() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	w := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return w
}

// release gives a worker and its place back; one that is not fit for another job is replaced on demand.
func (p *Pool) release(w *process) {
	defer func() { <-p.places }()
	if w.killedFor() == "" && !w.gone() && (w.unfit || w.spent() > workerLife) {
		w.kill(reasonRetired)
	}
	if w.killedFor() != "" || w.gone() {
		p.bury(w)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

// bury waits until a worker is gone, accounts for it and frees its memory. The caller owns it, and has killed it or
// seen it die.
func (p *Pool) bury(w *process) {
	<-w.dead
	reason := w.killedFor()
	if reason == "" {
		reason = reasonCrash
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, w)
	p.killed[reason]++
	p.gone += w.cpu()
	w.free()
	p.emptied.Done()
}

// start brings a new worker up. After failures it first waits, so that a broken program costs its callers time
// instead of the host's CPU.
func (p *Pool) start(ctx context.Context) (*process, error) {
	if err := p.backOff(ctx); err != nil {
		return nil, err
	}
	path, err := Find(p.o.Path)
	if err != nil {
		return nil, p.startFailed(Program, err)
	}
	w, err := spawn(path, p.o)
	if err != nil {
		return nil, p.startFailed(path, err)
	}
	if !p.adopt(w) {
		w.kill(reasonClosed)
		<-w.dead
		w.free()
		return nil, ErrClosed
	}
	if err := p.greet(ctx, w); err != nil {
		w.kill(reasonStart)
		p.bury(w)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case w.killedFor() == reasonClosed:
			return nil, ErrClosed
		}
		return nil, p.startFailed(path, fmt.Errorf("%w; it ended: %s", err, w.obituary()))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.pause = 0, nil
	return w, nil
}

// adopt puts a new process on the books, unless the pool is closed.
func (p *Pool) adopt(w *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
	}
	p.started++
	p.live[w] = struct{}{}
	p.emptied.Add(1)
	return true
}

// The pause after the first failed start, and the longest.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

func (p *Pool) backOff(ctx context.Context) error {
	p.mu.Lock()
	pause := p.pause
	p.mu.Unlock()
	if pause == nil {
		return nil
	}
	select {
	case <-pause:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return ErrClosed
	}
}

func (p *Pool) startFailed(path string, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := make(chan struct{})
	time.AfterFunc(min(firstPause<<min(p.failures, 20), lastPause), func() { close(pause) })
	p.failures, p.pause = p.failures+1, pause
	return &transform.Error{Kind: transform.KindIO, Op: "worker.Pool", Detail: fmt.Sprintf("starting %s: %v", path, cause)}
}

// Golden returns operator identity -> golden digest (hex) as the worker program reports them. It starts a worker
// if none ever ran. The map is the caller's.
func (p *Pool) Golden(ctx context.Context) (map[string]string, error) {
	p.mu.Lock()
	golden := maps.Clone(p.golden)
	p.mu.Unlock()
	if golden != nil {
		return golden, nil
	}
	w, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	p.release(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.golden), nil
}

// CPU returns the user and system time of all workers so far, dead ones included. It never falls.
func (p *Pool) CPU() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.gone
	for w := range p.live {
		sum += w.cpu()
	}
	return sum
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := 0
	for w := range p.live {
		if !w.gone() {
			running++
		}
	}
	return Stats{
		Running: running, Busy: len(p.places), Started: p.started,
		Killed: maps.Clone(p.killed), Isolation: p.isolation,
	}
}

// Close kills all workers, ends running jobs with ErrClosed, and returns when every process is gone. A second
// call does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	for w := range p.live {
		w.kill(reasonClosed)
	}
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		p.bury(w)
	}
	p.emptied.Wait()
	return nil
}

// learn records what the first worker says of itself, and refuses a later one that differs: the program on disk has
// been replaced, and its pixels might be others.
func (p *Pool) learn(golden map[string]string, isolation []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if golden == nil {
		golden = map[string]string{}
	}
	if p.golden == nil {
		p.golden = golden
	}
	if !maps.Equal(p.golden, golden) {
		return errors.New("its golden digests differ from those of the first worker: the program was replaced while this process ran; restart")
	}
	p.isolation = strings.Join(isolation, "+")
	return nil
}
