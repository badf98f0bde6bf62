package copies

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller"
)

// valve is a rate that a test changes.
type valve struct {
	mu      sync.Mutex
	rate    int64
	changed chan struct{}
}

func newValve(rate int64) *valve { return &valve{rate: rate, changed: make(chan struct{})} }

func (v *valve) get() (int64, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rate, v.changed
}

func (v *valve) set(rate int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rate = rate
	close(v.changed)
	v.changed = make(chan struct{})
}

// TestGate: in the time of a bubble, many who take get the rate as it is at the moment; at 0 nothing; and after it at once.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 16 << 20
		v := newValve(rate)
		g := newGate(realClock{time.Now()}, v.get)
		ctx, cancel := context.WithCancel(t.Context())
		got := atomic.Int64{}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for {
					n := g.slice()
					if err := g.take(ctx, n); err != nil {
						return
					}
					got.Add(n)
				}
			})
		}
		expect := func(what string, d time.Duration, least, most int64) {
			t.Helper()
			before := got.Load()
			time.Sleep(d)
			synctest.Wait()
			if n := got.Load() - before; n < least || n > most {
				t.Errorf("%s: %d bytes in %v, want %d to %d", what, n, d, least, most)
			}
		}
		slice := sliceOf(rate)
		expect("at the rate", 10*time.Second, 10*rate-2*slice, 10*rate+2*slice)
		v.set(0)
		synctest.Wait()
		expect("paused", time.Hour, 0, 0)
		v.set(rate)
		synctest.Wait()
		expect("resumed", time.Second, rate-2*slice, rate+2*slice)
		v.set(rate / 16)
		synctest.Wait()
		expect("slower", 16*time.Second, rate-2*slice, rate+2*slice)
		v.set(64 * rate)
		synctest.Wait()
		expect("faster", time.Second, 62*rate, 69*rate)
		v.set(0)
		cancel()
		all.Wait()
	})
}

// TestPausedMaking: when the rate falls to 0 nothing more is read of the original, and nothing is lost when it rises again. In a bubble everything stands still
// before it is looked at.
func TestPausedMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.home.put(t, "/tag", deepSpeed())
		p := w.placement("/tag")
		v := newValve(1 << 30)
		reads, paused, late := atomic.Int64{}, atomic.Bool{}, atomic.Int64{}
		w.home.watch(nil, func(op, name string) error {
			if op != "read" {
				return nil
			}
			if paused.Load() {
				late.Add(1)
			}
			if reads.Add(1) == 2 {
				v.set(0)
				paused.Store(true)
			}
			return nil
		})
		w.mk.o.Transfers = 1 // what has its permission is still read
		done := make(chan error, 1)
		var made controller.Made
		go func() {
			var err error
			made, err = w.mk.Make(w.ctx, p, controller.Tools{Rate: v.get})
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("a paused making ended: %v", err)
		default:
		}
		if n := late.Load(); n != 0 || !paused.Load() {
			t.Errorf("%d reads at rate 0, after %d before", n, reads.Load())
		}
		paused.Store(false)
		v.set(1 << 30)
		must(t, <-done)
		w.wantCopy(p, made)
		w.remove(p)
	})
}
