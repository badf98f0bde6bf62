package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
)

// Stores is the [World] of stores: what their marks say.
type Stores struct {
	// Stores are those in which things are made, Sites the names of those that are not the home of the files.
	Stores controller.Stores
	Sites  func() []string
	// Log takes what cannot be read. Nil: nothing does.
	Log *zap.Logger
}

var _ World = Stores{}

// Places implements World.
func (w Stores) Places() []string { return append([]string{""}, w.Sites()...) }

// SurveyOf implements World. Of a store that has not answered when ctx ends nothing is known.
func (w Stores) SurveyOf(ctx context.Context, site string) ([]Leaving, error) {
	type answer struct {
		found []Leaving
		err   error
	}
	answers := make(chan answer, 1) // has room when nobody waits any more
	go func() {
		st, err := w.store(ctx, site)
		var found []Leaving
		if err == nil {
			found, err = w.list(ctx, site, st)
		}
		answers <- answer{found, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = fmt.Errorf("there is no answer: %w", ctx.Err())
	}
	if a.err != nil {
		w.log().Warn("what controllers left cannot be read", zap.String("site", site), zap.Error(a.err))
	}
	return a.found, a.err
}

// Survey asks all stores at once, so that one that hangs holds up no other; what has not answered when ctx ends is not listed.
func (w Stores) Survey(ctx context.Context) Survey {
	places := w.Places()
	found, errs := make([][]Leaving, len(places)), make([]error, len(places))
	var group errgroup.Group
	for i, site := range places {
		group.Go(func() error {
			found[i], errs[i] = w.SurveyOf(ctx, site)
			return nil
		})
	}
	_ = group.Wait() // errs has them
	s := Survey{Listed: make(map[string]bool), Unknown: make(map[string]error)}
	for i, site := range places {
		s.Leavings = append(s.Leavings, found[i]...)
		if s.Listed[site] = errs[i] == nil; errs[i] != nil {
			s.Unknown[site] = errs[i]
		}
	}
	return s
}

func (w Stores) log() *zap.Logger {
	if w.Log == nil {
		return zap.NewNop()
	}
	return w.Log
}

func (w Stores) store(ctx context.Context, site string) (store.Store, error) {
	if site == "" {
		return w.Stores.Home(), nil
	}
	return w.Stores.Site(ctx, site)
}

// list reads what a store has. Data and rows are listed before marks: what is there then has its mark by now, or is an orphan.
func (w Stores) list(ctx context.Context, site string, st store.Store) ([]Leaving, error) {
	data, err := st.List(ctx, temporary.DataFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rows, err := rowsOf(ctx, st)
	if err != nil {
		return nil, err
	}
	if err := temporary.Tidy(ctx, st); err != nil && ctx.Err() == nil { // whatever keeps it from that is told below, or the next time
		w.log().Warn("what a killed process left among the marks cannot be removed", zap.String("site", site), zap.Error(err))
	}
	marks, err := temporary.List(ctx, st)
	if err != nil || len(marks)+len(data)+len(rows) == 0 {
		return nil, err
	}
	now, err := temporary.Now(ctx, st)
	if err != nil && ctx.Err() == nil {
		w.log().Warn("the clock of a store cannot be read: what is over is known by what was written there last", zap.String("site", site), zap.Error(err))
		now, err = temporary.Latest(marks, data), nil
	}
	if err != nil {
		return nil, err
	}
	var list []Leaving
	marked := make(map[string]bool)
	unread := 0
	for _, f := range marks {
		marked[strings.TrimSuffix(path.Base(f.Name), ".json")] = true
		if f.Err != nil {
			w.log().Warn("a mark cannot be read: it is left alone", zap.String("mark", st.Address(f.Name)), zap.Error(f.Err))
			if unread++; unread == 1 {
				err = f.Err
			}
			continue
		}
		l := Leaving{Site: site, Mark: f.Mark, Left: f.Modified.Add(f.Mark.TTL).Sub(now), Ours: w.ours(site, f.Mark)}
		if row, ok := rows[f.Mark.Row]; ok && row.Controller == f.Mark.Controller && row.Placement == uint64(f.Mark.Placement) {
			l.Shown = true
			delete(rows, f.Mark.Row)
		}
		l.Raised = w.raised(ctx, st, f.Mark)
		list = append(list, l)
	}
	for name, row := range rows { // of which no mark is
		if m, ok := temporary.OrphanRow(path.Base(name), row); ok && !marked[path.Base(strings.TrimSuffix(m.Name(), ".json"))] {
			list = append(list, Leaving{Site: site, Mark: m, Left: -time.Nanosecond, Ours: true})
		}
	}
	for _, info := range data {
		if m, ok := temporary.Orphan(info.Name); ok && !marked[path.Base(info.Name)] {
			list = append(list, Leaving{Site: site, Mark: m, Left: -time.Nanosecond, Ours: true})
		}
	}
	if unread > 1 {
		err = fmt.Errorf("%d marks cannot be read, the first: %w", unread, err)
	}
	return list, err
}

// rowsOf returns the rows of a store's catalogue that can be read, by their names. Who signed them does not matter.
func rowsOf(ctx context.Context, st store.Store) (map[string]catalogue.Row, error) {
	entries, err := catalogue.List(ctx, st, catalogue.Keys{})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]catalogue.Row)
	for _, e := range entries {
		if e.Row.Controller != "" {
			rows[path.Join(catalogue.Folder, e.Name)] = e.Row
		}
	}
	return rows, nil
}

