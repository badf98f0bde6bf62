package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// CreatePlaced implements store.PlacedCreator. Nodes are named by their UUIDs. How many replicas there is a place for the NameNode says, block by block: of R
// racks none gets more than (replicas - 1) / R + 2 of them, and fewer than all. Blocks that got more than a later one lose them. A DataNode that fails while a block of more than 4 MiB is written leaves it
// one replica short, and HDFS makes that later, on any node.
func (s *Store) CreatePlaced(ctx context.Context, name string, p store.Placement) (store.Writer, error) {
	var w *writer
	err := s.at(ctx, "CreatePlaced", name, func(path string) error {
		shape, err := s.writes.placement(ctx, p)
		if err != nil {
			return err
		}
		d, err := s.writes.createShaped(ctx, path, shape)
		w = &writer{s: s, name: name, draft: d}
		return outsideLimits(err)
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// placement is the shape of a file that somebody else places.
func (w *writing) placement(ctx context.Context, p store.Placement) (shape, error) {
	if err := p.Validate(); err != nil {
		return shape{}, err
	}
	usual, err := w.shape(ctx)
	return shape{blockSize: cmp.Or(p.BlockSize, usual.blockSize), replicas: cmp.Or(p.Replicas, usual.replicas), exclude: p.Exclude}, err
}

// placeApart asks for a block on other nodes than those that may not get it. A NameNode knows a node by UUID and address: one that nothing was read
// from is known when the NameNode gives it, and the block is given back. Where it gives fewer than the file asks for, because the others are too few or on too few
// racks, the file asks for as many from then on; but nodes that failed are tried once more before.
func (o *output) placeApart(failed []*hproto.DatanodeInfo) (*hproto.LocatedBlock, error) {
	forbidden := o.exclude(o.closed)
	excluded := slices.Concat(failed, o.w.nodes.called(forbidden))
	for range len(forbidden) + o.replicas {
		b, err := o.add(excluded)
		switch {
		case errors.Is(err, syscall.ENOSPC) && len(forbidden) > 0: // so it looks from here
			return nil, o.nowhere(forbidden, err)
		case err != nil:
			return nil, err
		}
		given := slices.DeleteFunc(slices.Clone(b.GetLocs()), func(d *hproto.DatanodeInfo) bool {
			return !slices.Contains(forbidden, d.GetId().GetDatanodeUuid())
		})
		if len(given) == 0 && len(b.GetLocs()) >= o.replicas {
			o.placed(b)
			return b, nil
		}
		if err := o.giveBack(b); err != nil {
			return nil, err
		}
		switch {
		case len(given) > 0:
			for _, d := range given {
				o.w.nodes.of(d, false)
			}
			excluded = append(excluded, given...)
		case o.again(b):
			return nil, o.nowhere(forbidden, fmt.Errorf("%d are left for %d replicas", len(b.GetLocs()), o.replicas))
		default:
			if err := o.settleFor(len(b.GetLocs())); err != nil {
				return nil, err
			}
		}
	}
	return nil, o.nowhere(forbidden, errors.New("the NameNode gives it DataNodes that were excluded"))
}

// again tells whether a block is to be asked for once more: it got fewer DataNodes than it is to have, and some were left out that have failed for it only once.
func (o *output) again(b *hproto.LocatedBlock) bool {
	n := len(b.GetLocs())
	if n == 0 {
		return true
	}
	once := false
	for _, s := range o.shunned {
		if id := s.node.GetId().GetDatanodeUuid(); n < o.replicas && !slices.Contains(o.forgiven, id) {
			once = true
			o.forgiven = append(o.forgiven, id)
		}
	}
	return once
}

// settleFor has the file ask for fewer replicas, before a block has fewer: HDFS would make those that are missing, on any node, as soon as the next block is begun.
func (o *output) settleFor(replicas int) error {
	done, err := o.w.names.SetReplication(o.ctx, o.path, replicas)
	switch {
	case err != nil:
		return o.failed(err)
	case !done:
		return fmt.Errorf("%w: the NameNode does not take %d replicas for %s", store.ErrUnavailable, replicas, o.path)
	}
	o.replicas = replicas
	return nil
}

// errNoPlace: a block was to go to other DataNodes than there are.
var errNoPlace = fmt.Errorf("%w: too few DataNodes are left", store.ErrUnavailable)

// nowhere: there are too few DataNodes beside those that may not get the block. Those that failed are tried again, if there are any.
func (o *output) nowhere(forbidden []string, err error) error {
	what := errNoPlace
	if len(o.shunned) > 0 {
		what, o.shunned = store.ErrUnavailable, nil
	}
	return fmt.Errorf("%w: block at offset %d, beside the %d that may not get it: %v", what, o.closed, len(forbidden), err)
}

// called returns what is known of nodes with these UUIDs.
func (t *nodeTable) called(uuids []string) (infos []*hproto.DatanodeInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		if slices.Contains(uuids, n.id) {
			d := n.describe()
			d.Location = proto.String(n.rack)
			infos = append(infos, d)
		}
	}
	return infos
}
