package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestAhead: so many parts are read ahead as the cores work off while one is read, within bounds.
func TestAhead(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		read, work  time.Duration
		cores, want int
	}{
		{0, 0, 4, 0}, // nothing is known
		{0, 10 * ms, 4, 0},
		{1, 10 * ms, 4, 1},
		{5 * ms, 10 * ms, 1, 1},
		{10 * ms, 10 * ms, 4, 4},
		{11 * ms, 10 * ms, 4, 5},
		{15 * ms, 10 * ms, 1, 2},
		{time.Hour, 10 * ms, 4, maxAhead * 4},
		{10 * ms, 0, 4, maxAhead * 4},
		{10 * ms, 10 * ms, 0, 0},
	} {
		s := pace{c.read, c.work}
		if got := s.ahead(c.cores); got != c.want {
			t.Errorf("reading %v, work %v, %d cores: %d ahead, want %d", c.read, c.work, c.cores, got, c.want)
		}
	}
}

// TestPaceLearns: the two stages are told apart, and an average moves towards what is seen.
func TestPaceLearns(t *testing.T) {
	var s pace
	s.learn(cost{wall: 30 * time.Millisecond, read: 10 * time.Millisecond})
	if want := (pace{10 * time.Millisecond, 20 * time.Millisecond}); s != want {
		t.Errorf("%v after the first, want %v", s, want)
	}
	for range 100 {
		s.learn(cost{wall: 50 * time.Millisecond, read: 45 * time.Millisecond})
	}
	if s.read < 44*time.Millisecond || s.read > 45*time.Millisecond || s.work < 5*time.Millisecond || s.work > 6*time.Millisecond {
		t.Errorf("%v after many of 45 and 5 ms", s)
	}
}

// TestWorkersDoNotWaitForReads: while the one worker has a part the next one is read, and it never has two.
func TestWorkersDoNotWaitForReads(t *testing.T) {
	c := newCluster(t)
	const known, until = 2, 12 // after the first are done it is known that reading takes time; enough samples follow these
	var r *liveAgent
	var now, runs atomic.Int64
	ready := make(chan struct{})
	r = c.start("dn1", func(o *Options) {
		o.Workers = 1
		o.Pool.(*fakePool).act = func(ctx context.Context, _ uint64) error {
			<-ready
			defer now.Add(-1)
			if now.Add(1) > 1 {
				t.Error("two samples at once on one worker")
			}
			if n := runs.Add(1); n > known && n < until {
				for r.reads(t) <= uint64(n) && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}
			return ctx.Err()
		}
	})
	close(ready)
	tr := c.trainer("job", "1", "")
	tr.taken(0)
	eventually(t, "samples are prepared, each while the next one is read", func() bool { return runs.Load() > until })
}

// reads returns how many parts were read.
func (r *liveAgent) reads(t testing.TB) uint64 {
	families, err := r.metrics.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		if f.GetName() == "stepahead_agent_read_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}
