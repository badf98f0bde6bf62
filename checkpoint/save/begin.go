package save

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

// Writer writes the files of one save. It is safe for concurrent use.
type Writer struct {
	s       *stage
	path    string
	layout  Layout
	claim   store.Claim // nil: joined, or the store has none
	removed []string

	mu   sync.Mutex
	over error // after Commit and Abort: why nothing more can be done
}

// claimName is what a save of a folder holds in it.
const claimName = "save"

// errOver: Commit or Abort was called.
var errOver = fmt.Errorf("%w: the save is over", fs.ErrClosed)

// Begin starts a save into a folder, which it makes if it is missing. One rank calls it, and it returns before any other joins. It
// holds the path, removes what makes an earlier save complete and then what else it left. ctx bounds the life of the Writer, which ends with Commit or Abort.
func Begin(ctx context.Context, st store.Store, name string, o Options) (*Writer, error) {
	w, err := Join(ctx, st, name, o)
	if err != nil {
		return nil, err
	}
	if w.claim, err = hold(ctx, st, path.Join(name, claimName), o.Patience); err != nil {
		return nil, fmt.Errorf("save.Begin %s: %w", st.Address(name), err)
	}
	if err := w.clean(ctx, o.Overwrite); err != nil {
		return nil, errors.Join(fmt.Errorf("save.Begin %s: %w", st.Address(name), err), w.release())
	}
	return w, nil
}

// Join starts a Writer for a rank that does not begin the save itself. It asks nothing of the store. It may be left without Abort once Wait
// has returned.
func Join(ctx context.Context, st store.Store, name string, o Options) (*Writer, error) {
	if err := errors.Join(store.CheckName(name), o.Validate()); err != nil {
		return nil, err
	}
	return &Writer{s: newStage(ctx, st, o.Limits), path: name, layout: o.Layout}, nil
}

// hold holds a name as soon as nobody else does.
func hold(ctx context.Context, st store.Store, name string, patience time.Duration) (store.Claim, error) {
	c, ok := st.(store.Claimer)
	if !ok {
		return nil, nil
	}
	patience = cmp.Or(patience, 90*time.Second)
	for end := time.Now().Add(patience); ; {
		claim, err := c.Claim(ctx, name)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, nil
		case !errors.Is(err, fs.ErrExist):
			return claim, err
		case !time.Now().Before(end):
			return nil, fmt.Errorf("%w (waited %v): %w", ErrInFlight, max(patience, 0), err)
		}
		if err := store.Sleep(ctx, min(time.Second, time.Until(end))); err != nil {
			return nil, fmt.Errorf("%w: waiting for its end: %w", ErrInFlight, err)
		}
	}
}

// clean removes what earlier saves left.
func (w *Writer) clean(ctx context.Context, overwrite bool) error {
	st := w.s.st
	infos, err := st.List(ctx, w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var markers, files []string
	for _, info := range infos {
		switch base := path.Base(info.Name); {
		case info.Dir:
		case matches(w.layout.Markers, base):
			markers = append(markers, info.Name)
		case matches(w.layout.Files, base):
			files = append(files, info.Name)
		}
	}
	if len(markers) > 0 && !overwrite {
		return fmt.Errorf("%w: %s is that of a complete save: choose another path, or set Overwrite (in Python overwrite=True)", fs.ErrExist, st.Address(markers[0]))
	}
	for _, n := range markers { // in order, before any file
		if err := remove(ctx, st, n); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removals)
	for _, n := range files {
		g.Go(func() error { return remove(ctx, st, n) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, n := range slices.Concat(markers, files) {
		w.removed = append(w.removed, path.Base(n))
	}
	return nil
}

// removals is how many files are removed at a time.
const removals = 16

// remove removes a file, if it is still there.
func remove(ctx context.Context, st store.Store, name string) error {
	if err := st.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Removed names the files of earlier saves that Begin has removed.
func (w *Writer) Removed() []string { return w.removed }

// Create starts a file of the save. Its name is relative to the save's path; a name that exists matches fs.ErrExist, here or when it is
// stored: another writer's, or a file that the Layout does not name.
func (w *Writer) Create(name string) (*File, error) {
	full := path.Join(w.path, name)
	if err := store.CheckName(full); err != nil || name == "" || path.Join("/", name) != "/"+name {
		return nil, fmt.Errorf("save.Create %q: %w: give a clean name relative to the save's path %s", name, store.ErrName, w.s.st.Address(w.path))
	}
	if err := w.ended(); err != nil {
		return nil, err
	}
	return w.s.create(full, name, false)
}

func (w *Writer) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *Writer) release() error {
	if w.claim == nil {
		return nil
	}
	return w.claim.Release()
}
