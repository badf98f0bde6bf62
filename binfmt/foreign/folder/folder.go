// Package folder indexes folders of files as they are: one file a sample, with class folders as torchvision's ImageFolder has
// them, or files of one name up to the first dot as one sample, as WebDataset groups them.
package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Field is the name of the media field of samples that are one file.
const Field = "image"

// Options say how files become samples.
type Options struct {
	// Policy for files that are empty or of no known media type, which pictures are not: an error, or as with ImageFolder left out.
	Policy foreign.Policy
	// Group makes one sample of files whose paths are the same up to the first dot of their names: a.jpg and a.txt. Their
	// fields are what follows the dot, and class folders have no meaning.
	Group bool
}

// Container is folders of files.
type Container struct {
	o    Options
	most int // files
}

// New returns the container.
func New(o Options) *Container { return &Container{o, draft.MaxFiles} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.Folder }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "folder 1" }

// Defaults implements foreign.Renamer.
func (c *Container) Defaults() []foreign.Rename {
	if !c.o.Group {
		return nil
	}
	return foreign.NamedFiles()
}

// Classes implements foreign.Labelled.
func (*Container) Classes(shards []foreign.Shard) []string {
	if len(shards) == 0 {
		return nil
	}
	return shards[0].Known.(*listing).classes
}

// Shards implements foreign.Container. Each folder that is named becomes a bin, its files to any depth, in the order of
// ImageFolder. If one
// of them has class folders, all have the same. More than 16 million files in all are refused.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	room := c.most
	for _, name := range src.Names {
		info, err := src.Store.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		if !info.Dir {
			return nil, nil
		}
		l, err := c.list(ctx, src.Store, name, room)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", src.Store.Address(name), err)
		}
		room -= len(l.files)
		if len(shards) > 0 && !slices.Equal(l.classes, c.Classes(shards)) {
			return nil, fmt.Errorf("%s: the class folders are %.500q, those of %s are %.500q: all folders of a dataset have the same: %w",
				src.Store.Address(name), l.classes, src.Store.Address(shards[0].Name), c.Classes(shards), foreign.ErrContainer)
		}
		shards = append(shards, foreign.Shard{Name: name, Known: l})
	}
	return shards, nil
}

// listing is what a folder holds.
type listing struct {
	files   []file
	classes []string
	hidden  int
}

// file is one file. With groups, key and field are those of its sample.
type file struct{ path, key, field string }

// list walks a folder, which may have room more files.
func (c *Container) list(ctx context.Context, st store.Store, root string, room int) (*listing, error) {
	l := &listing{}
	var folders []string // directly below the root
	base := strings.TrimSuffix(root, "/") + "/"
	for todo := []string{root}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		infos, err := st.List(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			rel := strings.TrimPrefix(i.Name, base)
			switch {
			case strings.HasPrefix(path.Base(rel), "."):
				l.hidden++
			case i.Dir:
				todo = append(todo, i.Name)
				if !strings.Contains(rel, "/") {
					folders = append(folders, rel)
				}
			case len(l.files) == room:
				return nil, fmt.Errorf("%w: %w", draft.TooManyFiles(rel, c.most), foreign.ErrContainer)
			default:
				l.files = append(l.files, file{path: rel})
			}
		}
	}
	if len(l.files) == 0 {
		return nil, fmt.Errorf("no files (%d hidden ones left out): %w", l.hidden, foreign.ErrContainer)
	}
	if c.o.Group {
		return l, l.group()
	}
	slices.SortFunc(l.files, inOrder)
	return l, l.classify(folders)
}

// inOrder is ImageFolder's order: by class, by folder inside it, by name.
func inOrder(a, b file) int {
	first, _, _ := strings.Cut(a.path, "/")
	other, _, _ := strings.Cut(b.path, "/")
	return cmp.Or(strings.Compare(first, other), strings.Compare(path.Dir(a.path), path.Dir(b.path)), strings.Compare(a.path, b.path))
}

// classify finds the class folders: the folders of the root, if there is nothing beside them and each has files.
func (l *listing) classify(folders []string) error {
	used := make(map[string]bool)
	outside := ""
	for _, f := range l.files {
		if first, _, ok := strings.Cut(f.path, "/"); ok {
			used[first] = true
		} else {
			outside = f.path
		}
	}
	if len(used) > 0 && outside != "" {
		return fmt.Errorf("the file %q lies beside class folders: move it into one, or give the folders of files one by one: %w", outside, foreign.ErrContainer)
	}
	slices.Sort(folders)
	for _, name := range folders {
		if !used[name] {
			return fmt.Errorf("the folder %q has no files, and would be a class of no samples: fill or remove it: %w", name, foreign.ErrContainer)
		}
	}
	l.classes = folders
	return nil
}

// group finds the files that belong together.
func (l *listing) group() error {
	rule := foreign.NewNameRule()
	kept := l.files[:0]
	for _, f := range l.files {
		var ok bool
		if f.key, f.field, ok = rule.Split(f.path); ok {
			kept = append(kept, f)
		}
	}
	l.files = kept
	if len(kept) == 0 {
		return fmt.Errorf("no file has a name with a dot, which is what groups files: %w", foreign.ErrContainer)
	}
	slices.SortFunc(kept, func(a, b file) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.path, b.path))
	})
	return nil
}

// Rows implements foreign.Container. Of each file a few first bytes are read, which tell its type, and of one that is a value, all.
func (c *Container) Rows(ctx context.Context, src foreign.Source, s foreign.Shard, _ foreign.File, to foreign.Sink) error {
	l := s.Known.(*listing)
	if l.hidden > 0 {
		to.Warn("%d files and folders whose names begin with a dot are left out", l.hidden)
	}
	r := reader{o: c.o, st: src.Store, root: s.Name, classes: l.classes, to: to}
	for some := range slices.Chunk(l.files, together) {
		if err := r.read(ctx, some); err != nil {
			return err
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	if r.rows == 0 {
		return fmt.Errorf("no file is left: %w", foreign.ErrContainer)
	}
	return nil
}

var errUnknown = errors.New("the content is of no known media type")
