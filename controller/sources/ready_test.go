package sources

import (
	"errors"
	"io/fs"
	"maps"
	"testing"

	"github.com/stepahead-io/stepahead/controller/plan"
)

// TestReady: the nodes of a file count, and those of what was made beside it, each once; nothing else does.
func TestReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, 0)
	put(t, c, 1)
	r := newRig(t, &process{cluster: c})
	nodes := func(id plan.ID) (all int, racks map[string]int) {
		racks, err := Ready(t.Context(), r, hotFile, "c1", id)
		must(t, err)
		for n := range maps.Values(racks) {
			all += n
		}
		return all, racks
	}
	if all, racks := nodes(7); all != 3 {
		t.Errorf("before: %v", racks)
	}
	must(t, r.whole(t.Context(), r.placement(t, plan.Sibling, 6), func() {
		if _, racks := nodes(7); !maps.Equal(racks, map[string]int{"/r0": 3, "/r1": 3, "/r2": 3}) {
			t.Errorf("with a sibling: %v", racks)
		}
		if all, racks := nodes(8); all != 3 {
			t.Errorf("of another placement: %v", racks)
		}
	}))
	if all, racks := nodes(7); all != 3 {
		t.Errorf("afterwards: %v", racks)
	}
	if _, err := Ready(t.Context(), r, "/nothing", "c1", 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}
