package sources

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/store"
)

// stalled is a store whose changes are never answered.
type stalled struct{ store.Store }

func (stalled) Address(name string) string { return "stalled:" + name }

func (stalled) CreatePlaced(ctx context.Context, _ string, _ store.Placement) (store.Writer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stalled) MoveReplica(ctx context.Context, _ string, _ int64, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestChangesEnd: what begins a file, ends it, or moves a replica is over before another controller can be the active one.
func TestChangesEnd(t *testing.T) {
	none := controller.Tools{Fence: func(context.Context) error { return nil }}
	lies := func(node string) spread {
		return spread{Places: []place{{Node: node}}, Blocks: []placed{{Len: 1, At: []int{0}}}}
	}
	for what, change := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			life, cancel := context.WithCancel(ctx)
			defer cancel()
			c := copying{st: stalled{}, tools: none, cancel: cancel}
			_, err := c.create(ctx, life)
			return err
		},
		"close": func(ctx context.Context) error {
			life, cancel := context.WithCancel(ctx)
			defer cancel()
			c := copying{tools: none, cancel: cancel}
			return c.change(ctx, func() error {
				<-life.Done()
				return life.Err()
			})
		},
		"move": func(ctx context.Context) error {
			return raised{}.repair(ctx, subject{st: stalled{}}, lies("a"), lies("b"), none)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if err := change(t.Context()); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took >= time.Minute {
				t.Errorf("%s: it took %v", what, took)
			}
		})
	}
}
