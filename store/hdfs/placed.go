package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// CreatePlaced implements store.PlacedCreator. Nodes are named by their UUIDs. A DataNode that fails while a block of more than 4 MiB is written leaves it
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
// from is known when the NameNode gives it, and the block is given back.
func (o *output) placeApart(failed []*hproto.DatanodeInfo) (*hproto.LocatedBlock, error) {
	forbidden := o.exclude(o.closed)
	excluded := slices.Concat(failed, o.w.nodes.called(forbidden))
	for range len(forbidden) + 1 {
		b, err := o.add(excluded)
		if err != nil {
			return nil, o.nowhere(forbidden, err)
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
		if len(given) == 0 {
			return nil, fmt.Errorf("%w: block at offset %d: %d DataNodes are left for %d replicas beside the %d that may not get it",
				store.ErrUnavailable, o.closed, len(b.GetLocs()), o.replicas, len(forbidden))
		}
		excluded = append(excluded, given...)
	}
	return nil, fmt.Errorf("%w: block at offset %d: the NameNode gives it DataNodes that were excluded", store.ErrUnavailable, o.closed)
}

// nowhere: there may be others later.
func (o *output) nowhere(forbidden []string, err error) error {
	var remote *namenode.RemoteError
	if len(forbidden) > 0 && errors.As(err, &remote) && tooFewNodes.MatchString(remote.Message) && store.ClassOf(err) != store.Retryable {
		return fmt.Errorf("%w: block at offset %d: no DataNode is left beside the %d that may not get it: %v", store.ErrUnavailable, o.closed, len(forbidden), err)
	}
	return err
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
