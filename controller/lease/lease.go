// Package lease makes a process the one active controller of a store: whoever holds a name in it. A process that ends or loses the store loses the name, and
// another that waits takes it.
package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// Name is what the active controller holds in the home store of the files.
const Name = "/.stepahead/controller"

// Options configure [Acquire].
type Options struct {
	// Every is the time between two tries. Default 2 s.
	Every time.Duration
	// After is time.After, if nil.
	After func(time.Duration) <-chan time.Time
	// Waiting is called with the reason when another holds the lease, or the store does not answer, before the first pause.
	Waiting func(err error)
}

// Acquire waits until the name is free and takes it: this controller is the active one until Release, while Held of the claim returns nil. A store in which names
// cannot be held is refused with an error that matches errors.ErrUnsupported: two controllers of it would not know of each other.
func Acquire(ctx context.Context, st store.Store, o Options) (store.Claim, error) {
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.After == nil {
		o.After = time.After
	}
	said := false
	for {
		c, err := try(ctx, st)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("lease.Acquire %s: %w", st.Address(Name), ctx.Err())
		case !errors.Is(err, fs.ErrExist) && store.ClassOf(err) != store.Retryable:
			return nil, fmt.Errorf("lease.Acquire: %w", err)
		}
		if o.Waiting != nil && !said {
			o.Waiting(err)
			said = true
		}
		select {
		case <-o.After(o.Every):
		case <-ctx.Done():
			return nil, fmt.Errorf("lease.Acquire %s: %w", st.Address(Name), ctx.Err())
		}
	}
}

func try(ctx context.Context, st store.Store) (store.Claim, error) {
	claimer, ok := st.(store.Claimer)
	if !ok {
		return nil, refused(st, errors.ErrUnsupported)
	}
	c, err := claimer.Claim(ctx, Name)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, refused(st, err)
	}
	return c, err
}

func refused(st store.Store, err error) error {
	return fmt.Errorf("%s: in this store no name can be held against others, so that two controllers would not know of each other: use hdfs or a plain folder as the home of the files: %w", st.Address("/"), err)
}
