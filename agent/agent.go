// Package agent turns schedules into ready tensors within its budgets, and answers each fetch with a
// tensor, or with raw bytes and the reason.
package agent

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/stepahead-io/stepahead/hints"
)

// rawMemory bounds the raw bytes that all fetches hold at once.
const rawMemory = 256 << 20

// Agent prepares what training jobs will fetch. [New] makes one and [Agent.Run] runs it. It implements
// hints.Handler and fetch.Handler.
type Agent struct {
	o       Options
	metrics *metrics
	records records
	buffers buffers
	raw     *semaphore.Weighted
	mail    *mailbox[envelope]
	inbox   *hints.Inbox
	golden  goldenOnce
	rights  rights
	tasks   tasks
	// relaying holds whoever keeps a hint for the controller.
	relaying chan struct{}
	ticket   atomic.Uint64
	ran      atomic.Bool
	began    time.Time
	beat     atomic.Int64  // time of the loop's latest turn, in nanoseconds since began
	leaving  chan struct{} // closed when the agent is asked to stop
	ended    chan struct{} // closed when the loop has ended
	group    sync.WaitGroup
}

// New returns an agent. It does no I/O and starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("agent.New: %w", err)
	}
	o = o.withDefaults()
	m, err := newMetrics(o.Metrics, o.Memory)
	if err != nil {
		return nil, fmt.Errorf("agent.New: %w", err)
	}
	a := &Agent{
		o:       o,
		metrics: m,
		buffers: buffers{limit: o.Memory},
		raw:     semaphore.NewWeighted(rawMemory),
		mail:    newMailbox[envelope](),
		inbox:   hints.NewInbox(),

		relaying: make(chan struct{}, 1),
		began:    time.Now(),
		leaving:  make(chan struct{}),
		ended:    make(chan struct{}),
	}
	a.rights = rights{access: o.Access, age: o.AccessAge, now: a.now}
	return a, nil
}

// now is the agent's clock: monotonic, from when it was made.
func (a *Agent) now() time.Duration { return time.Since(a.began) }

// goldenOnce asks the workers for their golden digests until they answer.
type goldenOnce struct {
	mu      sync.Mutex
	digests map[string]string
}

func (g *goldenOnce) get(ctx context.Context, pool Runner) (map[string]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.digests != nil {
		return g.digests, nil
	}
	digests, err := pool.Golden(ctx)
	if err == nil {
		g.digests = digests
	}
	return digests, err
}
