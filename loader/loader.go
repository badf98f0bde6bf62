package loader

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/hints/discovery"
	"github.com/stepahead-io/stepahead/loader/proof"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/transform/worker"
)

var (
	// ErrClosed is returned by Next and Load after Close.
	ErrClosed = errors.New("loader is closed")
	// ErrOptions says that Options do not fit the dataset: a field that it does not have, a media field
	// without a plan, more ranks or a larger batch than it has samples.
	ErrOptions = errors.New("options do not fit the dataset")
)

// maxReads bounds the reads under way at once, over all steps being built.
const maxReads = 16

// defaultMaxPart bounds one encoded part, as the workers do.
const defaultMaxPart = 256 << 20

// Loader gives a rank its batches in order. Its methods may be called from any goroutine; calls of
// Next and Load wait for each other.
type Loader struct {
	o       Options
	now     func() time.Duration
	sampler *sampler.Sampler
	given   *given       // nil unless the caller gives the steps
	groups  *groups      // nil unless samples are grouped by length
	spec    sampler.Spec // of sampler, which copies it at every call
	data    *union
	tokens  *tokenMode // nil for datasets whose fields are delivered as they are
	media   []*mediaField
	plans   int // how many of media have one
	fields  []field
	anchors []anchor // by source
	maxPart int64    // bytes of a part that goes through a plan
	seed    maphash.Seed
	// maxStored bounds the bytes of a step's parts that are delivered as they are stored.
	maxStored int64

	runner Runner
	slabs  *slabs
	buf    buffers
	turns  *gate // places in the worker pool
	reads  *gate // reads under way
	room   *gate // bytes read and not yet transformed
	pace   pace
	clock  stepClock
	agents *agents
	places *store.Locations // of bins
	herald *herald

	background *tasks
	records    *proof.Writer
	statsLines *proof.Writer

	turn   chan struct{} // held by Next, Load and Close
	closed chan struct{} // closed when Close begins
	once   sync.Once
	err    error // of Close

	// Under turn.
	run     *run
	atEnd   bool          // the end of an epoch is still to be reported
	waitAt  time.Duration // when the caller first asked for the next step, if waiting
	waiting bool
	leftAt  time.Duration // when the last Next returned, if it delivered
	left    bool
	waited  split

	pos    atomic.Int64 // the next step to deliver
	waits  atomic.Bool  // a caller waits in Next
	mu     sync.Mutex
	stats  Stats
	ledger hints.Ledger
	named  namedOnce // bad samples
}

// Open opens the dataset and starts what works ahead. ctx bounds the opening only; the Loader owns
// goroutines, memory and processes until Close. Nothing of the dataset but its manifest is read before
// the first Next.
func Open(ctx context.Context, o Options) (*Loader, error) {
	l, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("loader.Open: %w", err)
	}
	return l, nil
}