// ours tells whether a controller of these files made what a mark is of: copies name the original, all else is in the store of its original.
func (w Stores) ours(site string, m temporary.Mark) bool {
	if m.Means == plan.Copy {
		return strings.HasPrefix(m.Path, strings.TrimSuffix(w.Stores.Home().Address("/"), "/")+"/")
	}
	return site == ""
}

// Undo implements World.
func (w Stores) Undo(ctx context.Context, found Leaving, fence func(context.Context) error) error {
	st, err := w.store(ctx, found.Site)
	if err != nil {
		return err
	}
	_, err = temporary.Undo(ctx, st, found.Mark, fence)
	return err
}

// Again implements World. A file that somebody else gave just what the placement had given it cannot be told from one that was raised again.
func (w Stores) Again(ctx context.Context, found Leaving, fence func(context.Context) error) (bool, error) {
	st, err := w.store(ctx, found.Site)
	if err != nil {
		return false, err
	}
	if _, ok := st.(store.Attributer); !ok || found.Mark.Raised == nil {
		return false, nil
	}
	places, err := temporary.Places(ctx, st, found.Mark)
	if err != nil {
		return false, err
	}
	again := false
	for _, at := range places {
		is, err := marked(ctx, at, found, fence)
		if err != nil {
			return false, err
		}
		again = again || is
	}
	if again {
		_, err = temporary.Undo(ctx, st, found.Mark, fence)
	}
	return again, err
}

// marked tells whether the file at the path of a mark is raised by its placement, and gives it the attribute that says so, if it has lost that.
func marked(ctx context.Context, st store.Store, found Leaving, fence func(context.Context) error) (bool, error) {
	m := found.Mark
	file, ok, err := temporary.Raised(ctx, st, m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || ok:
		return err == nil && file.Name() == m.Name(), err // else another placement has it
	case !found.Raised:
		return false, nil // who wrote the mark may have had no right to change the file
	}
	raised, err := isRaised(ctx, st, m)
	if err != nil || !raised {
		return false, err
	}
	value, err := temporary.AttributeOf(m) // what the file said itself: Leaving.Raised
	if err != nil {
		return false, err
	}
	set := func(ctx context.Context) error {
		return st.(store.Attributer).SetAttribute(ctx, m.Path, temporary.Attribute, value) // it is one: it has told the attribute
	}
	return true, temporary.Change(ctx, fence, set)
}

// raised tells whether the file of a mark has the attribute that names it, and says the same.
func (w Stores) raised(ctx context.Context, st store.Store, m temporary.Mark) bool {
	if _, ok := st.(store.Attributer); !ok || m.Raised == nil {
		return false
	}
	places, err := temporary.Places(ctx, st, m)
	ours := false
	for _, at := range places {
		file, ok, failed := temporary.Raised(ctx, at, m.Path)
		if failed == nil && ok && file.Name() == m.Name() {
			failed = m.Agrees(file)
			ours = ours || failed == nil
		}
		if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		w.log().Warn("whether a file is raised cannot be told", zap.String("mark", st.Address(m.Name())), zap.String("path", st.Address(m.Path)), zap.Error(err))
	}
	return ours && err == nil
}

// isRaised tells whether a file is still the one of a mark and has what the placement gave it.
func isRaised(ctx context.Context, st store.Store, m temporary.Mark) (bool, error) {
	info, err := st.Stat(ctx, m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || string(info.Identity) != m.Identity {
		return false, err
	}
	if info.Replicas == m.Raised.Replicas && info.Replicas != m.Was.Replicas {
		return true, nil
	}
	policies, ok := st.(store.StoragePolicer)
	if !ok || m.Raised.Policy == nil || m.Was.Policy == nil {
		return false, nil
	}
	now, err := policies.StoragePolicy(ctx, m.Path)
	return err == nil && now == *m.Raised.Policy && now != *m.Was.Policy, err
}
