package hdfs

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Distances of a replica from the reader, the nearest first.
const (
	sameNode = iota
	sameRack
	remote
)

// reader is who reads: where it runs, and which of many readers of the same files it is.
type reader struct {
	node string // UUID of the DataNode that it runs beside; "" for none
	host string // host name or IP address; "" if not known
	rack string // "" if not known
	rank int
	// beside is a DataNode on the reader's host, once one was seen: it tells the rack.
	beside atomic.Pointer[node]
}

// on tells whether a DataNode is on the reader's host.
func (r *reader) on(n *node) bool {
	return r.node != "" && n.id == r.node || r.host != "" && (n.host == r.host || n.ip == r.host)
}

// saw learns from a DataNode.
func (r *reader) saw(n *node) {
	if r.rack == "" && r.on(n) && r.beside.Load() != n {
		r.beside.Store(n)
	}
}

func (r *reader) distance(n *node) int {
	rack := r.rack
	if beside := r.beside.Load(); rack == "" && beside != nil {
		rack = beside.rack
	}
	switch {
	case r.on(n):
		return sameNode
	case rack != "" && n.rack == rack:
		return sameRack
	}
	return remote
}

// order sorts the places of a block by how gladly they are read: those that badness calls better first, then nodes in
// service before those that leave, then by distance. Of n places that are equal in all of this, rank r takes number
// (r + h(block)) mod n, counted in an order that all readers share, so that any number of readers spreads evenly. When its
// place fails, readers who shared it go on to different ones. Where load is given, the one with the least of them comes first.
func (r *reader) order(b *block, badness func(place) int, load func(*node) int64) []place {
	type ranked struct {
		place
		class int
	}
	all := make([]ranked, len(b.places))
	for i, p := range b.places {
		all[i] = ranked{p, (badness(p)*int(serviceLevels)+int(p.node.service))*(remote+1) + r.distance(p.node)}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.node.id, b.node.id), cmp.Compare(a.node.addr, b.node.addr))
	})
	out := make([]place, 0, len(all))
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].class == all[0].class {
			n++
		}
		equal := all[:n]
		all = all[n:]
		turn := uint64(r.rank) + mix(uint64(b.id.id))%(1<<32)
		first := len(out)
		for len(equal) > 0 {
			left := uint64(len(equal))
			i := int(turn % left)
			turn /= left
			out = append(out, equal[i].place)
			equal = slices.Delete(equal, i, i+1)
		}
		if load != nil {
			lightestFirst(out[first:], load)
		}
	}
	return out
}

// lightestFirst moves the place with the least load to the front.
func lightestFirst(places []place, load func(*node) int64) {
	best, least := 0, load(places[0].node)
	for i, p := range places[1:] {
		if n := load(p.node); n < least {
			best, least = i+1, n
		}
	}
	p := places[best]
	copy(places[1:best+1], places[:best])
	places[0] = p
}

// mix is splitmix64's finaliser: block ids are given out in sequence, and neighbours must not fall together.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
