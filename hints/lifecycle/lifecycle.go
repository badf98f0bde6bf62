// Package lifecycle tells storage what comes of a job's checkpoints and starts: it finds the agents, and sends each hint until one of them
// has it. Nobody waits for it.
package lifecycle

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
	"github.com/stepahead-io/stepahead/store"
)

// Options configure an [Announcer]. Only Open, Job and Run have no default.
type Options struct {
	// Open opens the store whose agents are told. It is called when the first hint is to be sent, and again until it succeeds; the store is
	// closed by whoever opened it, after Close.
	Open func(ctx context.Context) (store.Store, error)
	// Registry is the folder in which agents register. Default hints.DefaultRegistry.
	Registry string
	// Agents are as in discovery.Options. Default: those of the registry.
	Agents []string
	// Token is sent to agents that may be trusted with it. Default none.
	Token string
	// TLS secures the connections. Default: plain text, to loopback addresses only.
	TLS *tls.Config
	// Dial opens a connection. Default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Job and Run name the sender. With a token the job is the token's.
	Job, Run string
	// Report, if not nil, gets what was not told, and why. It is called by several goroutines, and may call the Announcer's methods but Flush and
	// Close.
	Report func(error)

	testing struct {
		now   func() time.Time
		pause func(ctx context.Context, d time.Duration) error
	}
}

// Stats say what became of hints.
type Stats struct {
	// Told hints are kept by an agent at least. Refused ones no agent wants; Lost ones no agent could be told.
	Told, Refused, Lost int
}

// Plus adds up.
func (s Stats) Plus(o Stats) Stats {
	return Stats{Told: s.Told + o.Told, Refused: s.Refused + o.Refused, Lost: s.Lost + o.Lost}
}

// Errors that Report gets.
var (
	// ErrLost: no agent could be told.
	ErrLost = errors.New("storage was not told")
	// ErrRefused: the agents do not take it.
	ErrRefused = errors.New("the agents refuse it")
)

// mostWaiting bounds the hints that wait to be sent; the oldest goes first.
const mostWaiting = 1024

// Announcer sends hints in the order in which they were given, one after the other. Its methods are safe for concurrent use.
type Announcer struct {
	o      Options
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{} // holds a token when there may be something to send

	mu      sync.Mutex
	waiting []*message
	sending int           // messages that are being sent
	idle    chan struct{} // closed when nothing waits any more; nil while nobody wants to know
	last    uint64        // sequence
	stats   Stats
	closed  bool
}

// message is a hint to be sent.
type message struct {
	hint     hints.Hint
	said     time.Time
	complete func(ctx context.Context, h *hints.Hint) error
}

// New returns an announcer. It does no I/O; what it starts ends with Close.
func New(o Options) (*Announcer, error) {
	o.Registry = cmp.Or(o.Registry, hints.DefaultRegistry)
	if len(o.Agents) == 0 {
		o.Agents = []string{discovery.Auto}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.testing.now == nil {
		o.testing.now = time.Now
	}
	if o.testing.pause == nil {
		o.testing.pause = store.Sleep
	}
	if o.Token != "" {
		job, err := hints.TokenJob(o.Token)
		if err != nil {
			return nil, fmt.Errorf("lifecycle.New: token: %w: give one that `stepahead token mint` made", err)
		}
		if o.Job != "" && o.Job != job {
			return nil, fmt.Errorf("lifecycle.New: job: %.64q: the token is of job %q: leave job out, or mint a token for that job: %w", o.Job, job, fs.ErrInvalid)
		}
		o.Job = job
	}
	if o.Open == nil || o.Job == "" || o.Run == "" {
		return nil, fmt.Errorf("lifecycle.New: Open, Job and Run must be given: %w", fs.ErrInvalid)
	}
	for _, a := range o.Agents {
		if a == discovery.Auto {
			continue
		}
		if _, _, err := discovery.Split(a); err != nil {
			return nil, fmt.Errorf("lifecycle.New: %w: %w", err, fs.ErrInvalid)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Announcer{o: o, cancel: cancel, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	go a.run(ctx)
	return a, nil
}

// Say has a hint of kind Start, Checkpoint or Close sent: it fills in ID, Job, Run, a TTL and confidence that are 0, and the sequence of a
// checkpoint, which is that of the calls, and, as often as it is sent, how long ago it was said. A hint that is not valid is an error. complete, if not nil, fills in the rest before the hint
// is sent; its error is reported, and the hint not sent. Files that it has no room for are left out (hints.Hint.Fit).
func (a *Announcer) Say(h hints.Hint, complete func(ctx context.Context, h *hints.Hint) error) error {
	full, err := a.add(h, complete)
	if err != nil {
		return fmt.Errorf("lifecycle.Say: %w", err)
	}
	if full {
		a.o.Report(fmt.Errorf("%w: more than %d hints wait to be sent", ErrLost, mostWaiting))
	}
	return nil
}

// add fills in a hint and has it wait. full says that the oldest had to go.
func (a *Announcer) add(h hints.Hint, complete func(ctx context.Context, h *hints.Hint) error) (full bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false, fs.ErrClosed
	}
	h.ID, h.Job, h.Run = hints.NewID(), a.o.Job, a.o.Run
	if h.TTL == 0 {
		h.TTL = time.Hour
	}
	if h.Confidence == 0 {
		h.Confidence = 1
	}
	if c := h.Checkpoint; c != nil {
		a.last = max(a.last+1, uint64(a.o.testing.now().UnixNano()))
		own := *c
		own.Sequence = a.last
		h.Checkpoint = &own
	}
	if err := h.Validate(); err != nil {
		return false, err
	}
	if full = len(a.waiting) == mostWaiting; full {
		a.waiting = a.waiting[1:]
		a.stats.Lost++
	}
	a.waiting = append(a.waiting, &message{h, a.o.testing.now(), complete})
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return full, nil
}

// Flush waits until everything said so far was told, refused or lost, or until ctx ends.
func (a *Announcer) Flush(ctx context.Context) error {
	a.mu.Lock()
	if len(a.waiting)+a.sending == 0 || a.closed {
		a.mu.Unlock()
		return nil
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lifecycle.Flush: %w", ctx.Err())
	}
}

// Stats says what became of hints so far.
func (a *Announcer) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// Close ends what is under way: what was not sent is lost. Flush before it. A second call does nothing.
func (a *Announcer) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	<-a.ended
}

// take returns the next message, after the one before was sent; nil if there is none, which Flush hears of.
func (a *Announcer) take() *message {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sending = 0
	if len(a.waiting) == 0 {
		if a.idle != nil {
			close(a.idle)
			a.idle = nil
		}
		return nil
	}
	m := a.waiting[0]
	a.waiting = a.waiting[1:]
	a.sending = 1
	return m
}

// run sends what is said until ctx ends, after which what still waits is lost.
func (a *Announcer) run(ctx context.Context) {
	defer close(a.ended)
	s := &sender{a: a}
	defer s.close()
	for over := false; ; {
		for m := a.take(); m != nil; m = a.take() {
			s.send(ctx, m)
		}
		if over {
			return
		}
		select {
		case <-ctx.Done():
			over = true // once more: something may have been said meanwhile
		case <-a.wake:
		}
	}
}

func (a *Announcer) count(change func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.stats)
}
