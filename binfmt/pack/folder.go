package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/store"
)

// ImageField is the name of the media field unless another is asked for.
const ImageField = "image"

// Folder packs the files of a folder, to any depth. Keys are the files' paths below the folder, with
// slashes. If the folder holds folders only, they are the classes: the field label is the place of
// a file's first folder among the sorted names. If it holds files only, there is no label.
type Folder struct {
	// Store holds the folder, whose name in it is Root. Default: Root is a path of this machine.
	Store store.Store
	Root  string
	// Field names the media field. Default "image".
	Field string
}

// Local returns the folder, if it is this machine's.
func (f Folder) Local() []string { return localOnly(f.Store, f.Root) }

func localOnly(st store.Store, path string) []string {
	if st != nil {
		return nil
	}
	return []string{path}
}

// List walks the folder. Links to files are followed, links to folders refused.
func (f Folder) List(ctx context.Context) (*Listing, error) {
	l := &Listing{Store: f.Store, most: draft.MaxFiles, Fields: []binfmt.Field{{Name: orDefault(f.Field, ImageField), Kind: binfmt.Media}}}
	at, walk := filesIn(f.Store).address(f.Root), f.walk
	if f.Store != nil {
		walk = f.walkStore
	}
	folders, err := walk(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("pack.Folder %s: %w", at, err)
	}
	if err := l.classify(folders); err != nil {
		return nil, fmt.Errorf("pack.Folder %s: %w", at, err)
	}
	if err := l.arrange(at); err != nil {
		return nil, fmt.Errorf("pack.Folder: %w", err)
	}
	return l, nil
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// walk collects the entries, and returns the folders directly below the root.
func (f Folder) walk(ctx context.Context, l *Listing) (folders []string, err error) {
	info, err := os.Stat(f.Root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("not a folder: %w", ErrSource)
	}
	// The slash makes a root that is itself a link to a folder be walked.
	root := strings.TrimSuffix(f.Root, string(filepath.Separator)) + string(filepath.Separator)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err := errors.Join(ctx.Err(), gone(err)); err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil || rel == "." {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") {
			l.Hidden++
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			if rel == d.Name() {
				folders = append(folders, rel)
			}
			return nil
		}
		if err := regular(file, d); err != nil {
			return err
		}
		if err := l.add(Entry{Key: filepath.ToSlash(rel), Path: file}); err != nil {
			return fmt.Errorf("%w: %w", err, ErrSource)
		}
		return nil
	})
	return folders, err
}

// walkStore is walk in a store.
func (f Folder) walkStore(ctx context.Context, l *Listing) (folders []string, err error) {
	info, err := f.Store.Stat(ctx, f.Root)
	if err != nil {
		return nil, err
	}
	if !info.Dir {
		return nil, fmt.Errorf("not a folder: %w", ErrSource)
	}
	base := strings.TrimSuffix(f.Root, "/") + "/"
	for todo := []string{f.Root}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		infos, err := f.Store.List(ctx, dir)
		if err != nil {
			return nil, gone(err)
		}
		for _, i := range infos {
			rel := strings.TrimPrefix(i.Name, base)
			switch {
			case strings.HasPrefix(path.Base(i.Name), "."):
				l.Hidden++
			case i.Dir:
				todo = append(todo, i.Name)
				if !strings.Contains(rel, "/") {
					folders = append(folders, rel)
				}
			default:
				v := versionOf(i)
				if err := l.add(Entry{Key: rel, Path: i.Name, listed: &v}); err != nil {
					return nil, fmt.Errorf("%w: %w", err, ErrSource)
				}
			}
		}
	}
	return folders, nil
}

// gone says what a file or folder that is not there any more means at this point.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it vanished: %w", err, ErrChanged)
	}
	return err
}

// regular accepts files and links to files.
func regular(path string, d fs.DirEntry) error {
	if d.Type().IsRegular() {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.Type()&fs.ModeSymlink != 0:
		return fmt.Errorf("%q is a link to nothing: remove it: %w", path, ErrSource)
	case err != nil:
		return fmt.Errorf("%w: %w", err, ErrSource)
	case info.IsDir():
		return fmt.Errorf("%q is a link to a folder, which is not followed: pack its target, or a list: %w", path, ErrSource)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%q is neither a file nor a folder (%s): %w", path, info.Mode().Type(), ErrSource)
	}
	return nil
}

// classify turns the first folder of every key into a label, if all keys have one. A class without
// files would shift the labels of the others unseen.
func (l *Listing) classify(folders []string) error {
	inside, outside := "", ""
	classes := make(map[string]bool)
	for _, e := range l.Entries {
		if first, _, ok := strings.Cut(e.Key, "/"); ok {
			inside = e.Key
			classes[first] = true
		} else {
			outside = e.Key
		}
	}
	for _, name := range folders {
		if !classes[name] && len(l.Entries) > 0 {
			return fmt.Errorf("the folder %q has no files: fill or remove it: %w", name, ErrSource)
		}
	}
	if inside == "" {
		return nil
	}
	if outside != "" {
		return fmt.Errorf("the file %q lies beside class folders (%q): move it into one, or pack a list: %w", outside, inside, ErrSource)
	}
	for c := range classes {
		l.Classes = append(l.Classes, c)
	}
	slices.Sort(l.Classes)
	l.Fields = append(l.Fields, binfmt.Field{Name: binfmt.LabelField, Kind: binfmt.Int64})
	for i := range l.Entries {
		first, _, _ := strings.Cut(l.Entries[i].Key, "/")
		n, _ := slices.BinarySearch(l.Classes, first)
		l.Entries[i].Scalars = []binfmt.Value{{Kind: binfmt.Int64, Int: int64(n)}}
	}
	return nil
}
