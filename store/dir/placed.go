package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.PlacedCreator = (*Store)(nil)

// CreatePlaced implements store.PlacedCreator. Where nodes are left out that are too many, the file has fewer replicas, and Close fails where a block has none.
func (s *Store) CreatePlaced(ctx context.Context, name string, p store.Placement) (store.Writer, error) {
	err := p.Validate()
	var w *writer
	if err == nil {
		w, err = s.create(ctx, name)
	}
	if err != nil {
		return nil, failed(s.root, "CreatePlaced", name, err)
	}
	w.place = func(f *os.File) error { return s.place(ctx, name, f, p) }
	return w, nil
}

// place says, before a file has its name, where its blocks lie.
func (s *Store) place(ctx context.Context, name string, f *os.File, p store.Placement) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch _, err := s.root.Lstat(rel(name)); {
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent, err := s.root.Stat(rel(path.Dir(name)))
	if err != nil {
		return err
	}
	above, err := s.sidecar(path.Dir(name), parent)
	if err != nil {
		return err
	}
	policy, err := s.policy(path.Dir(name), above)
	if err != nil {
		return err
	}
	return s.change(ctx, name, info, func(c *sidecar) error {
		c.Replication, c.BlockSize = p.Replicas, p.BlockSize
		return s.choose(c, info.Size(), p.Exclude, policy)
	})
}

// choose chooses nodes for all blocks of a file, unless the usual ones will do.
func (s *Store) choose(c *sidecar, size int64, exclude func(off int64) []string, policy store.StoragePolicy) error {
	if exclude == nil && policy.Name == usualPolicy {
		return nil
	}
	where, types := s.placing(c.name(), *c), storagePolicies[policy.Name]
	var err error
	c.Blocks = where.texts(size, func(block int64) []replica {
		var forbidden []string
		if exclude != nil {
			forbidden = exclude(block * where.blockSize)
		}
		usable := func(node int) bool { return s.alive(node) && !slices.Contains(forbidden, s.topology.Nodes[node].Name) }
		all := s.layout.more(nil, where.name, block, types.missing(where.factor, nil), types.fallback, usable)
		if len(all) == 0 {
			err = fmt.Errorf("%w: block at offset %d: no node is left beside the %d that may not get it", store.ErrUnavailable, block*where.blockSize, len(forbidden))
		}
		return all
	})
	if exclude != nil {
		c.settleFor(where.factor)
	}
	return err
}

// settleFor has a file whose blocks got less than factor replicas ask for no more than each of them has.
func (c *sidecar) settleFor(factor int) {
	fewest := factor
	for _, b := range c.Blocks {
		fewest = min(fewest, len(b))
	}
	if fewest == factor {
		return
	}
	c.Replication = fewest
	for i, b := range c.Blocks {
		c.Blocks[i] = b[:fewest]
	}
}
