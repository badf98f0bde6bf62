package hdfs

import (
	"cmp"
	"context"
	"slices"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// Nodes implements store.NodeLister. Superusers get it by RPC, others from the NameNode's web service, which tells no Load, and Types
// only where all DataNodes have the same. They are sorted by Addr.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	var nodes []store.Node
	err := s.at(ctx, "Nodes", "/", func(string) error {
		reports, err := s.nn.LiveStorages(ctx)
		for _, r := range reports {
			n := liveNode(r.GetDatanodeInfo())
			nodes = append(nodes, store.Node{
				Node: n.Node, Addr: n.Addr, Rack: n.Rack, Free: n.Remaining, Load: n.Load, InService: n.State == "normal", Types: storageTypes(r),
			})
		}
		return err
	})
	slices.SortFunc(nodes, func(a, b store.Node) int { return cmp.Compare(a.Addr, b.Addr) })
	return nodes, err
}

// storageTypes are those of the storages that did not fail.
func storageTypes(r *hproto.DatanodeStorageReport) (types []string) {
	for _, s := range r.GetStorageReports() {
		name, known := hproto.StorageType_name[int32(s.GetStorage().GetStorageType())]
		if known && !s.GetFailed() {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}