func open(ctx context.Context, o Options) (_ *Loader, err error) {
	if err := o.Validate(); err != nil {
		if o.Runner != nil {
			err = errors.Join(err, o.Runner.Close())
		}
		return nil, err
	}
	o = o.withDefaults().named()
	l := &Loader{
		o: o, now: o.testing.now, maxPart: defaultMaxPart, maxStored: maxStored, seed: maphash.MakeSeed(),
		slabs: &slabs{keep: 2*o.Prefetch + 2}, turns: newGate(int64(o.Workers)), reads: newGate(maxReads), room: newGate(roomFor(o.Workers)),
		turn: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if l.data, err = openUnion(ctx, o.sources(), o.CacheDir); err != nil {
		return nil, err
	}
	if o.Tokens != nil {
		err = l.openTokens(ctx)
	} else {
		err = l.choose()
	}
	if err != nil {
		return nil, err
	}
	if err = l.order(); err != nil {
		return nil, err
	}
	if err = l.attach(); err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

// order makes the sampler and takes up the state to resume from.
func (l *Loader) order() (err error) {
	spec, err := l.specOf()
	if err != nil {
		return err
	}
	if l.sampler, err = sampler.New(spec); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if l.o.Given {
		l.given = &given{}
	}
	l.spec = l.sampler.Spec()
	if l.groups, err = l.openGroups(); err != nil {
		return err
	}
	if err := l.sampler.CheckWorld(l.o.World); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if l.o.Resume == nil {
		return nil
	}
	if err := l.check(*l.o.Resume); err != nil {
		return err
	}
	l.moveTo(*l.o.Resume)
	return nil
}

// attach makes what reads, transforms and records.
func (l *Loader) attach() (err error) {
	if l.runner = l.o.Runner; l.runner == nil && l.plans > 0 {
		if l.runner, err = newPool(l.o); err != nil {
			return err
		}
	}
	if l.o.RecordPath != "" {
		if l.records, err = proof.Open(l.o.RecordPath); err != nil {
			return err
		}
	}
	if l.o.StatsPath != "" {
		if l.statsLines, err = proof.Open(l.o.StatsPath); err != nil {
			return err
		}
	}
	l.agents = newAgents(l.o)
	l.places = store.NewLocations(l.now, l.data.locate)
	finder, err := discovery.New(discovery.Options{Store: l.o.Store, Registry: l.o.Registry, Agents: l.o.Agents, Token: l.o.Token != ""})
	l.herald = &herald{l: l, finder: finder, seen: -1}
	return err
}

func newPool(o Options) (Runner, error) {
	path, err := worker.Find(o.WorkerPath)
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Options{Path: path, Workers: o.Workers})
}

// start starts what runs until Close.
func (l *Loader) start() {
	l.background = newTasks(context.Background(), "herald")
	if l.agents.wanted && l.plans > 0 {
		l.background.start(l.herald.run)
	}
}

// position is the next step to deliver.
func (l *Loader) position() int64 { return l.pos.Load() }

// count changes the totals.
func (l *Loader) count(f func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.stats)
}

// StepsPerEpoch returns the number of batches of a whole epoch, the same for every rank; 0 where the order is given.
func (l *Loader) StepsPerEpoch() int64 {
	if l.given != nil {
		return 0
	}
	return l.sampler.StepsPerEpoch()
}

// Dataset returns the identity of the dataset, or of the union of several (binfmt.UnionIdentity).
func (l *Loader) Dataset() [32]byte { return l.data.Identity() }

// Classes returns the names of the values of the label field, as the dataset was packed.
func (l *Loader) Classes() []string { return slices.Clone(l.data.members[0].manifest.Classes) }

// Sources returns the names of the sources, in the order of SampleRef.Source.
func (l *Loader) Sources() []string {
	var names []string
	for _, s := range l.spec.Sources {
		names = append(names, s.Name)
	}
	return names
}

// Stats returns what the run cost so far.
func (l *Loader) Stats() Stats {
	l.mu.Lock()
	s := l.stats.snapshot()
	l.mu.Unlock()
	if l.runner != nil {
		s.WorkerCPU = l.runner.CPU().Seconds()
	}
	s.Mappings, s.MappedBytes = l.slabs.usage()
	s.Ledger = l.ledger.Snapshot()
	s.Waiting = l.waits.Load()
	s.Reads = l.data.reads()
	return s
}

// enter takes the turn of Next, Load and Close.
func (l *Loader) enter(ctx context.Context) error {
	select {
	case <-l.closed:
		return ErrClosed
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-l.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Loader) leave() { <-l.turn }

// Close ends the work ahead and returns when every goroutine and process is gone. Batches that are
// still in use stay valid until their Release. A Next that waits returns ErrClosed. A second call does
// nothing.
func (l *Loader) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.turn <- struct{}{} // never given back
		l.stopRun()
		l.background.stop()
		if l.agents.wanted && l.o.Rank == 0 {
			l.herald.bye(context.Background())
		}
		if l.err = l.release(); l.err != nil {
			l.err = fmt.Errorf("loader.Close: %w", l.err)
		}
	})
	return l.err
}

// release gives back everything that was made so far; it is safe on a Loader that is not whole.
func (l *Loader) release() error {
	var errs []error
	if l.agents != nil {
		l.agents.close()
	}
	if l.runner != nil {
		errs = append(errs, l.runner.Close())
	} else if l.o.Runner != nil {
		errs = append(errs, l.o.Runner.Close())
	}
	if l.data != nil {
		errs = append(errs, l.data.close())
	}
	for _, w := range []*proof.Writer{l.records, l.statsLines} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	l.slabs.close()
	return errors.Join(errs...)
}
