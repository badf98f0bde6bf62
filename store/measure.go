package store

import (
	"context"
	"sync/atomic"
	"time"
)

// durationBounds are the upper edges of the duration histogram: a cached read takes 20 us, a large one
// from a busy disk seconds.
var durationBounds = [...]time.Duration{
	100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond,
	500 * time.Millisecond, 2 * time.Second, 10 * time.Second, 60 * time.Second,
}

// Metrics counts what passes through Measure. The zero value is ready; one may serve several stores. It is
// safe for concurrent use and must not be copied.
type Metrics struct {
	counts [operations]counts
}

type counts struct {
	calls, failures, notFound, cancelled atomic.Uint64
	bytes, nanoseconds                   atomic.Int64
	buckets                              [len(durationBounds)]atomic.Uint64
}

// OperationMetrics is what Metrics counted for one operation since the start.
type OperationMetrics struct {
	// Operation is open, stat, list, create, write, close (of a writer), rename, remove, locate, read or
	// replicate.
	Operation string
	// Calls have ended, well or not. Failures leaves out the two kinds that follow.
	Calls, Failures uint64
	// NotFound counts open, stat and list of what is not there: an answer, not a failure.
	NotFound uint64
	// Cancelled counts calls whose caller's context ended.
	Cancelled uint64
	// Bytes were read or written by calls without an error.
	Bytes int64
	// Duration is the sum over all calls.
	Duration time.Duration
	// Buckets counts the calls that took at most UpTo, cumulatively; longer ones are in Calls only.
	Buckets []DurationBucket
}

// DurationBucket is one step of a cumulative histogram.
type DurationBucket struct {
	UpTo  time.Duration
	Count uint64
}

// Snapshot returns the counts of every operation, those at zero included, always in the same order. It is
// what a program's exporter reads.
func (m *Metrics) Snapshot() []OperationMetrics {
	all := make([]OperationMetrics, operations)
	for op := range operations {
		c := &m.counts[op]
		o := OperationMetrics{
			Operation: op.String(), Calls: c.calls.Load(), Failures: c.failures.Load(), NotFound: c.notFound.Load(),
			Cancelled: c.cancelled.Load(), Bytes: c.bytes.Load(), Duration: time.Duration(c.nanoseconds.Load()),
		}
		var sum uint64
		for i := range c.buckets {
			sum += c.buckets[i].Load()
			o.Buckets = append(o.Buckets, DurationBucket{UpTo: durationBounds[i], Count: sum})
		}
		all[op] = o
	}
	return all
}

// Measure counts every call of s in m.
func Measure(s Store, m *Metrics) Store {
	return &hooked{inner: s, around: func(ctx context.Context, c *call, do func() error) error {
		start := time.Now()
		err := do()
		m.counts[c.op].add(ctx, c, time.Since(start), err)
		return err
	}}
}

func (n *counts) add(ctx context.Context, c *call, took time.Duration, err error) {
	n.nanoseconds.Add(int64(took))
	for i, bound := range durationBounds {
		if took <= bound {
			n.buckets[i].Add(1)
			break
		}
	}
	probing := c.op == opOpen || c.op == opStat || c.op == opList
	switch class := ClassOf(err); {
	case err == nil:
		n.bytes.Add(c.bytes())
	case class == NotFound && probing:
		n.notFound.Add(1)
	case class == ClassUnknown && ctx.Err() != nil:
		n.cancelled.Add(1)
	default:
		n.failures.Add(1)
	}
	n.calls.Add(1) // last, so that no reader sees more outcomes than calls
}
