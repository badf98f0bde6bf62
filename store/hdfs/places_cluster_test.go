package hdfs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

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
	t.Run("storage types", func(t *testing.T) { testStorageTypes(t, c) })
	t.Run("sibling", func(t *testing.T) { testSibling(t, c) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, c, nodes) })
}

// located are the nodes of each block that hold it on a type of storage, in order.
func located(t *testing.T, s store.Store, name, storage string) map[int64][]string {
	t.Helper()
	info, err := s.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Locate(t.Context(), name, 0, info.Size)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64][]string{}
	for _, r := range rows {
		if storage == "" || r.Storage == storage {
			all[r.Off] = append(all[r.Off], r.Node)
		}
	}
	for _, nodes := range all {
		slices.Sort(nodes)
	}
	return all
}

// await looks until every block of a file has n replicas.
func await(t *testing.T, s store.Store, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		short := 0
		for _, nodes := range located(t, s, name, "") {
			if len(nodes) != n {
				short++
			}
		}
		if short == 0 {
			return
		}
		if err := store.Sleep(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("%s: %d blocks have not %d replicas", name, short, n)
		}
	}
}

// testStorageTypes: replicas raised under COLD lie on ARCHIVE, and lowering under the file's own policy drops just these.
func testStorageTypes(t *testing.T, c *hdfstest.Cluster) {
	s := open(t, c, c.Dir(t), hdfs.Options{})
	storetest.Put(t, s, "/f", hdfstest.Bytes(1, 8*blockSize))
	await(t, s, "/f", 3)
	before := located(t, s, "/f", "DISK")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must(s.SetStoragePolicy(ctx, "/f", "COLD"))
	must(s.SetReplication(ctx, "/f", 8))
	await(t, s, "/f", 8)
	if got := located(t, s, "/f", "DISK"); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("on disks while raised: %v, before: %v", got, before)
	}
	must(s.SetStoragePolicy(ctx, "/f", ""))
	must(s.SetReplication(ctx, "/f", 3))
	await(t, s, "/f", 3)
	if got := located(t, s, "/f", "DISK"); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("after lowering: %v, before: %v", got, before)
	}
}

// testSibling: a copy shares no node with the original, whether the store has heard of the nodes before or not.
func testSibling(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	s := open(t, c, root, hdfs.Options{})
	data := hdfstest.Bytes(2, 4*blockSize+5)
	storetest.Put(t, s, "/f", data)
	await(t, s, "/f", 3)
	original := located(t, s, "/f", "")
	for name, from := range map[string]*hdfs.Store{"known": s, "unknown": open(t, c, root, hdfs.Options{})} {
		w, err := from.CreatePlaced(t.Context(), "/"+name, store.Placement{
			Replicas: 6, BlockSize: blockSize, Exclude: func(off int64) []string { return original[off] },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, s, "/"+name, 6)
		for off, nodes := range located(t, s, "/"+name, "") {
			for _, n := range nodes {
				if slices.Contains(original[off], n) {
					t.Errorf("%s: block at %d is on %s, as the original's", name, off, n)
				}
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
