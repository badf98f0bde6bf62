package loader

import (
	"context"
	"errors"

	"github.com/stepahead-io/stepahead/sampler"
)

// ErrClosed is returned by every method of a Loader after Close.
var ErrClosed = errors.New("loader is closed")

// Loader gives a rank its batches in order. Its methods may be called from any goroutine; calls of
// Next and Load wait for each other.
type Loader struct{}

// Open opens the dataset and starts what works ahead. ctx bounds the opening only; the Loader owns
// goroutines, memory and processes until Close.
func Open(ctx context.Context, o Options) (*Loader, error) { return nil, errors.ErrUnsupported }

// Next returns the next batch, which belongs to the caller until Release. At the end of an epoch it
// returns io.EOF once, and the call after that gives the first batch of the next epoch; after
// Options.Epochs epochs it returns io.EOF always. When ctx ends first, the error matches ctx.Err()
// and the position is unchanged, as it is after any error: the next call tries the same step again.
func (l *Loader) Next(ctx context.Context) (*Batch, error) { return nil, errors.ErrUnsupported }

// State returns where the run stands: after the last batch that Next returned.
func (l *Loader) State() sampler.State { return sampler.State{} }

// Load moves the run to a state of the same order and dataset, of any world size; else the error is a
// *sampler.MismatchError and nothing changes. The next batch is the state's, whether or not the end
// of an epoch was still to be reported.
func (l *Loader) Load(st sampler.State) error { return errors.ErrUnsupported }

// StepsPerEpoch returns the number of batches of a whole epoch.
func (l *Loader) StepsPerEpoch() int64 { return 0 }

// Stats returns what the run cost so far.
func (l *Loader) Stats() Stats { return Stats{} }

// Close ends the work ahead and returns when every goroutine and process is gone. Batches that are
// still in use stay valid until their Release. A second call does nothing.
func (l *Loader) Close() error { return nil }
