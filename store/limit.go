package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// LimitOptions configure Limit. The zero value limits nothing.
type LimitOptions struct {
	// Concurrency is how many calls of the store, its files and its writers run at a time. Default 0: any
	// number.
	Concurrency int
	// BytesPerSecond bounds what is read and written together. Default 0: without a bound.
	BytesPerSecond int64
}

// Validate returns all that is wrong with o.
func (o LimitOptions) Validate() error {
	var errs []error
	if o.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("store.LimitOptions: Concurrency: %d is negative", o.Concurrency))
	}
	if o.BytesPerSecond < 0 {
		errs = append(errs, fmt.Errorf("store.LimitOptions: BytesPerSecond: %d is negative", o.BytesPerSecond))
	}
	return errors.Join(errs...)
}

// Limit makes calls wait their turn, in the order in which they come, or until their ctx ends. An open
// file or writer holds no place between its calls. It hides LocalPath, which would go around it. Options
// that Validate refuses make it panic.
func Limit(s Store, o LimitOptions) Store {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	link := NewPacer(o.BytesPerSecond)
	var places *semaphore.Weighted
	if o.Concurrency > 0 {
		places = semaphore.NewWeighted(int64(o.Concurrency))
	}
	return &hooked{inner: s, hidesLocal: true, around: func(ctx context.Context, c *call, do func() error) error {
		if err := pass(ctx, link, c.bytes()); err != nil {
			return fmt.Errorf("store.Limit %s %s: waiting for bandwidth: %w", c.op, s.Address(c.name), err)
		}
		if places == nil {
			return do()
		}
		if err := places.Acquire(ctx, 1); err != nil {
			return fmt.Errorf("store.Limit %s %s: waiting for a place: %w", c.op, s.Address(c.name), err)
		}
		defer places.Release(1)
		return do()
	}}
}

// pass waits until n bytes have passed the link. It books them piece by piece, so that other calls get
// their turn in between and a cancelled call gives back what it has not used.
func pass(ctx context.Context, link *Pacer, n int64) error {
	for n > 0 {
		piece := min(n, link.Piece())
		if wait := link.Reserve(time.Now(), piece); wait > 0 {
			if err := Sleep(ctx, wait); err != nil {
				return err
			}
		}
		n -= piece
	}
	return nil
}
