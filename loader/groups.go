package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
)

// groups is an order whose samples are grouped by length: the windows that are in use, each with the lengths of its samples
// looked up once. Its methods may be called concurrently.
type groups struct {
	l       *Loader
	lengths []binfmt.Length // by source

	mu      sync.Mutex
	windows map[int64]*groupWindow // by their first steps
}

// groupWindow is a window of steps, or one that is being made.
type groupWindow struct {
	first, end int64
	ready      chan struct{} // closed when order and err are set
	order      *sampler.Grouped
	err        error
}

// openGroups finds the column of the lengths in every dataset; nil where samples are not grouped.
func (l *Loader) openGroups() (*groups, error) {
	by := l.spec.GroupByLength
	if by == nil {
		return nil, nil
	}
	g := &groups{l: l, windows: map[int64]*groupWindow{}}
	for i, d := range l.data.members {
		length, err := d.manifest.Length(by.Column)
		if err != nil {
			return nil, misfit("group_by_length: the dataset%s: %w", l.nameOfMember(i), err)
		}
		g.lengths = append(g.lengths, length)
	}
	return g, nil
}

// at returns the order of the window of a step. The first look into an index may fetch it.
func (g *groups) at(ctx context.Context, step int64) (*sampler.Grouped, error) {
	for {
		w, mine := g.take(step)
		if mine {
			w.order, w.err = g.l.sampler.Group(step, func(ref sampler.SampleRef) (uint64, error) { return g.lengthOf(ctx, ref) })
			g.made(w)
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		ended := errors.Is(w.err, context.Canceled) || errors.Is(w.err, context.DeadlineExceeded)
		if mine || !ended { // else whoever made it gave up: we go on
			return w.order, w.err
		}
	}
}

// take finds the window of a step, or begins one that the caller then makes.
func (g *groups) take(step int64) (w *groupWindow, mine bool) {
	first, steps := g.l.sampler.Window(step)
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.windows[first]; w != nil {
		return w, false
	}
	w = &groupWindow{first: first, end: first + steps, ready: make(chan struct{})}
	for _, old := range g.windows {
		if old.end <= g.l.position() {
			delete(g.windows, old.first)
		}
	}
	g.windows[first] = w
	return w, true
}

// made ends the making of a window. A failure is not remembered: the next call tries again.
func (g *groups) made(w *groupWindow) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.err != nil && g.windows[w.first] == w {
		delete(g.windows, w.first)
	}
	close(w.ready)
}

// forget drops all windows: the run goes on elsewhere.
func (g *groups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.windows)
}

func (g *groups) lengthOf(ctx context.Context, ref sampler.SampleRef) (uint64, error) {
	if err := ctx.Err(); err != nil { // there may be millions
		return 0, err
	}
	n, err := g.lengths[ref.Source].Of(ctx, g.l.data.members[ref.Source].index, ref.Sample)
	if err != nil {
		return 0, fmt.Errorf("group_by_length: %s: %w", g.l.nameOf(ref), err)
	}
	return n, nil
}
