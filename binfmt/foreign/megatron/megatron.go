// Package megatron indexes Megatron's pairs of .bin and .idx files: every sequence of tokens is a sample, and the .idx is used
// as it is.
package megatron

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

const (
	dataEnd  = ".bin"
	indexEnd = ".idx"
	magic    = "MMIDIDX\x00\x00"
)

// Container is pairs of .bin and .idx files.
type Container struct{}

// New returns the container. There is no odd input that Megatron's reader passes over and that could be passed over here: what
// breaks a rule is an error under every policy.
func New() *Container { return &Container{} }

// Name implements foreign.Container.
func (*Container) Name() string { return binfmt.Megatron }

// Reading implements foreign.Container.
func (*Container) Reading() string { return "megatron 1" }

// Shards implements foreign.Container. A pair is named by its .bin, its .idx, both, or what their names begin with, as Megatron
// does; of a folder, all its pairs are taken, sorted by bytes. Both files have to lie side by side.
func (c *Container) Shards(ctx context.Context, src foreign.Source) ([]foreign.Shard, error) {
	var shards []foreign.Shard
	for _, name := range src.Names {
		prefixes, err := prefixesOf(ctx, src.Store, name)
		if err != nil {
			return nil, err
		}
		for _, p := range prefixes {
			s, err := pair(ctx, src.Store, p)
			if err != nil {
				return nil, err
			}
			if s != nil && !slices.Contains(shards, *s) {
				shards = append(shards, *s)
			}
		}
	}
	return shards, nil
}

// prefixesOf returns the names of pairs, without their ends, that a name of the source stands for.
func prefixesOf(ctx context.Context, st store.Store, name string) ([]string, error) {
	for _, end := range []string{dataEnd, indexEnd} {
		if p, ok := strings.CutSuffix(name, end); ok {
			return []string{p}, nil
		}
	}
	info, err := st.Stat(ctx, name)
	switch {
	case err == nil && info.Dir:
		infos, err := st.List(ctx, name)
		if err != nil {
			return nil, err
		}
		var prefixes []string
		for _, i := range infos {
			if p, ok := strings.CutSuffix(i.Name, indexEnd); ok && !i.Dir {
				prefixes = append(prefixes, p)
			}
		}
		return prefixes, nil
	case store.ClassOf(err) == store.NotFound:
		return []string{name}, nil
	}
	return nil, err
}

// pair returns the shard that two files make, nil if there is no .idx or it is none of Megatron's: other programs use the
// same ends of names.
func pair(ctx context.Context, st store.Store, prefix string) (*foreign.Shard, error) {
	index, err := foreign.Exists(ctx, st, prefix+indexEnd)
	if err != nil || index == nil {
		return nil, err
	}
	data, err := foreign.Exists(ctx, st, prefix+dataEnd)
	if err != nil {
		return nil, err
	}
	if data != nil {
		return &foreign.Shard{Name: data.Name, Index: index.Name}, nil
	}
	head, err := foreign.Head(ctx, st, index.Name, int64(len(magic)))
	if err != nil || string(head) != magic {
		return nil, err
	}
	return nil, fmt.Errorf("%s: the %s that belongs to it does not lie beside it: an index whose tokens are in another folder or store (as Megatron keeps it with path_to_idx_cache, for tokens in an object store) cannot be used: copy the .idx beside the .bin and give that place: %w",
		st.Address(index.Name), path.Base(prefix)+dataEnd, foreign.ErrContainer)
}

// Rows implements foreign.Container; it is not called, because the container is foreign.Indexed.
func (*Container) Rows(context.Context, foreign.Source, foreign.Shard, foreign.File, foreign.Sink) error {
	return fmt.Errorf("megatron.Rows: the .idx is the index: %w", foreign.ErrContainer)
}

// Describe implements foreign.Indexed. It reads all of the .idx and nothing of the .bin.
func (*Container) Describe(ctx context.Context, s foreign.Shard, data, index foreign.File) ([]binfmt.Field, int64, error) {
	fields, samples, err := binfmt.CheckTokens(ctx, index, index.Size(), data.Size())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %w", path.Base(s.Index), err, foreign.ErrContainer)
	}
	if data.Size() == 0 {
		return nil, 0, fmt.Errorf("%s: there is no token in it: leave the pair out: %w", path.Base(s.Name), foreign.ErrContainer)
	}
	return fields, samples, nil
}
