// Package mds indexes Mosaic datasets (MDS): shards of samples whose columns lie one after the other, and an index.json that
// lists the shards.
package mds

import (
	"context"
	"fmt"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Container is the shards of a Mosaic dataset.
type Container struct{ policy foreign.Policy }

// New returns a container that treats odd shards by a policy.
func New(policy foreign.Policy) *Container { return &Container{policy} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.MDS }

// Shards implements foreign.Container. A dataset is named by its folder or by its index.json; several are joined in the order
// given. Shards without samples are left out.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	for _, name := range src.Names {
		file, err := indexFile(ctx, src.Store, name)
		if err != nil {
			return nil, err
		}
		if file == "" {
			continue
		}
		x, ours, err := readIndex(ctx, src.Store, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if !ours {
			continue
		}
		samples := int64(0)
		look := files{st: src.Store, folders: map[string]map[string]store.Info{}}
		for i, e := range x.Shards {
			full, err := look.find(ctx, path.Dir(file), e)
			if err != nil {
				return nil, fmt.Errorf("%s: shards[%d]: %w", file, i, err)
			}
			if e.Samples > 0 {
				shards = append(shards, foreign.Shard{Name: full, Known: e, Depends: fmt.Sprintf("%d %s", e.Samples, e.columns())})
			}
			samples += e.Samples
		}
		if samples == 0 {
			return nil, fmt.Errorf("%s: the dataset has no samples: %w", file, foreign.ErrContainer)
		}
	}
	return shards, nil
}

// indexFile returns the index.json that a name of the source stands for, "" if it stands for none.
func indexFile(ctx context.Context, st store.Store, name string) (string, error) {
	info, err := st.Stat(ctx, name)
	if err != nil {
		return "", err
	}
	if !info.Dir {
		switch {
		case path.Base(name) == indexName:
			return name, nil
		case path.Ext(name) == ".mds":
			return "", fmt.Errorf("%s: a shard of a Mosaic dataset says nothing of its columns' sizes: give the folder with its %s: %w", name, indexName, foreign.ErrContainer)
		}
		return "", nil
	}
	file := path.Join(name, indexName)
	if found, err := foreign.Exists(ctx, st, file); err != nil || found != nil {
		return file, err
	}
	infos, err := st.List(ctx, name)
	if err != nil {
		return "", err
	}
	for _, i := range infos {
		if path.Ext(i.Name) == ".mds" {
			return "", fmt.Errorf("%s: there are shards of a Mosaic dataset (%s), but no %s, which has the sizes of the columns: merge it from the parts with Mosaic's merge_index: %w",
				name, path.Base(i.Name), indexName, foreign.ErrContainer)
		}
	}
	return "", nil
}

func readIndex(ctx context.Context, st store.Store, file string) (index, bool, error) {
	data, err := store.ReadFile(ctx, st, file, maxIndex)
	if err != nil {
		return index{}, false, err
	}
	return parseIndex(data)
}

// files finds the shards' files, listing each folder once.
type files struct {
	st      store.Store
	folders map[string]map[string]store.Info
}

// find returns the name of a shard's file, if it is there, whole and not compressed.
func (f *files) find(ctx context.Context, dir string, e entry) (string, error) {
	full := path.Join(dir, e.Raw.Name)
	info, ok, err := f.stat(ctx, full)
	switch {
	case err != nil:
		return "", err
	case ok && info.Size != e.Raw.Bytes:
		return "", fmt.Errorf("%s has %d bytes, want %d: it was cut, is still being written, or is another shard: %w", full, info.Size, e.Raw.Bytes, foreign.ErrContainer)
	case ok:
		return full, nil
	}
	if e.Zip != nil {
		if _, zipped, err := f.stat(ctx, path.Join(dir, e.Zip.Name)); err != nil || zipped {
			return "", fmt.Errorf("%s is compressed (%s): a byte in it has no place of its own that could be read: decompress the shards beside them (each as %s), or write the dataset again with compression=None: %w",
				path.Join(dir, e.Zip.Name), compressionOf(e), e.Raw.Name, foreign.ErrContainer)
		}
	}
	return "", fmt.Errorf("%s is missing: put it back, or write the index again without it: %w", full, foreign.ErrContainer)
}

func compressionOf(e entry) string {
	if e.Compression == nil {
		return "compression not given"
	}
	return *e.Compression
}

func (f *files) stat(ctx context.Context, name string) (store.Info, bool, error) {
	dir := path.Dir(name)
	if f.folders[dir] == nil {
		infos, err := f.st.List(ctx, dir)
		if err != nil && store.ClassOf(err) != store.NotFound {
			return store.Info{}, false, err
		}
		f.folders[dir] = make(map[string]store.Info, len(infos))
		for _, i := range infos {
			if !i.Dir {
				f.folders[dir][i.Name] = i
			}
		}
	}
	info, ok := f.folders[dir][name]
	return info, ok, nil
}
