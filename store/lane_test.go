package store_test

import (
	"context"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func TestLane(t *testing.T) {
	ctx := t.Context()
	if got := store.LaneOf(ctx); got != store.Feed {
		t.Errorf("no lane is %d", got)
	}
	ctx, cancel := context.WithCancel(store.WithLane(ctx, store.Bulk))
	defer cancel()
	if got := store.LaneOf(ctx); got != store.Bulk {
		t.Errorf("lane %d", got)
	}
	if got := store.LaneOf(store.WithLane(ctx, store.Feed)); got != store.Feed {
		t.Errorf("lane %d", got)
	}
}

// bridging is a store whose files bridge holes.
type bridging struct{ store.Store }

type bridgingFile struct{ store.File }

func (bridgingFile) Bridges() int64 { return 77 }

func (b bridging) Open(ctx context.Context, name string) (store.File, error) {
	f, err := b.Store.Open(ctx, name)
	return bridgingFile{f}, err
}

// Decorators leave it to the file whether it bridges holes.
func TestBridges(t *testing.T) {
	s := newDir(t)
	storetest.Put(t, s, "/f", random(10))
	for want, inner := range map[int64]store.Store{0: bare{s}, 77: bridging{s}} {
		for _, s := range []store.Store{inner, store.Retry(inner, store.RetryOptions{}), store.Faults(store.Measure(inner, new(store.Metrics)), nil)} {
			if got := store.BridgesOf(storetest.Open(t, s, "/f")); got != want {
				t.Errorf("%T: %d, want %d", s, got, want)
			}
		}
	}
}
