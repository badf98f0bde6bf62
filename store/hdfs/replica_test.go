package hdfs

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func cluster(n int) []place {
	places := make([]place, n)
	for i := range places {
		places[i] = place{node: &node{id: fmt.Sprintf("uuid-%02d", i), host: fmt.Sprintf("dn%d", i), ip: fmt.Sprintf("10.0.0.%d", i), rack: fmt.Sprintf("/r%d", i%3)}}
	}
	return places
}

func allFine(place) int { return fine }

// Any run of ranks spreads over the replicas as evenly as it can, whatever the block and the order of the NameNode; and
// when a node fails, those who used it spread over the others.
func TestRanksSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "replicas")
		ranks := rapid.IntRange(1, 100).Draw(t, "ranks")
		b := &block{id: blockID{id: rapid.Int64().Draw(t, "block")}, places: cluster(n)}
		first, second := map[string]int{}, map[string]int{}
		var failed string
		for r := range ranks {
			b.places = rapid.Permutation(b.places).Draw(t, "order")
			order := (&reader{rank: r}).order(b, allFine, nil)
			if len(order) != n {
				t.Fatalf("%d of %d places", len(order), n)
			}
			if failed == "" {
				failed = order[0].node.id
			}
			first[order[0].node.id]++
			if order[0].node.id == failed && n > 1 {
				second[order[1].node.id]++
			}
		}
		even(t, "first choice", first, ranks, n)
		if n > 1 {
			even(t, "second choice", second, first[failed], n-1)
		}
	})
}

func even(t *rapid.T, what string, counts map[string]int, readers, nodes int) {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	if bound := (readers + nodes - 1) / nodes; most > bound {
		t.Fatalf("%s: %d of %d readers on one of %d nodes: %v", what, most, readers, nodes, counts)
	}
}

// Blocks of one rank spread, too.
func TestBlocksSpread(t *testing.T) {
	counts := map[string]int{}
	for i := range 9000 {
		counts[new(reader).order(&block{id: blockID{id: 1073741825 + int64(i)}, places: cluster(9)}, allFine, nil)[0].node.id]++
	}
	for id, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("%s is the first choice of %d of 9000 blocks", id, n)
		}
	}
}

func TestOrderOfPlaces(t *testing.T) {
	places := cluster(6)
	places[1].node.service = leaving
	places[2].node.service = left
	bad := func(p place) int {
		switch p.node.id {
		case "uuid-04":
			return nodeBad
		case "uuid-05":
			return replicaBad
		}
		return fine
	}
	for _, c := range []struct {
		name string
		r    *reader
		want string
	}{
		{"own node", &reader{node: "uuid-03", rack: "/r0"}, "[uuid-03 uuid-00 uuid-01 uuid-02 uuid-04 uuid-05]"},
		{"own host", &reader{host: "dn3", rack: "/r0"}, "[uuid-03 uuid-00 uuid-01 uuid-02 uuid-04 uuid-05]"},
		{"own address", &reader{host: "10.0.0.3", rack: "/r0"}, "[uuid-03 uuid-00 uuid-01 uuid-02 uuid-04 uuid-05]"},
		{"own node bad", &reader{node: "uuid-04", rack: "/r0"}, ""},
		{"own node leaves", &reader{node: "uuid-02"}, ""},
	} {
		var got []string
		for _, p := range c.r.order(&block{places: places}, bad, nil) {
			got = append(got, p.node.id)
		}
		if c.want != "" && fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
		if i := slices.Index(got, c.r.node); c.want == "" && i < 3 {
			t.Errorf("%s: it comes at place %d of %v", c.name, i, got)
		}
	}
}

// Who runs beside a DataNode is on its rack.
func TestRackOfTheReader(t *testing.T) {
	places := cluster(6)
	r := &reader{host: "dn1"}
	if got := r.distance(places[4].node); got != remote {
		t.Errorf("%d before the rack is known", got)
	}
	for _, p := range places {
		r.saw(p.node)
	}
	for i, want := range []int{remote, sameNode, remote, remote, sameRack, remote} {
		if got := r.distance(places[i].node); got != want {
			t.Errorf("node %d: %d, want %d", i, got, want)
		}
	}
}
