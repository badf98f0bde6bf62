// Package mds indexes Mosaic datasets (MDS): shards of samples whose columns lie one after the other, and an index.json that
// lists the shards.
package mds

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// Container is the shards of a Mosaic dataset.
type Container struct{}

// New returns the container. There is nothing odd that the usual reader passes over: one policy is as the other.
func New() *Container { return &Container{} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.MDS }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "mds 1" }

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
			return nil, fmt.Errorf("%s: %w", src.Store.Address(file), err)
		}
		if !ours {
			continue
		}
		samples := int64(0)
		look := files{st: src.Store, folders: map[string]map[string]store.Info{}}
		for i, e := range x.Shards {
			full, how, err := look.find(ctx, path.Dir(file), e, src.Unpack)
			if err != nil {
				return nil, fmt.Errorf("%s: shards[%d]: %w", src.Store.Address(file), i, err)
			}
			if e.Samples > 0 {
				shards = append(shards, foreign.Shard{Name: full, Known: e, Compression: how, Depends: fmt.Sprintf("%d %s", e.Samples, e.columns())})
			}
			samples += e.Samples
		}
		if samples == 0 {
			return nil, fmt.Errorf("%s: the dataset has no samples: %w", src.Store.Address(file), foreign.ErrContainer)
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
			return "", fmt.Errorf("%s: a shard of a Mosaic dataset says nothing of its columns' sizes: give the folder with its %s: %w", st.Address(name), indexName, foreign.ErrContainer)
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
				st.Address(name), path.Base(i.Name), indexName, foreign.ErrContainer)
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

// find returns the name of a shard's file, if it is there and whole. One that is compressed is found if it may be unpacked, and how is
// its compression.
func (f *files) find(ctx context.Context, dir string, e entry, unpack bool) (full, how string, err error) {
	full = path.Join(dir, e.Raw.Name)
	found, err := f.whole(ctx, full, e.Raw.Bytes)
	if found || err != nil {
		return full, "", err
	}
	if e.Zip == nil {
		return "", "", fmt.Errorf("%s is missing: put it back, or write the index again without it: %w", f.st.Address(full), foreign.ErrContainer)
	}
	zipped := path.Join(dir, e.Zip.Name)
	found, err = f.whole(ctx, zipped, e.Zip.Bytes)
	switch how = compressions[e.compression()]; {
	case err != nil:
		return "", "", err
	case !found:
		return "", "", fmt.Errorf("%s is missing, and %s too: put one back, or write the index again without it: %w", f.st.Address(zipped), path.Base(full), foreign.ErrContainer)
	case unpack && how != "":
		return zipped, how, nil
	}
	return "", "", fmt.Errorf("%s is compressed (%s): a byte in it has no place of its own that could be read: pack the dataset with `stepahead pack`, decompress the shards beside them (each as %s), or write the dataset again with compression=None: %w",
		f.st.Address(zipped), orNone(e.Compression), e.Raw.Name, foreign.ErrContainer)
}

// whole says whether a file of that size is there.
func (f *files) whole(ctx context.Context, name string, size int64) (bool, error) {
	info, ok, err := f.stat(ctx, name)
	if ok && info.Size != size {
		err = fmt.Errorf("%s has %d bytes, want %d: it was cut, is still being written, or is another shard: %w", f.st.Address(name), info.Size, size, foreign.ErrContainer)
	}
	return ok, err
}

// compressions are Mosaic's names of compressions. Its Snappy is one block, without a frame.
var compressions = map[string]string{
	"zstd": foreign.Zstandard, "gz": foreign.Gzip, "bz2": foreign.Bzip2, "br": foreign.Brotli, "snappy": foreign.SnappyBlock,
}

// compression is the name of an entry's compression, without its level.
func (e entry) compression() string {
	name, _, _ := strings.Cut(orNone(e.Compression), ":")
	return name
}

func orNone(s *string) string {
	if s == nil {
		return "compression not given"
	}
	return *s
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
