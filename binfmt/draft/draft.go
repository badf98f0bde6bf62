// Package draft knows how a dataset is written so that it appears whole, in one step, and how what a killed
// writer left is found again.
package draft

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// ErrExists: there is another dataset at the destination.
var ErrExists = errors.New("another dataset is there already")

// Draft is a dataset on its way. Everything is written in one folder inside the dataset's, which goes away at
// the end; after a kill the next run goes on from it. Only one Draft may work on a dataset at a time.
type Draft struct {
	Store store.Store
	Dir   string // of the dataset
	Work  string // name of the working folder inside Dir
}

// Folder is the working folder.
func (d Draft) Folder() string { return path.Join(d.Dir, d.Work) }

// Data is the folder of files that are finished but not published.
func (d Draft) Data() string { return path.Join(d.Folder(), "data") }

// Scan is the folder of what was learned of the source.
func (d Draft) Scan() string { return path.Join(d.Folder(), "scan") }

// Advise says what to do after errors that have nothing to do with what the command is given.
func (d Draft) Advise(command string, err error) error {
	folder := d.Store.Address(d.Folder())
	const again = "run the same command again, which goes on where it stopped; to give up, remove"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room and %s %s", err, again, folder)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted: %s %s: %w", command, again, folder, err)
	case errors.Is(err, fs.ErrExist): // of names that only this command writes
		return fmt.Errorf("%w: another process makes the same dataset: wait until it is done, and %s %s", err, again, folder)
	}
	return err
}

// WriteFile writes one file of Data, in place of a leftover that is of no use.
func (d Draft) WriteFile(ctx context.Context, name string, fill func(io.Writer) error) error {
	name = path.Join(d.Data(), name)
	if err := d.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.Store.Create(ctx, name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	err = fill(out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Store.Address(name), errors.Join(err, f.Abort()))
	}
	return f.Close()
}

// Find returns where a finished file is, in Data or at its final place, or "".
func (d Draft) Find(ctx context.Context, name string) (string, error) {
	for _, at := range []string{path.Join(d.Data(), name), path.Join(d.Dir, name)} {
		_, err := d.Store.Stat(ctx, at)
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// existing looks at what is at the destination: nil, or the manifest that will be replaced. same says that it is m
// itself. Another one is ErrExists, unless force is set.
func (d Draft) existing(ctx context.Context, m *binfmt.Manifest, force bool) (old *binfmt.Manifest, same bool, err error) {
	name := path.Join(d.Dir, binfmt.ManifestName)
	data, err := store.ReadFile(ctx, d.Store, name, binfmt.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	old, err = binfmt.ParseManifest(d.Store.Address(name), data)
	switch {
	case err == nil && old.Identity() == m.Identity():
		return old, true, nil
	case !force && err != nil:
		return nil, false, fmt.Errorf("there is a manifest that cannot be read; replace it with --force: %w: %w", err, ErrExists)
	case !force:
		return nil, false, fmt.Errorf("%s: %x, the new one would be %x: write to another place, or replace it with --force: %w", d.Store.Address(name), old.Identity(), m.Identity(), ErrExists)
	}
	return old, false, nil
}

// Finish makes a dataset of which all is known: write makes those of its files that are not there yet. It tells whether the same dataset
// was there before. Another one is ErrExists, unless force is set.
func (d Draft) Finish(ctx context.Context, m *binfmt.Manifest, force bool, write func() error) (already bool, err error) {
	old, same, err := d.existing(ctx, m, force)
	if err == nil {
		err = d.sweep(ctx, m)
	}
	if err == nil {
		err = write()
	}
	if err == nil {
		err = d.publish(ctx, m, old, same)
	}
	return same, err
}

// publish moves the finished files to their names and then the manifest, which makes the dataset exist; with same,
// that of existing, it exists already.
func (d Draft) publish(ctx context.Context, m, old *binfmt.Manifest, same bool) error {
	for _, name := range filesOf(m) {
		err := d.Store.Rename(ctx, path.Join(d.Data(), name), path.Join(d.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // not there: moved by an earlier run
			return err
		}
	}
	if !same {
		if err := d.putManifest(ctx, m); err != nil {
			return err
		}
	}
	return d.clean(ctx, m, old)
}

// filesOf lists the files of all bins. Those that other programs wrote are not the dataset's.
func filesOf(m *binfmt.Manifest) []string {
	var names []string
	for _, b := range m.Bins {
		names = append(names, b.Files()...)
	}
	return names
}

func (d Draft) putManifest(ctx context.Context, m *binfmt.Manifest) error {
	tmp := path.Join(d.Folder(), binfmt.ManifestName)
	if err := ReplaceFile(ctx, d.Store, tmp, m.Canonical()); err != nil {
		return err
	}
	return d.Store.Rename(ctx, tmp, path.Join(d.Dir, binfmt.ManifestName))
}

// clean removes the working folder, and the bins of a dataset that was replaced.
func (d Draft) clean(ctx context.Context, m, old *binfmt.Manifest) error {
	err := RemoveAll(ctx, d.Store, d.Folder())
	if old != nil {
		gone := filesOf(old)
		if old.Identity() != m.Identity() {
			gone = append(gone, binfmt.SumsName) // those of the old dataset
		}
		err = errors.Join(err, d.removeOthers(ctx, d.Dir, gone, filesOf(m)))
	}
	if err != nil {
		return fmt.Errorf("the dataset is complete, but what is not needed any more is not all removed: %w", err)
	}
	return nil
}

// removeOthers removes those of the named files in dir that are not to be kept.
func (d Draft) removeOthers(ctx context.Context, dir string, names, keep []string) error {
	kept := make(map[string]bool, len(keep))
	for _, name := range keep {
		kept[name] = true
	}
	var errs []error
	for _, name := range names {
		if kept[name] {
			continue
		}
		if err := d.Store.Remove(ctx, path.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes finished files of an earlier run that was to make another dataset.
func (d Draft) sweep(ctx context.Context, m *binfmt.Manifest) error {
	infos, err := d.Store.List(ctx, d.Data())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names []string
	for _, info := range infos {
		names = append(names, path.Base(info.Name))
	}
	return d.removeOthers(ctx, d.Data(), names, filesOf(m))
}

// ReplaceFile writes a small file in the working folder. It is not atomic: after a kill there may be
// no file, which is what the working folder's files may always be.
func ReplaceFile(ctx context.Context, st store.Store, name string, data []byte) error {
	if err := st.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := st.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// RemoveAll removes a folder and what is in it. A folder that is not there is fine.
func RemoveAll(ctx context.Context, st store.Store, dir string) error {
	infos, err := st.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.Dir {
			err = RemoveAll(ctx, st, info.Name)
		} else {
			err = st.Remove(ctx, info.Name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := st.Remove(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LocalPath returns where a folder, which need not exist yet, is or will be on this machine.
func LocalPath(st store.Store, dir string) (string, bool) {
	l, ok := st.(store.Localizer)
	if !ok {
		return "", false
	}
	rest := ""
	for {
		if p, ok := l.LocalPath(dir); ok {
			return filepath.Join(p, filepath.FromSlash(rest)), true
		}
		if dir == path.Dir(dir) {
			return "", false
		}
		dir, rest = path.Dir(dir), path.Join(path.Base(dir), rest)
	}
}

// Within says whether a name is a folder or lies in it.
func Within(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
