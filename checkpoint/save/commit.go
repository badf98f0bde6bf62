package save

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

// Wait returns when all files that this Writer created are stored under their names, and names them. Each has to have ended. An error
// is final: the save can only be given up.
func (w *Writer) Wait(ctx context.Context) ([]Saved, error) {
	if err := w.s.settled(ctx); err != nil {
		return nil, fmt.Errorf("save.Wait %s: %w", w.s.st.Address(w.path), err)
	}
	return w.s.stored(), nil
}

// stored names the files that are.
func (s *stage) stored() (all []Saved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.stored {
			all = append(all, f.saved)
		}
	}
	slices.SortFunc(all, func(a, b Saved) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Commit makes the save complete: it waits for the files of this Writer, finds out that they and those of others are still as they were stored, and writes
// the marker, whole and last. The marker is one of the Layout's. After an error the save is not complete, unless the error says that
// the marker's outcome is not known (store.ErrUnavailable); it can be given up.
func (w *Writer) Commit(ctx context.Context, marker string, data []byte, others ...Saved) error {
	if err := w.commit(ctx, marker, data, others); err != nil {
		return fmt.Errorf("save.Commit %s: %w", w.s.st.Address(w.path), err)
	}
	_ = w.end() // the save is complete; a path that cannot be let go is let go when this process ends
	return nil
}

func (w *Writer) commit(ctx context.Context, marker string, data []byte, others []Saved) error {
	if err := w.ended(); err != nil {
		return err
	}
	if !matches(w.layout.Markers, marker) {
		return fmt.Errorf("%w: the marker %q is none of the layout's: %q", fs.ErrInvalid, marker, w.layout.Markers)
	}
	own, err := w.Wait(ctx)
	if err != nil {
		return err
	}
	if err := w.compare(ctx, slices.Concat(own, others)); err != nil {
		return err
	}
	if w.claim != nil {
		if err := w.claim.Held(ctx); err != nil {
			return err
		}
	}
	return w.mark(ctx, marker, data)
}

// mark writes the marker.
func (w *Writer) mark(ctx context.Context, marker string, data []byte) error {
	out, err := w.s.st.Create(ctx, path.Join(w.path, marker))
	if err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		return errors.Join(err, out.Abort())
	}
	return out.Close()
}

// compare finds out whether files are as they were stored.
func (w *Writer) compare(ctx context.Context, files []Saved) error {
	folders := map[string][]Saved{}
	for _, f := range files {
		folder := path.Dir(path.Join(w.path, f.Name))
		folders[folder] = append(folders[folder], f)
	}
	for folder, saved := range folders {
		infos, err := w.s.st.List(ctx, folder)
		if err != nil {
			return err
		}
		there := make(map[string]store.Info, len(infos))
		for _, i := range infos {
			there[i.Name] = i
		}
		for _, f := range saved {
			now, ok := there[path.Join(w.path, f.Name)]
			if err := f.changed(now, ok); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed tells how a file differs from what was stored.
func (f Saved) changed(now store.Info, there bool) error {
	switch {
	case !there || now.Dir:
		return fmt.Errorf("%w: %s was stored and is not there any more: another save into the same path?", fs.ErrNotExist, f.Name)
	case now.Size != f.Size:
		return fmt.Errorf("%w: %s was stored with %d bytes and has %d: another save into the same path?", store.ErrIdentity, f.Name, f.Size, now.Size)
	case f.Identity != "" && now.Identity != f.Identity:
		return fmt.Errorf("%w: %s was stored as %s and is %s: another save into the same path?", store.ErrIdentity, f.Name, f.Identity, now.Identity)
	}
	return nil
}

// Abort gives the save up: what is under way ends, and the files that this Writer has stored are removed, unless they are others by now.
// After Commit or Abort it does nothing, so it can be deferred.
func (w *Writer) Abort(ctx context.Context) error {
	if w.ended() != nil {
		return nil
	}
	w.s.mu.Lock()
	w.s.fail(fmt.Errorf("save.Abort %s: %w", w.s.st.Address(w.path), ErrAborted))
	w.s.mu.Unlock()
	err := w.s.quiet()
	for _, f := range w.s.stored() {
		name := path.Join(w.path, f.Name)
		info, looked := w.s.st.Stat(ctx, name)
		if looked == nil && f.changed(info, true) == nil {
			looked = w.s.st.Remove(ctx, name)
		}
		if looked != nil && !errors.Is(looked, fs.ErrNotExist) {
			err = errors.Join(err, looked)
		}
	}
	return errors.Join(err, w.end())
}

// end lets the path go.
func (w *Writer) end() error {
	w.mu.Lock()
	w.over = errOver
	w.mu.Unlock()
	return w.release()
}
