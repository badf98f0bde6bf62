package binfmt

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// maxIndexes is how many index files stay mapped; more may be for a moment, while that many are being read
// at once. Each is a file descriptor of this process.
const maxIndexes = 256

// openings is how often an index is opened that is another one each time than the one that was verified a moment before.
const openings = 3

// Dataset finds the parts, scalars and keys of samples. Index files are opened on first use, mapped
// and kept open; the least recently used are closed when there are many, and one that turns out to have been
// written to at once, so that the next call opens what is there then. All methods are safe for concurrent use.
type Dataset struct {
	m     *Manifest
	ends  []uint64
	index func(ctx context.Context, bin int) (LocalIndex, error)
	max   int
	sums  *SumsReader // nil if there are none

	mu      sync.Mutex
	slots   map[int]*slot
	recent  *list.List    // of *slot, the most recently used first
	changed map[int]error // why the index of a bin was dropped, until it is opened again
	closed  bool
}

// slot is one bin's index, open or being opened. All but ready and what is set before it closes is
// guarded by Dataset.mu.
type slot struct {
	bin   int
	ready chan struct{} // closed when x and err are set
	x     BinIndex
	err   error
	users int
	gone  bool // not in Dataset.slots any more: the last user closes x
	place *list.Element
}

// NewDataset returns a Dataset over a manifest that Validate accepts. It reads nothing. index gives
// a bin's index as a local file whose digest is that of the manifest; it is called
// without a lock held, for different bins at the same time.
func NewDataset(m *Manifest, index func(ctx context.Context, bin int) (LocalIndex, error)) *Dataset {
	return &Dataset{m: m, ends: m.ends(), index: index, max: maxIndexes, slots: make(map[int]*slot), recent: list.New(), changed: make(map[int]error)}
}

// Manifest returns the manifest, which must not be changed.
func (d *Dataset) Manifest() *Manifest { return d.m }

// Find returns the bin that holds a sample and the sample's row in that bin's index. It opens nothing.
func (d *Dataset) Find(sample uint64) (bin int, row int64, err error) { return locate(d.ends, sample) }

// Part returns where a media field of a sample is.
func (d *Dataset) Part(ctx context.Context, sample uint64, field string) (p Part, err error) {
	err = d.with(ctx, sample, func(x BinIndex, row int64) error {
		p, err = x.Part(row, field)
		return err
	})
	return p, err
}

// Scalar returns the value of a scalar field of a sample.
func (d *Dataset) Scalar(ctx context.Context, sample uint64, field string) (v Value, err error) {
	err = d.with(ctx, sample, func(x BinIndex, row int64) error {
		v, err = x.Scalar(row, field)
		return err
	})
	return v, err
}

// Key returns the key of a sample: for packed files, the path it was packed from.
func (d *Dataset) Key(ctx context.Context, sample uint64) (key string, err error) {
	err = d.with(ctx, sample, func(x BinIndex, row int64) error {
		key, err = x.Key(row)
		return err
	})
	return key, err
}

// Tokens returns the index of a bin of tokens. It stays mapped until release is called, once or more often.
func (d *Dataset) Tokens(ctx context.Context, bin int) (x *TokenIndex, release func() error, err error) {
	if bin < 0 || bin >= len(d.m.Bins) {
		return nil, nil, fmt.Errorf("binfmt.Dataset.Tokens: bin %d of %d: %w", bin, len(d.m.Bins), ErrNoSample)
	}
	s, err := d.acquire(ctx, bin)
	if err != nil {
		return nil, nil, err
	}
	x, ok := s.x.(*TokenIndex)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("binfmt.Dataset.Tokens: bin %d (%s) has no tokens: %w", bin, d.m.Bins[bin].Name, ErrNoField), d.release(s))
	}
	return x, sync.OnceValue(func() error { return d.release(s) }), nil
}

