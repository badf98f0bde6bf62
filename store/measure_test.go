package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func TestMeasure(t *testing.T) {
	var m store.Metrics
	for _, o := range m.Snapshot() {
		if o.Operation == "" || o.Calls != 0 || len(o.Buckets) == 0 {
			t.Errorf("at the start: %+v", o)
		}
	}
	s := store.Measure(newDir(t), &m)
	storetest.Put(t, s, "/f", make([]byte, 1000))
	storetest.Get(t, s, "/f")
	f := storetest.Open(t, s, "/f")
	read(t.Context(), f, 990, 20)
	s.Open(t.Context(), "/missing")
	s.Stat(t.Context(), "/missing")
	s.Remove(t.Context(), "/missing")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stat(ctx, "/f")

	for operation, want := range map[string]store.OperationMetrics{
		"create": {Calls: 1}, "write": {Calls: 1, Bytes: 1000}, "close": {Calls: 1}, "open": {Calls: 3, NotFound: 1},
		"read": {Calls: 2, Failures: 1, Bytes: 1000}, "stat": {Calls: 2, NotFound: 1, Cancelled: 1}, "remove": {Calls: 1, Failures: 1},
		"list": {}, "locate": {}, "rename": {}, "replicate": {},
	} {
		got := counted(&m, operation)
		if (got.Duration > 0) != (want.Calls > 0) {
			t.Errorf("%s: %d calls took %v", operation, got.Calls, got.Duration)
		}
		if last := got.Buckets[len(got.Buckets)-1]; last.Count != got.Calls || last.UpTo != time.Minute {
			t.Errorf("%s: %d calls, last bucket %+v", operation, got.Calls, last)
		}
		if got.Calls != want.Calls || got.Failures != want.Failures || got.NotFound != want.NotFound ||
			got.Cancelled != want.Cancelled || got.Bytes != want.Bytes {
			t.Errorf("%s: %+v, want %+v", operation, got, want)
		}
	}
}

func TestMeasureConcurrently(t *testing.T) {
	var m store.Metrics
	s := store.Measure(newDir(t), &m)
	storetest.Put(t, s, "/f", make([]byte, 100))
	f := storetest.Open(t, s, "/f")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				read(t.Context(), f, 0, 100)
				m.Snapshot()
			}
		})
	}
	wg.Wait()
	if c := counted(&m, "read"); c.Calls != 800 || c.Bytes != 80_000 || c.Failures != 0 {
		t.Errorf("%+v", c)
	}
}
