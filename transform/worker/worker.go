// Package worker runs plans in warm, limited worker processes: the parent's side.
package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stepahead-io/stepahead/transform"
)

// Options configure a Pool. The zero value is usable once Path is found by [Find].
type Options struct {
	// Path is the worker program. Default: what Find("") gives.
	Path string
	// Workers bounds the worker processes. Default: the CPUs usable by this process.
	Workers int
	// Idle runs workers in SCHED_IDLE, for hosts whose first duty is something else.
	Idle bool
	// MaxPixels bounds width x height of a decoded image. Default 178,956,970 (twice Pillow's warning).
	MaxPixels int64
	// MaxInput and MaxOutput bound the bytes of one encoded input and of one output. Defaults 256 MiB and 1 GiB.
	MaxInput, MaxOutput int64
	// Deadline is the wall-clock time of one job before its worker is killed. Default 60 s.
	Deadline time.Duration
	// MemoryLimit bounds a worker's address space, in bytes. Default 4 GiB.
	MemoryLimit int64
}

// Job is what to do with a part.
type Job struct {
	Plan *transform.Plan // the agent half
	Key  transform.Key
}

// Part is one encoded input; Name appears in errors only.
type Part struct {
	Name string
	Data []byte
}

// Result describes what a job left in the caller's buffer.
type Result struct {
	Spec    transform.TensorSpec
	Bytes   int           // of out that are valid
	CRC     uint32        // CRC32C of out[:Bytes]
	CPU     time.Duration // the worker's user and system time for this job
	PeakRSS int64         // bytes, of the worker so far
}

// Stats is a snapshot of a Pool.
type Stats struct {
	Running   int              // worker processes alive
	Started   int64            // worker processes ever started
	Killed    map[string]int64 // worker processes lost, by reason
	Isolation string           // the level of isolation in force, "" before the first start
}

// Pool is a set of worker processes.
type Pool struct{}

// Find returns the worker program: explicit if given, else stepahead-worker beside the executable, else on PATH.
func Find(explicit string) (string, error) { return "", errors.ErrUnsupported }

// New returns a pool; it starts nothing.
func New(o Options) (*Pool, error) { return nil, errors.ErrUnsupported }

// Run runs one job and fills out. It is safe for concurrent use and blocks while all workers are busy.
func (p *Pool) Run(ctx context.Context, job Job, in Part, out []byte) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Golden returns operator identity -> golden digest (hex) as the worker program reports them.
func (p *Pool) Golden(ctx context.Context) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}

// CPU returns the user and system time of all workers so far, dead ones included.
func (p *Pool) CPU() time.Duration { return 0 }

// Stats returns a snapshot.
func (p *Pool) Stats() Stats { return Stats{} }

// Close kills the workers.
func (p *Pool) Close() error { return nil }
