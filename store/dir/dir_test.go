package dir_test

import (
	"fmt"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// cluster has 6 nodes on 3 racks and blocks that are small enough for a test's file to span many.
func cluster() dir.Topology {
	return dir.Topology{
		Nodes: []dir.Node{
			{Name: "dn1", Rack: "/a"}, {Name: "dn2", Rack: "/a"}, {Name: "dn3", Rack: "/b"},
			{Name: "dn4", Rack: "/b"}, {Name: "dn5", Rack: "/c"}, {Name: "dn6", Rack: "/c"},
		},
		BlockSize: 64 << 10, Replication: 3,
	}
}

// tagged has 9 nodes on 3 racks with two types of storage each, and room of different sizes.
func tagged() dir.Topology {
	t := dir.Topology{BlockSize: 64 << 10, Replication: 3}
	for i := range 9 {
		t.Nodes = append(t.Nodes, dir.Node{
			Name: fmt.Sprintf("dn%d", i), Rack: fmt.Sprintf("/r%d", i%3), Types: []string{"ARCHIVE", "DISK"}, FreeBytes: int64(i+1) << 30,
		})
	}
	return t
}

func open(t testing.TB, url string, o dir.Options) *dir.Store {
	t.Helper()
	s, _, err := dir.Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newCluster(t testing.TB, topology dir.Topology, o dir.Options) *dir.Store {
	t.Helper()
	root := t.TempDir()
	if err := dir.Init(root, topology); err != nil {
		t.Fatal(err)
	}
	return open(t, root, o)
}

func TestConformance(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir(), dir.Options{}) })
	})
	t.Run("cluster", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return newCluster(t, cluster(), dir.Options{Node: "dn4"}) })
	})
	t.Run("tagged", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return newCluster(t, tagged(), dir.Options{}) })
	})
}

func TestTyped(t *testing.T) {
	storetest.RunTyped(t, func(t *testing.T) storetest.TypedStore {
		topology := tagged()
		topology.BlockSize = 1 << 20
		return newCluster(t, topology, dir.Options{})
	})
}
