package execute

import (
	"math"
	"sync"
	"time"
)

// unbounded is the rate of what sends nothing.
const unbounded = math.MaxInt64

// rate is how fast a placement may be made, and for how long it was not paused.
type rate struct {
	mu      sync.Mutex
	bytes   int64
	changed chan struct{}
	making  bool
	since   time.Duration
	ran     time.Duration
}

func newRate() *rate { return &rate{changed: make(chan struct{})} }

// set changes it at once.
func (r *rate) set(bytes int64, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(now)
	if bytes != r.bytes {
		r.bytes = bytes
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// account adds the time since the last change.
func (r *rate) account(now time.Duration) {
	if r.making && r.bytes > 0 {
		r.ran += now - r.since
	}
	r.since = now
}

func (r *rate) begin(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(now)
	r.making = true
}

// end returns how long all makings together were not paused.
func (r *rate) end(now time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(now)
	r.making = false
	return r.ran
}

func (r *rate) get() (int64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes, r.changed
}
