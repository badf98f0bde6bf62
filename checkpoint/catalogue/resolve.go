package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// freshFor is how long what was read of a catalogue is believed without asking again.
	freshFor = time.Minute
	// troubleFor is how long a store that failed is not asked again.
	troubleFor = 5 * time.Minute
	// lookLimit bounds a look into the catalogue: a reader can always do without.
	lookLimit = 5 * time.Second
)

// ErrNone: the path has no row.
var ErrNone = errors.New("no row")

// ResolverOptions say whom to trust. The zero value is usable.
type ResolverOptions struct {
	// Keys are trusted, and no others; nil: those of TrustedKeys.
	Keys Keys
	// Now is a monotonic clock. Default: that of this process.
	Now func() time.Duration
}

// Resolver finds rows in a store's catalogue. What it reads it believes for a minute, and a row never longer than its TTL. It is safe for concurrent
// use.
type Resolver struct {
	st store.Store
	o  ResolverOptions

	turn chan struct{} // who holds it may use what follows
	last snapshot
	seen map[string]sighting // by base name
}

// sighting is when a row was found for the first time, by the reader's clock, and when it had been written, by that of the store. The clock of a store to which nobody
// writes any more stands still: by it a row that is not renewed would hold for ever.
type sighting struct {
	written time.Time
	at      time.Duration
}

// snapshot is what was read of a catalogue.
type snapshot struct {
	listing
	at    time.Duration // by the reader's clock, before it was asked for
	until time.Duration
	err   error // why nothing was read
	keys  Keys  // nil before they were needed
	found map[string]answer
}

// answer is what became of looking for a row.
type answer struct {
	row   Row
	until time.Duration // by the reader's clock
	err   error
}

// NewResolver returns one for the catalogue of a store. It does no I/O.
func NewResolver(st store.Store, o ResolverOptions) *Resolver {
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	r := &Resolver{st: st, o: o, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// Resolve returns the row of a path, as Row.Path has it. The error says why there is none to be used: it matches ErrNone, ErrRow,
// ErrSignature or ErrExpired, or is what kept the store from being read, or that of ctx.
func (r *Resolver) Resolve(ctx context.Context, url string) (Row, error) {
	row, err := r.resolve(ctx, NameOf(url))
	if err != nil {
		return Row{}, fmt.Errorf("catalogue: %s: %w", url, err)
	}
	return row, nil
}

func (r *Resolver) resolve(ctx context.Context, base string) (Row, error) {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return Row{}, ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	if err := r.refresh(ctx); err != nil {
		return Row{}, err
	}
	a, ok := r.last.found[base]
	if !ok {
		if _, listed := r.last.rows[base]; !listed {
			return Row{}, ErrNone
		}
		a = r.look(ctx, base)
		if err := ctx.Err(); err != nil {
			return Row{}, err
		}
		r.last.found[base] = a
	}
	if a.err == nil && r.o.Now() > a.until {
		return Row{}, fmt.Errorf("%w: it was not renewed in time, by the clock of this process", ErrExpired)
	}
	return a.row, a.err
}

// refresh makes the snapshot a fresh one.
func (r *Resolver) refresh(ctx context.Context) error {
	now := r.o.Now()
	if r.last.found != nil && now < r.last.until {
		return r.last.err
	}
	limited, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	l, err := list(limited, r.st)
	if ctx.Err() != nil {
		return ctx.Err() // which says nothing about the store
	}
	r.last = snapshot{listing: l, at: now, until: now + freshFor, err: err, keys: r.o.Keys, found: map[string]answer{}}
	if err != nil {
		r.last.until = now + troubleFor
		return err
	}
	seen := make(map[string]sighting, len(l.rows))
	for base, written := range l.rows {
		if s, ok := r.seen[base]; ok && s.written.Equal(written) {
			seen[base] = s
		} else {
			seen[base] = sighting{written, now}
		}
	}
	r.seen = seen
	return nil
}

// look reads a row that is there.
func (r *Resolver) look(ctx context.Context, base string) answer {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	f, err := read(ctx, r.st, path.Join(Folder, base))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNone // withdrawn since it was listed
	}
	if err == nil && r.last.keys == nil {
		r.last.keys, _, err = TrustedKeys(ctx, r.st)
	}
	if err != nil {
		return answer{err: err}
	}
	left := r.last.left(base, f.Row.TTL)
	return answer{row: f.Row, until: min(r.last.at+left, r.seen[base].at+f.Row.TTL), err: judge(f, r.last.keys, left)}
}

// Resolve looks for the row of a path once, for whoever does not ask again. See [Resolver.Resolve].
func Resolve(ctx context.Context, st store.Store, url string, o ResolverOptions) (Row, error) {
	return NewResolver(st, o).Resolve(ctx, url)
}
