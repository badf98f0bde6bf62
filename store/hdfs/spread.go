package hdfs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// spread knows which DataNodes have blocks that this Store is writing, so that the next block goes to others: a pipeline is as fast
// as the busiest of its nodes.
type spread struct {
	mu    sync.Mutex
	nodes map[string]*spreadNode // by UUID, as far as blocks were given to them
}

type spreadNode struct {
	info *hproto.DatanodeInfo
	busy int // blocks
}

// begin notes that a block is written to nodes; the function that it returns notes the end.
func (s *spread) begin(infos []*hproto.DatanodeInfo) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []*spreadNode
	for _, info := range infos {
		id := info.GetId().GetDatanodeUuid()
		n := s.nodes[id]
		if n == nil {
			if s.nodes == nil {
				s.nodes = map[string]*spreadNode{}
			}
			n = &spreadNode{info: info}
			s.nodes[id] = n
		}
		n.busy++
		taken = append(taken, n)
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, n := range taken {
			n.busy--
		}
	})
}

// forget drops what is known of who there is.
func (s *spread) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.nodes, func(_ string, n *spreadNode) bool { return n.busy == 0 })
}

// avoid returns the nodes that the next block had better not go to: those that are busier than others, as long as enough are left
// for all replicas, on two racks if there are. excluded are left out anyway.
func (s *spread) avoid(replicas int, excluded []*hproto.DatanodeInfo) []*hproto.DatanodeInfo {
	s.mu.Lock()
	left := make([]spreadNode, 0, len(s.nodes))
	for id, n := range s.nodes {
		if !slices.ContainsFunc(excluded, func(e *hproto.DatanodeInfo) bool { return e.GetId().GetDatanodeUuid() == id }) {
			left = append(left, *n)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(left, func(a, b spreadNode) int {
		return cmp.Or(cmp.Compare(b.busy, a.busy), strings.Compare(a.info.GetId().GetDatanodeUuid(), b.info.GetId().GetDatanodeUuid()))
	})
	return busiest(left, replicas)
}

// busiest picks from nodes, the busiest first. It is a pure function.
func busiest(left []spreadNode, replicas int) (avoid []*hproto.DatanodeInfo) {
	racks := map[string]int{}
	for _, n := range left {
		racks[n.info.GetLocation()]++
	}
	wanted := min(len(racks), 2)
	n := len(left)
	for _, node := range left {
		rack := node.info.GetLocation()
		if n <= replicas || node.busy == left[len(left)-1].busy {
			return avoid
		}
		if racks[rack] == 1 && len(racks) == wanted {
			continue
		}
		if racks[rack]--; racks[rack] == 0 {
			delete(racks, rack)
		}
		avoid = append(avoid, node.info)
		n--
	}
	return avoid
}
