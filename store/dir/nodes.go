package dir

import (
	"context"
	"slices"
	"syscall"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.NodeLister = (*Store)(nil)

// Nodes implements store.NodeLister: those of the topology that are not down.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed(s.root, "Nodes", "/", err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.root.Name(), &st); err != nil {
		return nil, failed(s.root, "Nodes", "/", err)
	}
	var nodes []store.Node
	for i, n := range s.topology.Nodes {
		if !s.alive(i) {
			continue
		}
		free := n.FreeBytes
		if free == 0 {
			free = int64(st.Bavail) * st.Bsize
		}
		nodes = append(nodes, store.Node{Node: n.Name, Rack: n.Rack, Free: free, Load: -1, InService: true, Types: slices.Clone(n.Types)})
	}
	return nodes, nil
}
