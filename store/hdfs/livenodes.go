package hdfs

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// LiveNode is a DataNode that the NameNode hears from.
type LiveNode struct {
	// Node is its UUID, as store.Replica names nodes; "" where only a superuser is told.
	Node string
	// Addr is its address for data, ip:port; Host the name of its host; Rack its place.
	Addr, Host, Rack string
	// Capacity is how many bytes it has for HDFS, Used how many hold blocks, Remaining how many are free.
	Capacity, Used, Remaining int64
	// Load is how many transfers it has in progress; -1 where only a superuser is told.
	Load int
	// State is "normal", or why the node takes no new blocks, such as "decommissioned".
	State string
}

// LiveNodes describes the DataNodes that are alive. Superusers get it by RPC, others from the NameNode's web
// service, which tells less. They are sorted by Addr.
func (s *Store) LiveNodes(ctx context.Context) ([]LiveNode, error) {
	if err := s.change(ctx); err != nil {
		return nil, s.failed("LiveNodes", "/", err)
	}
	report, err := s.nn.LiveNodes(ctx)
	if err != nil {
		return nil, s.failed("LiveNodes", "/", err)
	}
	nodes := make([]LiveNode, 0, len(report))
	for _, d := range report {
		nodes = append(nodes, liveNode(d))
	}
	slices.SortFunc(nodes, func(a, b LiveNode) int { return cmp.Compare(a.Addr, b.Addr) })
	return nodes, nil
}

func liveNode(d *hproto.DatanodeInfo) LiveNode {
	n := LiveNode{
		Node: d.GetId().GetDatanodeUuid(), Host: d.GetId().GetHostName(), Rack: d.GetLocation(),
		Addr:     net.JoinHostPort(d.GetId().GetIpAddr(), strconv.FormatUint(uint64(d.GetId().GetXferPort()), 10)),
		Capacity: int64(d.GetCapacity()), Used: int64(d.GetDfsUsed()), Remaining: int64(d.GetRemaining()),
		Load: -1, State: strings.ToLower(d.GetAdminState().String()),
	}
	if d.XceiverCount != nil {
		n.Load = int(d.GetXceiverCount())
	}
	return n
}
