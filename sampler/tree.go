package sampler

import (
	"cmp"
	"math/bits"
	"slices"
)

// A tree deals numbered units to sources in proportion to their shares. Every node sees its units
// numbered from 0 and passes each on to its left or its right child: of its first m units,
// round(m * ratio) go left. So where a unit goes, and how many a source got of any number of units,
// has a closed form of one multiplication a level, and the counts never stray: docs/sampler.md has
// the proof that they are within 1.5 of the exact share.
type tree struct {
	nodes []node
	root  int32
}

// A node has two children: another node, or a source i as ^i.
type node struct {
	ratio       uint64 // the left child's part of the units, in units of 2^-64
	left, right int32
}

// newTree deals in proportion to shares; sources with share 0 get nothing. At least one is positive.
func newTree(shares []uint64) tree {
	list := make([]leaf, 0, len(shares))
	for i, s := range shares {
		if s > 0 {
			list = append(list, leaf{share: s, child: ^int32(i)})
		}
	}
	slices.SortStableFunc(list, func(a, b leaf) int { return cmp.Compare(b.share, a.share) })
	t := tree{nodes: make([]node, 0, len(list)-1)}
	t.root, _ = t.build(list, make([]leaf, len(list)))
	return t
}

type leaf struct {
	share uint64
	child int32
}

// build makes the subtree of list, which falls in share, and returns it and its share. It gives each
// source, from the heaviest to the lightest, to the side that is lighter so far.
func (t *tree) build(list, spare []leaf) (child int32, share uint64) {
	if len(list) == 1 {
		return list[0].child, list[0].share
	}
	var left, right uint64
	a, b := 0, 0
	for _, l := range list {
		if left <= right {
			left += l.share
			list[a] = l // never ahead of what is still to be read
			a++
		} else {
			right += l.share
			spare[b] = l
			b++
		}
	}
	copy(list[a:], spare[:b])
	at := int32(len(t.nodes))
	t.nodes = append(t.nodes, node{})
	n := node{}
	n.ratio, _ = bits.Div64(left, 0, left+right)
	n.left, _ = t.build(list[:a], spare)
	n.right, _ = t.build(list[a:], spare)
	t.nodes[at] = n
	return at, left + right
}

// leftOf returns how many of the first m units go left: m * ratio, rounded to the nearest.
func (n *node) leftOf(m uint64) uint64 {
	hi, lo := bits.Mul64(m, n.ratio)
	return hi + lo>>63
}

// counts adds to sums, by source, how many of the first m units each gets.
func (t *tree) counts(at int32, m uint64, sums []uint64) {
	if at < 0 {
		sums[^at] += m
		return
	}
	n := &t.nodes[at]
	left := n.leftOf(m)
	t.counts(n.left, left, sums)
	t.counts(n.right, m-left, sums)
}

// find returns the source that gets unit m, and how many it got before.
func (t *tree) find(m uint64) (source int, count uint64) {
	at := t.root
	for at >= 0 {
		n := &t.nodes[at]
		left := n.leftOf(m)
		if n.leftOf(m+1) > left {
			at, m = n.left, left
		} else {
			at, m = n.right, m-left
		}
	}
	return int(^at), m
}

// never is the place of a unit that does not come before maxPosition.
const never = 1<<64 - 1

// units returns, for every source, the unit that is the source's own unit nth[source]: the inverse of
// find. Sources that get nothing, and units beyond maxPosition, are never.
func (t *tree) units(nth []uint64) []uint64 {
	out := make([]uint64, len(nth))
	for i := range out {
		out[i] = never
	}
	t.climb(t.root, nil, nth, out)
	return out
}

type turn struct {
	ratio uint64
	right bool
}

func (t *tree) climb(at int32, path []turn, nth, out []uint64) {
	if at >= 0 {
		n := t.nodes[at]
		t.climb(n.left, append(path, turn{n.ratio, false}), nth, out)
		t.climb(n.right, append(path, turn{n.ratio, true}), nth, out)
		return
	}
	unit := nth[^at]
	for i := len(path) - 1; i >= 0 && unit != never; i-- {
		unit = path[i].before(unit)
	}
	out[^at] = unit
}

// before returns the parent's number of a child's unit.
func (s turn) before(unit uint64) uint64 {
	ratio := s.ratio
	if s.right {
		ratio = -ratio // 2^64 - ratio
	}
	if unit >= ratio>>1 {
		return never // beyond 2^63
	}
	q, rest := bits.Div64(unit, 1<<63, ratio)
	if !s.right && rest == 0 {
		q-- // a tie goes left
	}
	return q
}
