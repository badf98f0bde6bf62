package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

var _ store.Mover = (*Store)(nil)

// MoveReplica implements store.Mover, as balancers do it. Nodes are named by their UUIDs; the one that gets the replica must be known from an earlier Locate or
// read. Where blocks have tokens it takes a superuser's.
func (s *Store) MoveReplica(ctx context.Context, name string, off int64, from, to string) error {
	return s.at(ctx, "MoveReplica", name, func(string) error {
		blocks, err := s.locate(ctx, name, off, 1)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if b.off <= off && off < b.end() {
				return s.move(ctx, b, from, to)
			}
		}
		return fmt.Errorf("%w: no block at offset %d", store.ErrRange, off)
	})
}

func (s *Store) move(ctx context.Context, b *block, from, to string) error {
	var source *place
	for i, p := range b.places {
		switch p.node.id {
		case to:
			return nil // it has it
		case from:
			source = &b.places[i]
		}
	}
	target := s.nodes.named(to)
	switch {
	case source == nil:
		return fmt.Errorf("%w: node %s has no replica of the block at %d", fs.ErrNotExist, from, b.off)
	case source.token != nil:
		return fmt.Errorf("%w: the file is erasure-coded", errors.ErrUnsupported)
	case target == nil || s.pool == nil:
		return fmt.Errorf("%w: nothing is known of node %s", store.ErrUnavailable, to)
	}
	described := source.node.describe()
	described.Location = &source.node.rack
	err := s.pool.Replace(ctx, target.transfer(), datanode.Block{ExtendedBlock: b.ext, Token: b.token}, described, uint32(hproto.StorageType_value[source.storage]))
	if errors.Is(err, datanode.ErrToken) {
		return fmt.Errorf("%w: moving replicas takes a superuser's block keys: %w", fs.ErrPermission, err)
	}
	return err
}

// named returns what is known of a node; nil if nothing is.
func (t *nodeTable) named(uuid string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		if n.id == uuid && n.service == inService {
			return n
		}
	}
	return nil
}
