package hdfs

import (
	"context"
	"sync"
	"time"
)

// leaseBeat is how often a lease is renewed: HDFS lets others take one that is not for a minute.
const leaseBeat = 20 * time.Second

// lease keeps a file that is being written its writer's. It starts no goroutine that lasts.
type lease struct {
	renew  func(ctx context.Context) error
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer
	last  error // of the last renewal
}

// keepLease renews until ctx ends or the lease is dropped. A renewal that fails is followed by the next: whether the lease
// is lost is told by the call that needs it.
func keepLease(ctx context.Context, every time.Duration, renew func(ctx context.Context) error) *lease {
	l := &lease{renew: renew}
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(every, func() { l.beat(every) })
	return l
}

func (l *lease) beat(every time.Duration) {
	ctx, cancel := context.WithTimeout(l.ctx, every)
	defer cancel()
	err := l.renew(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil {
		l.last = err
		l.timer.Reset(every)
	}
}

// failure is that of the last renewal, nil if it did not fail.
func (l *lease) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// drop ends it. It may be called again.
func (l *lease) drop() {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
}
