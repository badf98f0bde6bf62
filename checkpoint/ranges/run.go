package ranges

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/stepahead-io/stepahead/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// run is one call of Read. One goroutine decides, those of the reads read.
type run struct {
	files    []File
	wants    []Want
	limits   Limits
	plan     Plan
	progress func(Stats)
	missing  []atomic.Int32 // by want: the pieces and copies that have not come

	// What follows belongs to the goroutine that decides.
	stats  Stats
	memory bounce
	reads  int   // in flight
	bytes  int64 // in flight
	err    error // the first failure
	done   chan *flight
	stop   context.CancelFunc
}

// flight is a read that is in flight.
type flight struct {
	Request
	segments []segment
	bounce   []byte
	err      error
}

func newRun(files []File, wants []Want, o Options) *run {
	r := &run{files: files, wants: wants, limits: o.Limits.withDefaults(), progress: o.Progress, missing: make([]atomic.Int32, len(wants)), done: make(chan *flight)}
	r.plan = NewPlan(wants, r.limits)
	r.memory.most = r.limits.Memory
	r.stats = Stats{Wanted: r.plan.Wanted, Planned: len(r.plan.Requests), SmallAvoided: r.plan.SmallAvoided}
	for _, read := range r.plan.Requests {
		for _, p := range read.Pieces {
			r.missing[p.Want].Add(1)
		}
	}
	for _, c := range r.plan.Copies {
		r.missing[c.To].Add(1)
	}
	return r
}

// do performs the plan. No memory of the caller is touched after it has returned.
func (r *run) do(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	for i, w := range r.wants {
		if len(w.Dst) == 0 {
			r.fail(r.checkSum(i))
		}
	}
	for next := 0; ; {
		for r.err == nil && next < len(r.plan.Requests) && r.start(ctx, r.plan.Requests[next]) {
			next++
		}
		if r.reads == 0 {
			break
		}
		r.settle(<-r.done)
	}
	if r.err == nil {
		r.fail(r.copyAll(ctx))
	}
	return r.err
}

// start begins a read, if there is room for it.
func (r *run) start(ctx context.Context, read Request) bool {
	n := read.End - read.Off
	if !r.limits.admits(n, r.reads, r.bytes) {
		return false
	}
	if err := ctx.Err(); err != nil {
		r.fail(fmt.Errorf("%s: [%d, +%d): %w", r.files[read.File].Name, read.Off, n, err))
		return false
	}
	f := &flight{Request: read}
	f.segments = segments(read, store.BridgesOf(r.files[read.File].File))
	if need := bouncing(f.segments); need > 0 {
		if f.bounce = r.memory.take(need); f.bounce == nil {
			return false
		}
	}
	r.reads++
	r.bytes += n
	go func() {
		f.err = r.perform(ctx, f)
		r.done <- f
	}()
	return true
}

// perform reads, and checks the wants of which nothing is missing any more.
func (r *run) perform(ctx context.Context, f *flight) error {
	to := place(f.segments, r.wants, f.bounce)
	if err := r.files[f.File].ReadRanges(ctx, to); err != nil {
		return fmt.Errorf("%s: [%d, +%d): %w", r.files[f.File].Name, f.Off, f.End-f.Off, err)
	}
	deal(f.segments, to, r.wants)
	for _, p := range f.Pieces {
		if err := r.arrived(p.Want); err != nil {
			return err
		}
	}
	return nil
}

// arrived counts a piece or copy of a want.
func (r *run) arrived(want int) error {
	if r.missing[want].Add(-1) > 0 {
		return nil
	}
	return r.checkSum(want)
}

func (r *run) checkSum(want int) error {
	w := r.wants[want]
	if !w.HasCRC {
		return nil
	}
	if got := crc32.Checksum(w.Dst, castagnoli); got != w.CRC {
		return fmt.Errorf("%w: %s: [%d, +%d): CRC-32C %08x, expected %08x", store.ErrCorrupt, r.files[w.File].Name, w.Off, len(w.Dst), got, w.CRC)
	}
	return nil
}

// settle takes a read in that has ended.
func (r *run) settle(f *flight) {
	r.reads--
	r.bytes -= f.End - f.Off
	r.memory.give(f.bounce)
	if f.err != nil {
		r.fail(f.err)
		return
	}
	r.stats.Reads++
	r.stats.Read += f.End - f.Off
	r.stats.Got += f.Wanted
	if r.progress != nil && r.err == nil {
		r.progress(r.stats)
	}
}

// fail keeps the first failure and ends all reads.
func (r *run) fail(err error) {
	if err != nil && r.err == nil {
		r.err = err
		r.stop()
	}
}

// copyAll fills what is wanted more than once.
func (r *run) copyAll(ctx context.Context) error {
	for _, c := range r.plan.Copies {
		if err := ctx.Err(); err != nil {
			return err
		}
		copy(r.wants[c.To].Dst[c.ToAt:c.ToAt+c.N], r.wants[c.From].Dst[c.FromAt:])
		if err := r.arrived(c.To); err != nil {
			return err
		}
	}
	return nil
}
