package temporary

import (
	"context"
	"errors"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/store"
)

// Margin is how long after its time what a mark is of is undone by others than its controller.
const Margin = 10 * time.Second

// debrisAge is how old what a killed process left beside the marks is when it is removed: nobody is writing it any more.
const debrisAge = 10 * time.Minute

// SweepOptions say what a sweep undoes. The zero value: what has expired.
type SweepOptions struct {
	// All undoes everything, expired or not.
	All bool
	// Now is the time by the clock of the store. Default: the store is asked, if there is anything to undo.
	Now time.Time
	// DryRun changes nothing but for asking the store for the time: Done says what would be done.
	DryRun bool
	// Fence is called before each change of the world. Default: none.
	Fence func(ctx context.Context) error
}

// Swept is one mark, and what became of it.
type Swept struct {
	Found
	// Left is how long what it is of may still last; below 0 it has expired.
	Left time.Duration
	// Done is what was done to undo it, for people; nil where nothing was to be.
	Done []string
	// Undone says that nothing is left. Found.Err is why it could not be.
	Undone bool
}

// Report is what a sweep found: marks sorted by name, then data and rows without one.
type Report struct {
	Marks []Swept
	// Undone of them are gone, Failed were to be and could not.
	Undone, Failed int
}

// Sweep undoes what the marks of a store are of, of which the time is over, and data and rows of the catalogue that have no mark. One that fails, or that cannot
// be read, does not keep the others from being undone: the report has its error. Sweep itself fails only where it cannot go on.
func Sweep(ctx context.Context, st store.Store, o SweepOptions) (Report, error) {
	if some, err := Any(ctx, st); err != nil || !some {
		return Report{}, err
	}
	data, err := listFolder(ctx, st, DataFolder) // before the marks, as rows: what there is by then has its mark by now, or is an orphan
	if err != nil {
		return Report{}, err
	}
	rows, err := catalogue.List(ctx, st, catalogue.Keys{}) // whoever signed them
	if err != nil {
		return Report{}, err
	}
	if o.Now.IsZero() { // before the marks: what is written from now on is not over
		if o.Now, err = Now(ctx, st); ctx.Err() != nil {
			return Report{}, err
		}
	}
	found, err := List(ctx, st)
	if err != nil {
		return Report{}, err
	}
	if o.Now.IsZero() {
		o.Now = Latest(found, data)
	}
	var r Report
	for _, f := range append(found, orphans(data, rows, found, o.Now)...) {
		s := Swept{Found: f, Left: f.Modified.Add(f.Mark.TTL).Sub(o.Now)}
		stop := s.sweep(ctx, st, o)
		switch {
		case s.Undone:
			r.Undone++
		case s.Err != nil:
			r.Failed++
		}
		r.Marks = append(r.Marks, s)
		if stop != nil {
			return r, stop
		}
	}
	return r, Clean(ctx, st, o)
}

// orphans are the data and rows that have no mark, as if they had one whose time is over.
func orphans(data []store.Info, rows []catalogue.Entry, marks []Found, now time.Time) (found []Found) {
	known := make(map[string]bool, len(marks))
	for _, f := range marks {
		known[f.Name] = true
	}
	add := func(m Mark, ok bool, modified time.Time) {
		if ok && !known[m.Name()] {
			found = append(found, Found{Name: m.Name(), Modified: modified, Mark: m})
		}
	}
	for _, i := range data {
		m, ok := Orphan(i.Name)
		add(m, ok, i.ModTime)
	}
	for _, e := range rows {
		m, ok := OrphanRow(e.Name, e.Row)
		add(m, ok, now.Add(-2*Margin)) // when it was written counts for nothing
	}
	return found
}

// sweep undoes one mark if it is to be. It returns an error that keeps all others from being undone too.
func (s *Swept) sweep(ctx context.Context, st store.Store, o SweepOptions) error {
	switch {
	case s.Err != nil || !o.All && s.Left >= -Margin:
		return nil
	case o.DryRun:
		s.Done, s.Err = Preview(ctx, st, s.Mark)
		return ctx.Err()
	}
	s.Done, s.Err = Undo(ctx, st, s.Mark, o.Fence)
	s.Undone = s.Err == nil
	var fence *FenceError
	if errors.As(s.Err, &fence) {
		return s.Err
	}
	return ctx.Err()
}

// Clean removes what killed processes left beside the marks of a store. Sweep does it too.
func Clean(ctx context.Context, st store.Store, o SweepOptions) error {
	infos, err := listFolder(ctx, st, Folder)
	if err != nil || o.DryRun {
		return err
	}
	for _, i := range infos {
		if i.Dir || !debris(i.Name) || !o.All && o.Now.Sub(i.ModTime) < debrisAge {
			continue
		}
		if err := Change(ctx, o.Fence, func(ctx context.Context) error { return Remove(ctx, st, i.Name) }); err != nil {
			return err
		}
	}
	return nil
}
