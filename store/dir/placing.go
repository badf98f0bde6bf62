package dir

import (
	"cmp"
	"slices"
	"strings"
)

// replica is one of a block's: the index of its node, and the type of storage that it lies on, "" where nodes have no types.
type replica struct {
	node    int
	storage string
}

// text is the replica as a sidecar keeps it.
func (l layout) text(r replica) string {
	if r.storage == "" {
		return l.nodes[r.node].Name
	}
	return l.nodes[r.node].Name + "/" + r.storage
}

// parse is the inverse of text; false for a node that there is no more.
func (l layout) parse(text string) (replica, bool) {
	name, storage, _ := strings.Cut(text, "/")
	i := l.find(name)
	return replica{i, storage}, i >= 0
}

func storagesOf(replicas []replica) []string {
	types := make([]string, len(replicas))
	for i, r := range replicas {
		types[i] = r.storage
	}
	return types
}

// typed tells whether any node has types of storage.
func (l layout) typed() bool {
	return slices.ContainsFunc(l.nodes, func(n Node) bool { return n.Types != nil })
}

// usual are the replicas of a block for which nobody has chosen others.
func (l layout) usual(name string, block int64, factor int) []replica {
	if !l.typed() {
		var all []replica
		for _, i := range l.holders(name, block, factor) {
			all = append(all, replica{node: i})
		}
		return all
	}
	p := storagePolicies[usualPolicy]
	anywhere := func(int) bool { return true }
	all := l.more(nil, name, block, p.missing(factor, nil), p.fallback, anywhere)
	if len(all) == 0 { // no node has what is wanted, and no file is without a block
		all = l.more(nil, name, block, []string{""}, []string{typeSSD}, anywhere)
	}
	return all
}

// more adds replicas of the types wanted, or of those they fall back to, on usable nodes that have none yet: by the rules of holders.
func (l layout) more(have []replica, name string, block int64, wanted, fallback []string, usable func(node int) bool) []replica {
	ranked := l.rank(name, block)
	have = slices.Clone(have)
	for _, t := range wanted {
		for _, t := range append([]string{t}, fallback...) {
			if r, ok := l.next(have, ranked, t, usable); ok {
				have = append(have, r)
				break
			}
		}
	}
	return have
}

// next finds a node for one more replica.
func (l layout) next(have []replica, ranked []int, storage string, usable func(node int) bool) (replica, bool) {
	fits := func(i int) bool {
		n := l.nodes[i]
		holds := slices.ContainsFunc(have, func(r replica) bool { return r.node == i })
		return !holds && usable(i) && (n.Types == nil || slices.Contains(n.Types, storage))
	}
	rack := func(k int) string { return l.nodes[have[k].node].Rack }
	best := -1
	switch len(have) {
	case 1:
		best = slices.IndexFunc(ranked, func(i int) bool { return fits(i) && l.nodes[i].Rack != rack(0) })
	case 2:
		best = slices.IndexFunc(ranked, func(i int) bool { return fits(i) && l.nodes[i].Rack == rack(1) })
	}
	if best < 0 {
		best = slices.IndexFunc(ranked, fits)
	}
	if best < 0 {
		return replica{}, false
	}
	node := ranked[best]
	if l.nodes[node].Types == nil {
		storage = ""
	}
	return replica{node, storage}, true
}

// fewer drops replicas until n are left: those of types in excess first, of these the one on the node with the least room that leaves two racks,
// the last of equals.
func (l layout) fewer(have []replica, n int, excess []string) []replica {
	have, excess = slices.Clone(have), slices.Clone(excess)
	for len(have) > n {
		at := -1
		for i := range have {
			if at < 0 || l.sooner(have, excess, i, at) {
				at = i
			}
		}
		excess = without(excess, []string{have[at].storage})
		have = slices.Delete(have, at, at+1)
	}
	return have
}

// sooner tells whether replica i is dropped before replica k, which stands before it.
func (l layout) sooner(have []replica, excess []string, i, k int) bool {
	rank := func(i int) [3]int64 {
		r := have[i]
		var keep, rack int64
		if !slices.Contains(excess, r.storage) {
			keep = 1
		}
		if l.alone(have, i) {
			rack = 1
		}
		return [3]int64{keep, rack, l.room(r.node)}
	}
	a, b := rank(i), rank(k)
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2])) <= 0
}

// alone tells whether a replica is the only one on its rack, and there are no more than two racks.
func (l layout) alone(have []replica, i int) bool {
	racks := map[string]int{}
	for _, r := range have {
		racks[l.nodes[r.node].Rack]++
	}
	return len(racks) <= 2 && racks[l.nodes[have[i].node].Rack] == 1
}

// room is how much is free on a node, where the topology says so.
func (l layout) room(node int) int64 {
	if n := l.nodes[node].FreeBytes; n > 0 {
		return n
	}
	return 1<<63 - 1
}

// placing is where the blocks of a file lie.
type placing struct {
	layout    layout
	name      string
	blockSize int64
	factor    int
	blocks    [][]replica // of those that somebody chose; empty: as usual
}

func (s *Store) placing(name string, c sidecar) placing {
	p := placing{
		layout: s.layout, name: name, blockSize: cmp.Or(c.BlockSize, s.topology.BlockSize), factor: cmp.Or(c.Replication, s.topology.Replication),
	}
	for _, texts := range c.Blocks {
		var block []replica
		for _, text := range texts {
			if r, ok := s.layout.parse(text); ok {
				block = append(block, r)
			}
		}
		p.blocks = append(p.blocks, block)
	}
	return p
}

// of are the replicas of a block.
func (p placing) of(block int64) []replica {
	if block < int64(len(p.blocks)) && len(p.blocks[block]) > 0 {
		return p.blocks[block]
	}
	return p.layout.usual(p.name, block, p.factor)
}

// nearest sorts replicas by distance from the reader's node, stably.
func (l layout) nearest(replicas []replica, reader int) []replica {
	sorted := slices.Clone(replicas)
	slices.SortStableFunc(sorted, func(a, b replica) int { return cmp.Compare(l.distance(a.node, reader), l.distance(b.node, reader)) })
	return sorted
}

// texts are all blocks of a file of some size as a sidecar keeps them.
func (p placing) texts(size int64, of func(block int64) []replica) [][]string {
	blocks := make([][]string, (size+p.blockSize-1)/p.blockSize)
	for i := range blocks {
		blocks[i] = []string{}
		for _, r := range of(int64(i)) {
			blocks[i] = append(blocks[i], p.layout.text(r))
		}
	}
	return blocks
}
