package dir

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// layout decides which nodes hold a block: a pure function of file name, block number and topology.
type layout struct {
	nodes  []Node
	hashes []uint64 // of the nodes' names
}

func newLayout(t Topology) layout {
	l := layout{nodes: t.Nodes, hashes: make([]uint64, len(t.Nodes))}
	for i, n := range t.Nodes {
		l.hashes[i] = hashName(n.Name)
	}
	return l
}

// holders returns the indices of the nodes that hold a block, the first replica first: rendezvous
// hashing ranks the nodes, and racks are chosen as HDFS does: the second replica on another rack than
// the first, the third beside the second, the others as ranked. Where a rule cannot be met the ranking
// decides. Raising the factor adds nodes and moves none.
func (l layout) holders(name string, block int64, factor int) []int {
	ranked := l.rank(name, block)
	factor = min(factor, len(ranked))
	if factor >= 2 {
		l.bring(ranked, 1, func(i int) bool { return l.nodes[i].Rack != l.nodes[ranked[0]].Rack })
	}
	if factor >= 3 {
		l.bring(ranked, 2, func(i int) bool { return l.nodes[i].Rack == l.nodes[ranked[1]].Rack })
	}
	return ranked[:factor]
}

// rank orders all nodes by their hash with the block.
func (l layout) rank(name string, block int64) []int {
	type scored struct {
		node  int
		score uint64
	}
	seed := mix(hashName(name) + uint64(block)*0x9e3779b97f4a7c15)
	all := make([]scored, len(l.nodes))
	for i, h := range l.hashes {
		all[i] = scored{i, mix(seed ^ h)}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.node, b.node))
	})
	ranked := make([]int, len(all))
	for i, s := range all {
		ranked[i] = s.node
	}
	return ranked
}

// bring moves the first node from position at on that fits to that position; the others keep their order.
func (l layout) bring(ranked []int, at int, fits func(node int) bool) {
	if found := slices.IndexFunc(ranked[at:], fits); found > 0 {
		node := ranked[at+found]
		copy(ranked[at+1:at+found+1], ranked[at:at+found])
		ranked[at] = node
	}
}

// distance is how far a node is from the reader's: itself, its rack, elsewhere. From a reader that is on no node (-1) all are equal.
func (l layout) distance(node, reader int) int {
	switch {
	case reader < 0 || node == reader:
		return 0
	case l.nodes[node].Rack == l.nodes[reader].Rack:
		return 1
	}
	return 2
}

func (l layout) find(node string) int {
	return slices.IndexFunc(l.nodes, func(n Node) bool { return n.Name == node })
}

func hashName(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// mix is splitmix64's finaliser: FNV alone leaves names that differ in the last byte close together.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
