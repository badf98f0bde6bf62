// Package sweeper undoes what a controller left in a store when no controller lives: of all who run a Sweeper of a store one is elected, and it sweeps the
// marks (controller/temporary) whose time is over while it holds what the active controller would hold.
package sweeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/controller/lease"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// Name is what the elected one holds.
const Name = "/.stepahead/sweeper"

// Options configure a Sweeper. Only Store has no default.
type Options struct {
	// Store is what is swept. One in which names cannot be held (store.Claimer) is not: two would not know of each other.
	Store store.Store
	// Every is the time between two looks. Default 1 min.
	Every time.Duration
	// After is time.After, if nil.
	After func(time.Duration) <-chan time.Time
	Log   *zap.Logger
}

// Stats are counts since the start.
type Stats struct {
	// Elected says that this one is it.
	Elected bool
	// Sweeps were made, by which Undone things are gone.
	Sweeps, Undone int64
	// Failing is how many marks could not be read or undone by the last sweep. Errors are looks that failed as a whole.
	Failing, Errors int64
}

// Sweeper looks after a store.
type Sweeper struct {
	o      Options
	office store.Claim // while it is elected
	said   map[string]bool

	mu    sync.Mutex
	stats Stats
}

// New returns a Sweeper. It does no I/O.
func New(o Options) *Sweeper {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Sweeper{o: o, said: map[string]bool{}}
}

// Stats returns counts as they are now. It may be called at any time.
func (s *Sweeper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Sweeper) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// Run looks after the store until ctx ends, or until it is clear that names cannot be held in it, which is said in the log once. What fails is logged and
// tried again.
func (s *Sweeper) Run(ctx context.Context) {
	defer s.resign()
	for pause := rand.N(s.o.Every); ; pause = s.o.Every { // those that start together do not look together
		select {
		case <-s.o.After(pause):
		case <-ctx.Done():
			return
		}
		err := s.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errors.ErrUnsupported):
			s.o.Log.Info("this store is not swept: names cannot be held in it", zap.Error(err))
			return
		case err != nil:
			s.count(func(n *Stats) { n.Errors++ })
			s.say(err.Error(), "what a controller left cannot be looked for", zap.Error(err))
		}
	}
}

// say warns of something once, until something else is said.
func (s *Sweeper) say(key, text string, fields ...zap.Field) {
	if !s.said[key] {
		s.o.Log.Warn(text, fields...)
	}
	if len(s.said) > 1024 {
		clear(s.said)
	}
	s.said[key] = true
}

// resign lets another be elected.
func (s *Sweeper) resign() {
	if s.office == nil {
		return
	}
	if err := s.office.Release(); err != nil {
		s.o.Log.Warn("the sweeper's name could not be let go", zap.Error(err))
	}
	s.office = nil
	s.count(func(n *Stats) { n.Elected = false })
}

// Look sweeps once, if this one is elected, no controller lives and there is anything. It must not be called while Run, or another Look, is under way.
func (s *Sweeper) Look(ctx context.Context) error {
	claimer, ok := s.o.Store.(store.Claimer)
	if !ok {
		return fmt.Errorf("sweeper.Look %s: %w", s.o.Store.Address(Name), errors.ErrUnsupported)
	}
	elected, err := s.elect(ctx, claimer)
	if err != nil || !elected {
		return err
	}
	if some, err := temporary.Any(ctx, s.o.Store); err != nil || !some {
		s.count(func(n *Stats) { n.Failing = 0 })
		return err
	}
	active, err := claimer.Claim(ctx, lease.Name)
	if errors.Is(err, fs.ErrExist) {
		s.count(func(n *Stats) { n.Failing = 0 })
		return nil // a controller lives, and looks after it
	}
	if err != nil {
		return err
	}
	return errors.Join(s.sweep(ctx, active), active.Release())
}

// elect takes the name, or looks whether it still is held.
func (s *Sweeper) elect(ctx context.Context, claimer store.Claimer) (bool, error) {
	if s.office != nil {
		err := s.office.Held(ctx)
		if !errors.Is(err, store.ErrNotHeld) {
			return err == nil, err
		}
		s.resign()
	}
	c, err := claimer.Claim(ctx, Name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil // another is elected
	}
	if err != nil {
		return false, err
	}
	s.office = c
	s.count(func(n *Stats) { n.Elected = true })
	return true, nil
}

// sweepLimit is how long a controller that starts meanwhile is kept waiting: what is not undone by then is by the next sweep.
const sweepLimit = 5 * time.Minute

func (s *Sweeper) sweep(ctx context.Context, active store.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	r, err := temporary.Sweep(ctx, s.o.Store, temporary.SweepOptions{Fence: active.Held})
	failing := int64(0)
	for _, m := range r.Marks {
		if m.Undone {
			s.o.Log.Info("undid what a controller had left", zap.String("mark", m.Name), zap.String("path", m.Mark.Path), zap.String("job", m.Mark.Job),
				zap.Duration("over_for", -m.Left), zap.Strings("done", m.Done))
		}
		if m.Err != nil {
			failing++
			s.say(m.Name+m.Err.Error(), "what a controller left cannot be undone", zap.String("mark", m.Name), zap.Strings("done", m.Done), zap.Error(m.Err))
		}
	}
	s.count(func(n *Stats) {
		n.Sweeps++
		n.Undone += int64(r.Undone)
		n.Failing = failing
	})
	return err
}
