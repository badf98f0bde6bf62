package catalogue

import (
	"cmp"
	"slices"

	"github.com/stepahead-io/stepahead/store"
)

// spot is one replica of a block: the file, 0 for the original and from 1 on its siblings, and the node.
type spot struct {
	file int
	node string
}

// stretch is a block of the original, and who holds its bytes.
type stretch struct {
	off, end int64
	spots    []spot // in the same order for every reader
}

// planSources finds the replicas of each block of a file, of the original and its siblings: each node once, the original's replica where it has one. rows are
// those that Locate gives of each file.
func planSources(rows [][]store.Replica) []stretch {
	files := make([]store.Blocks, len(rows))
	for i, r := range rows {
		files[i] = store.BlocksOf(r)
	}
	if len(files) == 0 {
		return nil
	}
	plan := make([]stretch, len(files[0]))
	for i, b := range files[0] {
		plan[i] = stretch{off: b.Off, end: b.End}
		for file, blocks := range files {
			for _, node := range holdersOf(blocks, b.Off, b.End) {
				if !slices.ContainsFunc(plan[i].spots, func(s spot) bool { return s.node == node }) {
					plan[i].spots = append(plan[i].spots, spot{file, node})
				}
			}
		}
		slices.SortFunc(plan[i].spots, func(a, b spot) int { return cmp.Compare(a.node, b.node) })
	}
	return plan
}

// holdersOf returns the nodes that hold all bytes of [off, end).
func holdersOf(blocks store.Blocks, off, end int64) []string {
	var holders []string
	for first := true; off < end; first = false {
		at := slices.IndexFunc(blocks, func(b store.Block) bool { return b.Off <= off && off < b.End })
		if at < 0 {
			return nil
		}
		if first {
			holders = slices.Clone(blocks[at].Nodes)
		}
		holders = slices.DeleteFunc(holders, func(node string) bool { return !slices.Contains(blocks[at].Nodes, node) })
		off = blocks[at].End
	}
	return holders
}

// assign returns which of n nodes reader index reads block number block from. Of any number of readers with numbers from 0 on, and of each block, no node gets more than one
// reader more than another; and a reader goes on to the next node with each block.
func assign(index, block, n int) int { return (index%n + block%n) % n }

// share is what is read of one spot.
type share struct {
	spot
	ranges []store.Range
}

// divide cuts ranges at the borders of blocks and gathers them by the spot that a reader reads them from. What nobody is known to hold has no node.
func divide(ranges []store.Range, plan []stretch, index int) []share {
	var shares []share
	give := func(s spot, r store.Range) {
		i := slices.IndexFunc(shares, func(have share) bool { return have.spot == s })
		if i < 0 {
			i = len(shares)
			shares = append(shares, share{spot: s})
		}
		shares[i].ranges = append(shares[i].ranges, r)
	}
	for _, r := range ranges {
		for len(r.Buf) > 0 {
			n, from := len(r.Buf), spot{}
			block, found := slices.BinarySearchFunc(plan, r.Off, func(s stretch, off int64) int {
				if s.end <= off {
					return -1
				}
				return cmp.Compare(max(s.off, off), off) // 0 where off is inside
			})
			if found {
				n = int(min(int64(n), plan[block].end-r.Off))
				if spots := plan[block].spots; len(spots) > 0 {
					from = spots[assign(index, block, len(spots))]
				}
			}
			give(from, store.Range{Off: r.Off, Buf: r.Buf[:n]})
			r = store.Range{Off: r.Off + int64(n), Buf: r.Buf[n:]}
		}
	}
	return shares
}