// Close unmaps every index, those in use as soon as they are not, and closes the sums. Later calls of the other methods
// fail with fs.ErrClosed.
func (d *Dataset) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.closed
	d.closed = true
	err := d.evict(0)
	if first && d.sums != nil {
		err = errors.Join(err, d.sums.Close())
	}
	return err
}

func (d *Dataset) with(ctx context.Context, sample uint64, f func(x BinIndex, row int64) error) error {
	bin, row, err := d.Find(sample)
	if err != nil {
		return err
	}
	s, err := d.acquire(ctx, bin)
	if err != nil {
		return err
	}
	err = f(s.x, row)
	if errors.Is(err, ErrChanged) {
		d.drop(s, err)
	}
	return errors.Join(err, d.release(s))
}

// acquire returns the bin's slot, opened and counted as used. The caller releases it.
func (d *Dataset) acquire(ctx context.Context, bin int) (*slot, error) {
	for {
		s, mine, err := d.take(bin)
		if err != nil {
			return nil, err
		}
		if mine {
			d.open(ctx, s)
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), d.release(s))
		}
		if s.err == nil {
			return s, nil
		}
		if err := d.release(s); err != nil {
			return nil, err
		}
		// Another caller's context may have ended while it opened the index for both.
		if mine || ctx.Err() != nil || !isContext(s.err) {
			return nil, s.err
		}
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// take finds or makes the bin's slot; mine says that the caller has to open it.
func (d *Dataset) take(bin int) (s *slot, mine bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, fmt.Errorf("binfmt.Dataset: %w", fs.ErrClosed)
	}
	s = d.slots[bin]
	if s == nil {
		s = &slot{bin: bin, ready: make(chan struct{})}
		s.place = d.recent.PushFront(s)
		d.slots[bin] = s
		mine = true
	} else {
		d.recent.MoveToFront(s.place)
	}
	s.users++
	return s, mine, nil
}

func (d *Dataset) open(ctx context.Context, s *slot) {
	defer close(s.ready)
	var err error
	for range openings {
		if s.x, err = d.openBin(ctx, s.bin); !errors.Is(err, ErrChanged) {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.forget(s) // a failure is not remembered: the next call tries again
		if was := d.changed[s.bin]; was != nil {
			err = fmt.Errorf("%w; opened again: %w", was, err)
		}
	} else {
		delete(d.changed, s.bin)
	}
	s.err = err
}

// drop has the next call open the bin's index anew, as why says. Whoever uses the slot goes on with it.
func (d *Dataset) drop(s *slot, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.gone {
		d.forget(s)
		d.changed[s.bin] = why
	}
}

func (d *Dataset) openBin(ctx context.Context, bin int) (BinIndex, error) {
	index, err := d.index(ctx, bin)
	if err != nil {
		return nil, fmt.Errorf("binfmt.Dataset: index of bin %d (%s): %w", bin, d.m.Bins[bin].Name, err)
	}
	x, err := OpenBin(index, d.m, bin)
	if err != nil {
		return nil, err
	}
	return d.withSums(ctx, x, bin)
}

func (d *Dataset) forget(s *slot) {
	if !s.gone {
		s.gone = true
		delete(d.slots, s.bin)
		d.recent.Remove(s.place)
	}
}

func (d *Dataset) release(s *slot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.users--
	keep := d.max
	if d.closed {
		keep = 0
	}
	if s.gone && s.users == 0 {
		return errors.Join(s.close(), d.evict(keep))
	}
	return d.evict(keep)
}

// close unmaps the index of a slot that nobody uses and nobody will.
func (s *slot) close() error {
	if s.x == nil {
		return nil
	}
	return s.x.Close()
}

// evict unmaps the least recently used indexes that nobody is using until at most keep are left.
func (d *Dataset) evict(keep int) error {
	var errs []error
	for e := d.recent.Back(); e != nil && d.recent.Len() > keep; {
		s := e.Value.(*slot)
		e = e.Prev()
		if s.users > 0 {
			continue
		}
		d.forget(s)
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
