package hdfs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// TestPlaces: a cluster whose DataNodes have room of different sizes and two types of storage.
func TestPlaces(t *testing.T) {
	const nodes = 9
	capacities := make([]int64, nodes)
	for i := range capacities {
		capacities[i] = int64(i+1) << 30
	}
	c := hdfstest.Start(t, hdfstest.Options{
		DataNodes: nodes, Racks: []string{"/a", "/b", "/c"}, StorageTypes: [][]string{{"DISK", "ARCHIVE"}}, Capacities: capacities,
	})
	storetest.RunTyped(t, func(t *testing.T) storetest.TypedStore { return open(t, c, c.Dir(t), hdfs.Options{}) })
	t.Run("unknown nodes", func(t *testing.T) { testUnknownNodes(t, c) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, c, nodes) })
}

// testUnknownNodes: a store that has heard of no node yet gives back blocks on those that are left out.
func testUnknownNodes(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	data := hdfstest.Bytes(2, 6*blockSize)
	c.Put(root+"/f", data, 6, blockSize)
	c.WaitReplication(root+"/f", 6)
	nodes := c.DataNodes()
	original := map[int64][]string{}
	for _, b := range c.Locations(root + "/f") {
		for _, n := range b.Nodes {
			original[b.Offset] = append(original[b.Offset], nodes[n].UUID)
		}
	}
	s := open(t, c, root, hdfs.Options{})
	w, err := s.CreatePlaced(t.Context(), "/copy", store.Placement{Replicas: 3, BlockSize: blockSize, Exclude: func(off int64) []string { return original[off] }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.WaitReplication(root+"/copy", 3)
	for _, b := range c.Locations(root + "/copy") {
		for _, n := range b.Nodes {
			if slices.Contains(original[b.Offset], nodes[n].UUID) {
				t.Errorf("block at %d is on %d, as the original's", b.Offset, n)
			}
		}
	}
}

func testNodes(t *testing.T, c *hdfstest.Cluster, nodes int) {
	root := c.Dir(t)
	for _, user := range []string{hdfstest.Superuser, hdfstest.User} {
		got, err := open(t, c, root, hdfs.Options{User: user}).Nodes(t.Context())
		if err != nil || len(got) != nodes {
			t.Fatalf("%s: %d nodes, %v", user, len(got), err)
		}
		for _, n := range got {
			i := slices.IndexFunc(c.DataNodes(), func(d hdfstest.DataNode) bool { return d.UUID == n.Node })
			if i < 0 {
				t.Fatalf("%s: unknown node %+v", user, n)
			}
			d := c.DataNodes()[i]
			if n.Addr != d.Addr || n.Rack != d.Rack || !n.InService || fmt.Sprint(n.Types) != "[ARCHIVE DISK]" || (n.Load < 0) != (user == hdfstest.User) {
				t.Errorf("%s: %+v, want %+v", user, n, d)
			}
			if most := int64(2*(i+1)) << 30; n.Free <= most-1<<30 || n.Free > most {
				t.Errorf("%s: node %d has %d free of %d", user, i, n.Free, most)
			}
		}
	}
}
