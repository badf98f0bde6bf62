package temporary

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// Found is a file that lies among the marks.
type Found struct {
	Name string
	// Modified is when the mark was written, by the clock of the store.
	Modified time.Time
	// Mark is what it says, if Err is nil. Err matches ErrMark or ErrVersion, or is the store's.
	Mark Mark
	Err  error
}

// Write writes a mark, or replaces it: its time begins anew.
func Write(ctx context.Context, st store.Store, m Mark) error {
	data, err := m.Encode()
	if err != nil {
		return fmt.Errorf("temporary.Write %s: %w", st.Address(m.Name()), err)
	}
	return store.ReplaceFile(ctx, st, m.Name(), data)
}

// Remove removes a mark; one that is not there is removed.
func Remove(ctx context.Context, st store.Store, name string) error {
	for _, n := range []string{name + beside, name} {
		if err := st.Remove(ctx, n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Read reads one mark. A missing one matches fs.ErrNotExist.
func Read(ctx context.Context, st store.Store, name string) (Mark, error) {
	data, err := store.Files{Store: st}.ReadFile(ctx, name, maxMark)
	if err != nil {
		return Mark{}, err
	}
	m, err := Parse(data)
	if err == nil && m.Name() != name {
		err = fmt.Errorf("%w: it is that of %s", ErrMark, m.Name())
	}
	if err != nil {
		return Mark{}, fmt.Errorf("temporary.Read %s: %w", st.Address(name), err)
	}
	return m, nil
}

// atOnce is how many marks are read at a time, and how many files of a folder are deleted: of a hundred thousand one after the other nobody would wait for the last.
const atOnce = 32

// List returns the marks of a store, sorted by name. A file that is no mark has its error; a store without the folder has none.
func List(ctx context.Context, st store.Store) ([]Found, error) {
	infos, err := listFolder(ctx, st, Folder)
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i store.Info) bool { return i.Dir || !strings.HasSuffix(i.Name, suffix) })
	found := make([]Found, len(infos))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, i := range infos {
		group.Go(func() error {
			f := &found[n]
			f.Name, f.Modified = i.Name, i.ModTime
			if f.Err = ctx.Err(); f.Err == nil {
				f.Mark, f.Err = Read(ctx, st, i.Name)
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(f Found) bool { return errors.Is(f.Err, fs.ErrNotExist) }), nil // removed since it was listed
}

// listFolder lists a folder, which may not be there.
func listFolder(ctx context.Context, st store.Store, name string) ([]store.Info, error) {
	infos, err := st.List(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return infos, err
}

// Any tells whether anything of controllers lies in a store: marks, data, or rows of the catalogue.
func Any(ctx context.Context, st store.Store) (bool, error) {
	for _, folder := range []string{Folder, DataFolder, catalogue.Folder} {
		infos, err := listFolder(ctx, st, folder)
		if err != nil {
			return false, err
		}
		for _, i := range infos {
			if folder != catalogue.Folder || !i.Dir { // keys lie there, in folders
				return true, nil
			}
		}
	}
	return false, nil
}

// OrphanRow is the mark of a row of the catalogue, by its base name, that has none, as Orphan is that of data.
func OrphanRow(base string, row catalogue.Row) (m Mark, ok bool) {
	m = Mark{
		Version: Version, Controller: row.Controller, Placement: plan.ID(row.Placement), Means: "orphan", Path: row.Path,
		Row: path.Join(catalogue.Folder, base), Why: "a row without a mark",
	}
	return m, m.Validate() == nil
}

// Orphan is the mark of a place that has none: it was written by a process that went on when another had undone everything. ok is false for what is
// no place of a placement.
func Orphan(place string) (m Mark, ok bool) {
	controller, digits, _ := cutLast(path.Base(place), "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	m = Mark{Version: Version, Controller: controller, Placement: plan.ID(n), Means: "orphan", Path: place, Place: place, Why: "data without a mark"}
	return m, err == nil && m.Validate() == nil && PlaceOf(m.Controller, m.Placement) == place
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// What else lies among the marks, for moments or where a process was killed: a mark that is being written (see store.ReplaceFile), a file that
// was asked for the time, and one that was written to find out how fast that goes.
const (
	beside = ".new"
	clock  = "clock-"
	probe  = "probe-"
)

// ProbeOf is the name of the file that a controller writes into a store, and removes at once, to find out whether that takes files and how fast it is read.
func ProbeOf(controller string) string { return path.Join(Folder, probe+controller) }

// debris tells whether a file is one of those.
func debris(name string) bool {
	return strings.HasSuffix(name, suffix+beside) || asked(name)
}

// askedAge is how old a file is by which a store was asked something when nobody waits for the answer any more.
const askedAge = time.Minute

// asked tells whether a file is one by which a store is asked for the time, or whether it takes files: without it nobody loses more than an answer.
func asked(name string) bool {
	base := path.Base(name)
	return (strings.HasPrefix(base, clock) || strings.HasPrefix(base, probe)) && !strings.HasSuffix(base, suffix)
}

// Now is the time by the clock of a store: that of the change of a file that is written for it and removed, also where ctx ends meanwhile.
func Now(ctx context.Context, st store.Store) (time.Time, error) {
	name := path.Join(Folder, clock+rand.Text())
	w, err := st.Create(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	if err := w.Close(); err != nil {
		return time.Time{}, errors.Join(err, w.Abort())
	}
	info, err := st.Stat(ctx, name)
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	if err := errors.Join(err, st.Remove(ctx, name)); err != nil {
		return time.Time{}, err
	}
	return info.ModTime, nil
}

// Tidy removes the files by which a store was asked something, and whose process was killed before it could. It needs no fence: nobody's data are changed.
func Tidy(ctx context.Context, st store.Store) error {
	infos, err := listFolder(ctx, st, Folder)
	infos = slices.DeleteFunc(infos, func(i store.Info) bool { return i.Dir || !asked(i.Name) })
	if err != nil || len(infos) == 0 {
		return err
	}
	now, err := Now(ctx, st)
	if err != nil {
		return err
	}
	for _, i := range infos {
		if now.Sub(i.ModTime) < askedAge {
			continue
		}
		if err := Remove(ctx, st, i.Name); err != nil {
			return err
		}
	}
	return nil
}

// Latest is the newest moment that the clock of a store has shown, by marks and data: what is over by that is over. It stands in for Now of a store that takes
// no file, as a disk that is full: undoing what is there may be what makes room.
func Latest(marks []Found, data []store.Info) (at time.Time) {
	for _, f := range marks {
		if f.Modified.After(at) {
			at = f.Modified
		}
	}
	for _, i := range data {
		if i.ModTime.After(at) {
			at = i.ModTime
		}
	}
	return at
}
