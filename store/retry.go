package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// RetryOptions configure Retry. The zero value is usable.
type RetryOptions struct {
	// Attempts is how often a call is made in all. Default 4; 1 never retries.
	Attempts int
	// Delay is the pause after the first failure; it doubles each time. Default 50 ms.
	Delay time.Duration
	// MaxDelay bounds the pause. Default 2 s, or Delay if that is longer.
	MaxDelay time.Duration
	// Jitter is the share by which each pause is lengthened or shortened at random, 0 to 1, so that many
	// readers do not come back together. Default 0.25.
	Jitter float64
}

func (o RetryOptions) withDefaults() RetryOptions {
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Delay == 0 {
		o.Delay = 50 * time.Millisecond
	}
	if o.MaxDelay == 0 {
		o.MaxDelay = max(2*time.Second, o.Delay)
	}
	if o.Jitter == 0 {
		o.Jitter = 0.25
	}
	return o
}

// Validate returns all that is wrong with o, defaults filled in.
func (o RetryOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Attempts < 1 {
		errs = append(errs, fmt.Errorf("store.RetryOptions: Attempts: %d: give at least 1", o.Attempts))
	}
	if o.Delay < 0 || o.MaxDelay < o.Delay {
		errs = append(errs, fmt.Errorf("store.RetryOptions: Delay %v, MaxDelay %v: give 0 < Delay <= MaxDelay", o.Delay, o.MaxDelay))
	}
	if !(o.Jitter >= 0 && o.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("store.RetryOptions: Jitter: %v: give 0 to 1", o.Jitter))
	}
	return errors.Join(errs...)
}

// Retry calls again what failed with class Retryable, after a pause, until an attempt ends otherwise, the
// attempts are used up or ctx ends. It repeats what is harmless to repeat: open, stat, list, locate, read,
// replicate, checksum, and what is asked about and set of attributes, policies, access and nodes. Create, write, close,
// rename and remove are passed through: after a failure nobody knows
// whether they took place. Options that Validate refuses make it panic.
func Retry(s Store, o RetryOptions) Store {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	o = o.withDefaults()
	builder := retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return ClassOf(err) == Retryable }).
		WithMaxAttempts(o.Attempts).
		WithJitterFactor(o.Jitter).
		ReturnLastFailure()
	if o.Delay < o.MaxDelay {
		builder = builder.WithBackoff(o.Delay, o.MaxDelay)
	} else {
		builder = builder.WithDelay(o.Delay)
	}
	policy := builder.Build()
	return &hooked{inner: s, around: func(ctx context.Context, c *call, do func() error) error {
		if !c.repeatable() {
			return do()
		}
		return retry(ctx, policy, do)
	}}
}

func (c *call) repeatable() bool {
	switch c.op {
	case opOpen, opStat, opList, opLocate, opRead, opReplicate,
		opAttribute, opSetAttribute, opPolicy, opSetPolicy, opAccess, opProtect, opNodes, opChecksum:
		return true
	}
	return false
}

func retry(ctx context.Context, policy retrypolicy.RetryPolicy[any], do func() error) error {
	attempts := 0
	var last error
	err := failsafe.With(policy).WithContext(ctx).Run(func() error {
		attempts++
		last = do()
		return last
	})
	switch {
	case err == nil || attempts <= 1:
		return err
	case ctx.Err() != nil && ClassOf(err) == ClassUnknown:
		return fmt.Errorf("%w after %d attempts: the last one: %v", err, attempts, last)
	}
	return fmt.Errorf("after %d attempts: %w", attempts, err)
}
