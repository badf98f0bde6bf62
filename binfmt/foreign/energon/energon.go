// Package energon indexes datasets that Megatron-Energon has prepared: shards of a WebDataset beside a folder
// .nv-meta, whose SQLite file already says where every member lies, so that the shards need not be read.
package energon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/binfmt/foreign/tar"
	"github.com/stepahead-io/stepahead/store"
)

// metaDir is the folder that Energon writes.
const metaDir = ".nv-meta"

// AllSplits takes the shards of all splits.
const AllSplits = "all"

// Options configure a Container. The zero value is usable.
type Options struct {
	Policy foreign.Policy
	// Split is the part of the dataset that is indexed, or AllSplits. Default "train", or all where split.yaml is
	// missing.
	Split string
}

// Container is a prepared dataset. Close frees the copy of its SQLite file.
type Container struct {
	o    Options
	tars *tar.Container
	open []*index
}

// New returns a container.
func New(o Options) *Container { return &Container{o: o, tars: tar.New(o.Policy)} }

// Name implements foreign.Container: the shards are tar files.
func (*Container) Name() string { return binfmt.Tar }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "energon 1" }

// Named implements foreign.Named.
func (*Container) Named() {}

// Defaults implements foreign.Renamer.
func (c *Container) Defaults() []foreign.Rename { return c.tars.Defaults() }

// Close closes the SQLite files.
func (c *Container) Close() error {
	var errs []error
	for _, x := range c.open {
		errs = append(errs, x.Close())
	}
	c.open = nil
	return errors.Join(errs...)
}

// part is what Rows needs of a shard.
type part struct {
	x       *index // nil: the shard's headers are read
	id      int64  // tar_file_id
	count   int64  // of samples, as .info.json says
	without excluded
	newer   bool // the shard is newer than the index
}

// Shards implements foreign.Container.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	for _, dir := range src.Names {
		info, err := src.Store.Stat(ctx, dir)
		if err == nil && info.Dir {
			info, err = src.Store.Stat(ctx, path.Join(dir, metaDir))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
		}
		if err != nil {
			return nil, err
		}
		if !info.Dir {
			return nil, nil
		}
		some, err := c.shardsOf(ctx, src.Store, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", src.Store.Address(path.Join(dir, metaDir)), err)
		}
		shards = append(shards, some...)
	}
	return shards, nil
}

func (c *Container) shardsOf(ctx context.Context, st store.Store, dir string) ([]foreign.Shard, error) {
	meta := path.Join(dir, metaDir)
	counts, err := readCounts(ctx, st, meta)
	if err != nil {
		return nil, err
	}
	split, err := readSplit(ctx, st, meta)
	if err != nil {
		return nil, err
	}
	wanted, err := split.shards(c.o.Split, counts)
	if err != nil {
		return nil, err
	}
	x, made, err := c.index(ctx, st, meta)
	if err != nil {
		return nil, err
	}
	var shards []foreign.Shard
	without := split.without.bySample(counts)
	for id, s := range counts {
		if !wanted[s.path] || split.without[s.path] {
			continue
		}
		name := path.Join(dir, s.path)
		info, err := st.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		p := &part{x: x, id: int64(id), count: s.samples, without: without[s.path], newer: info.ModTime.After(made.ModTime)}
		shards = append(shards, foreign.Shard{Name: name, Known: p, Depends: fmt.Sprintf("%s %d %q", made.Identity, id, p.without.sorted())})
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("the split %q has no shards: %w", c.o.Split, foreign.ErrContainer)
	}
	return shards, nil
}

// index opens the SQLite file; nil if there is none, or an old one that does not know the members.
func (c *Container) index(ctx context.Context, st store.Store, meta string) (*index, store.Info, error) {
	name := path.Join(meta, "index.sqlite")
	info, err := st.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, info, nil
	}
	if err != nil {
		return nil, info, err
	}
	x, err := openIndex(ctx, st, name)
	if x != nil {
		c.open = append(c.open, x)
	}
	if err != nil {
		return nil, info, fmt.Errorf("index.sqlite: %w: prepare the dataset again (`energon prepare`), or index its shards themselves with --format tar: %w", err, foreign.ErrContainer)
	}
	if !x.parts {
		return nil, info, nil
	}
	return x, info, nil
}

// Rows implements foreign.Container.
func (c *Container) Rows(ctx context.Context, src foreign.Source, s foreign.Shard, f foreign.File, to foreign.Sink) error {
	p := s.Known.(*part)
	if p.x == nil {
		return c.tars.Rows(ctx, src, s, f, without{to, p.without})
	}
	r := &reader{part: p, f: f, to: without{to, p.without}}
	if err := r.run(ctx); errors.Is(err, foreign.ErrContainer) {
		return fmt.Errorf("%w: the index of Energon and the shard disagree, or one of them is damaged: prepare the dataset again (`energon prepare`), or index the shards themselves with --format tar", err)
	} else if err != nil {
		return err
	}
	if r.samples != p.count {
		to.Warn("the index has %d samples, .info.json says %d: the shard failed to be prepared, or was prepared again", r.samples, p.count)
	}
	return nil
}

// without leaves out the samples that split.yaml excludes.
type without struct {
	foreign.Sink
	keys excluded
}

// Row implements foreign.Sink.
func (w without) Row(r foreign.Row) error {
	if w.keys[r.Key] {
		return nil
	}
	return w.Sink.Row(r)
}
