package checkpoint

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// maxFiles and maxFolders bound what a checkpoint may list: more is a path that is none.
	maxFiles   = 1_000_000
	maxFolders = 100_000
	maxFolder  = 16 // deep
)

// look lists what is at a path and tells its layout. Below a folder of a known layout everything is listed, below others nothing.
func look(ctx context.Context, st store.Store, name string) (*Checkpoint, error) {
	info, infos, err := statAndList(ctx, st, name)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: name, dir: name, Step: stepOf(name), st: st, byName: map[string]int{}}
	if !info.Dir {
		if c.Layout = layoutOfFile(name); c.Layout == "" {
			return nil, fmt.Errorf("checkpoint %s: %w: a file of no known layout: give a file of weights, or the folder of a checkpoint", st.Address(name), ErrNone)
		}
		c.dir = path.Dir(name)
		c.Files = []File{fileOf(c.dir, info)}
		c.number()
		return c, nil
	}
	if c.Layout = detect(name, baseNames(infos)); c.Layout == "" {
		return nil, fmt.Errorf("checkpoint %s: %w: a folder of no known layout%s", st.Address(name), ErrNone, steps(infos))
	}
	if err := c.list(ctx, infos); err != nil {
		return nil, err
	}
	c.number()
	return c, nil
}

// statAndList says what is at a path, and what is in it if it is a folder. Both are asked at once where a folder is likely, since stores may be far away.
func statAndList(ctx context.Context, st store.Store, name string) (info store.Info, infos []store.Info, err error) {
	var group errgroup.Group
	var listed error
	single := layoutOfFile(name) != ""
	if !single {
		group.Go(func() error {
			infos, listed = st.List(ctx, name)
			return nil
		})
	}
	info, err = st.Stat(ctx, name)
	_ = group.Wait() // it has no error
	if err == nil && info.Dir {
		if single {
			infos, listed = st.List(ctx, name)
		}
		err = listed
	}
	return info, infos, err
}

// steps says that a folder is one of checkpoints, most likely: people give the folder of a run where the one of a step is asked for.
func steps(infos []store.Info) string {
	all := candidates(infos)
	if len(all) == 0 || all[0].Step < 0 {
		return ""
	}
	return fmt.Sprintf(", with folders in it such as %s: give one of those, or ask for the latest", path.Base(all[0].Path))
}

// baseNames are the last parts of names, of folders with a slash.
func baseNames(infos []store.Info) []string {
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = path.Base(info.Name)
		if info.Dir {
			names[i] += "/"
		}
	}
	return names
}

func fileOf(dir string, info store.Info) File {
	rel := strings.TrimPrefix(strings.TrimPrefix(info.Name, dir), "/")
	return File{Name: rel, Size: info.Size, Identity: info.Identity, changed: info.ModTime}
}

// list takes the files of the folder, of which infos were listed already, and of those below it.
func (c *Checkpoint) list(ctx context.Context, infos []store.Info) error {
	var folders []string
	for listed := 0; ; listed++ {
		for _, info := range infos {
			switch {
			case transient(info.Name):
				c.notice(info)
			case info.Dir:
				folders = append(folders, info.Name)
			case info.Identity == "":
				c.Doubts = append(c.Doubts, Problem{Kind: "file-special", File: fileOf(c.dir, info).Name,
					Detail: "it is a pipe, a socket, a device, or a link that leads nowhere, and counts as missing"})
			default:
				c.Files = append(c.Files, fileOf(c.dir, info))
			}
		}
		if len(c.Files) > maxFiles || listed > maxFolders {
			return fmt.Errorf("checkpoint %s: more than %d files or %d folders: %w", c.URL(), maxFiles, maxFolders, fs.ErrInvalid)
		}
		if len(folders) == 0 {
			return nil
		}
		next := folders[len(folders)-1]
		folders = folders[:len(folders)-1]
		if strings.Count(next, "/")-strings.Count(c.dir, "/") > maxFolder {
			return fmt.Errorf("checkpoint %s: %s lies more than %d folders deep: %w", c.URL(), c.st.Address(next), maxFolder, fs.ErrInvalid)
		}
		var err error
		if infos, err = c.st.List(ctx, next); err != nil {
			return err
		}
	}
}

// notice remembers what a writer has in flight, or left.
func (c *Checkpoint) notice(info store.Info) {
	if strings.HasSuffix(info.Name, tmpSuffix) {
		f := fileOf(c.dir, info)
		c.Problems = append(c.Problems, Problem{Kind: "save-in-flight", File: f.Name,
			Detail: "a save into this folder is being committed, or was killed as it was: shards may be of another save than the metadata"})
	}
}

// number sorts files and makes them known by name.
func (c *Checkpoint) number() {
	slices.SortFunc(c.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range c.Files {
		c.byName[f.Name] = i
	}
}
