package hdfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
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
	storetest.RunTyped(t, func(t *testing.T) storetest.TypedStore { return open(t, c, c.Dir(t), hdfs.Options{}) })
	t.Run("unknown nodes", func(t *testing.T) { testUnknownNodes(t, c) })
	t.Run("few racks", func(t *testing.T) { testFewRacks(t, c) })
	t.Run("tracked", func(t *testing.T) { testTracked(t, c) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, c, nodes) })
	t.Run("move", func(t *testing.T) { testMove(t, c) })
	t.Run("a node starts again", func(t *testing.T) {
		c.Kill(0)
		c.Restart(0, true)
		c.Leave(3)
		c.Restart(3, true)
		testNodes(t, c, nodes)
	})
}

// testMove: one replica of one block moves to a node that had none, and the others stay.
func testMove(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	c.Put(root+"/f", hdfstest.Bytes(3, 3*blockSize), 3, blockSize)
	c.Put(root+"/all", hdfstest.Bytes(4, blockSize), 9, blockSize)
	c.WaitReplication(root+"/f", 3)
	c.WaitReplication(root+"/all", 9)
	s := open(t, c, root, hdfs.Options{})
	if _, err := s.Locate(t.Context(), "/all", 0, 1); err != nil { // every node is known by then
		t.Fatal(err)
	}
	nodes := c.DataNodes()
	uuid := func(n int) string { return nodes[n].UUID }
	before := c.Locations(root + "/f")
	from := before[1].Nodes[0]
	// A free node on the same rack, of which the NameNode gives one block two of three nodes at most: on another rack the others may be two already, and it would
	// delete the new replica.
	free := slices.IndexFunc(nodes, func(d hdfstest.DataNode) bool {
		return d.Rack == nodes[from].Rack && !slices.ContainsFunc(before[1].Nodes, func(n int) bool { return nodes[n].UUID == d.UUID })
	})
	move := func() {
		if err := s.MoveReplica(t.Context(), "/f", blockSize+1, uuid(from), uuid(free)); err != nil {
			t.Fatal(err)
		}
	}
	move()
	moved := func() bool {
		now := c.Locations(root + "/f")[1].Nodes
		return len(now) == 3 && slices.Contains(now, free) && !slices.Contains(now, from)
	}
	for began := time.Now(); !moved(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("block 1 is on %v: it was to move from %d to %d", c.Locations(root + "/f")[1].Nodes, from, free)
		}
	}
	move() // it is there
	for i, b := range c.Locations(root + "/f") {
		if slices.Sort(b.Nodes); i != 1 && !slices.Equal(b.Nodes, slices.Sorted(slices.Values(before[i].Nodes))) {
			t.Errorf("block %d is on %v, was on %v", i, b.Nodes, before[i].Nodes)
		}
	}
	if got := c.Get(root + "/f"); !bytes.Equal(got, hdfstest.Bytes(3, 3*blockSize)) {
		t.Error("the file has other bytes")
	}
	for _, bad := range []struct {
		name     string
		off      int64
		from, to string
		want     error
	}{
		{"/f", 0, "nobody", uuid(free), fs.ErrNotExist}, {"/f", 0, uuid(before[0].Nodes[0]), "nobody", store.ErrUnavailable},
		{"/f", 3 * blockSize, uuid(0), uuid(1), store.ErrRange}, {"/none", 0, uuid(0), uuid(1), fs.ErrNotExist},
	} {
		if slices.Contains(before[0].Nodes, free) && bad.want == fs.ErrNotExist && bad.name == "/f" {
			continue // it has that block
		}
		if err := s.MoveReplica(t.Context(), bad.name, bad.off, bad.from, bad.to); !errors.Is(err, bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// testUnknownNodes: a store that has heard of no node yet gives back blocks on those that are left out.
func testUnknownNodes(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	data := hdfstest.Bytes(2, 6*blockSize)
	c.Put(root+"/f", data, 5, blockSize) // of nine: four are left, at least two racks of them, and HDFS puts no more than two of three replicas on one
	c.WaitReplication(root+"/f", 5)
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

// testFewRacks: of three racks the NameNode gives one at most (replicas - 1) / 3 + 2 of the replicas, and one less where that is all of them: so of what is left on one
// rack one node gets the block, since two on one rack would be moved. The file asks for as many as each of its blocks has, so that none is made on the nodes that
// are left out.
func testFewRacks(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	nodes := c.DataNodes()
	without := func(left ...int) (names []string) { // all but these
		for i, n := range nodes {
			if !slices.Contains(left, i) {
				names = append(names, n.UUID)
			}
		}
		return names
	}
	s := open(t, c, root, hdfs.Options{})
	for i, test := range []struct {
		replicas int
		left     [][]int // by block; nodes 0, 3 and 6 are on one rack, 1, 4 and 7 on the next
		want     int
	}{
		{3, [][]int{{0, 3, 6}, {1, 4, 7}}, 1},
		{3, [][]int{{0, 3, 1}}, 3},
		{5, [][]int{{0, 3, 6, 1}}, 4},
		{3, [][]int{{5}}, 1},
		{4, [][]int{{0, 1, 2, 3}, {0, 4}, {1, 2, 4, 5}}, 2},
	} {
		name := fmt.Sprint("/copy", i)
		data := hdfstest.Bytes(uint64(i), len(test.left)*blockSize)
		w, err := s.CreatePlaced(t.Context(), name, store.Placement{
			Replicas: test.replicas, BlockSize: blockSize, Exclude: func(off int64) []string { return without(test.left[off/blockSize]...) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		info, err := s.Stat(t.Context(), name)
		if err != nil || info.Replicas != test.want {
			t.Errorf("%+v: %+v, %v", test, info, err)
		}
		c.WaitReplication(root+name, info.Replicas)
		for n, b := range c.Locations(root + name) {
			if slices.ContainsFunc(b.Nodes, func(i int) bool { return !slices.Contains(test.left[n], i) }) {
				t.Errorf("%+v: block %d is on %v", test, n, b.Nodes)
			}
		}
		if got := c.Get(root + name); !bytes.Equal(got, data) {
			t.Errorf("%+v: the file has other bytes", test)
		}
	}
}

// testTracked: a file is found by its inode, whatever it is called, in whatever folder, until it is deleted; for who may only write files too.
func testTracked(t *testing.T, c *hdfstest.Cluster) {
	root := c.Dir(t)
	const at = "stepahead.test"
	c.Put(root+"/f", hdfstest.Bytes(6, blockSize), 3, blockSize)
	s := open(t, c, root, hdfs.Options{})
	handle, err := s.Track(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"/hot", "/cold"} {
		if err := s.MakeFolder(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
		if err := s.SetStoragePolicy(t.Context(), folder, map[string]string{"/hot": "HOT", "/cold": "COLD"}[folder]); err != nil {
			t.Fatal(err)
		}
	}
	found, err := s.Tracked("/f", handle)
	if err != nil {
		t.Fatal(err)
	}
	typed := found.(storetest.TypedStore)
	attributes := found.(store.Attributer)
	name := "/f"
	for i, to := range []string{"/cold/g", "/hot/h"} {
		if err := s.Rename(t.Context(), name, to); err != nil {
			t.Fatal(err)
		}
		name = to
		c.Put(root+"/f", nil, 1, 0) // another file has the name
		value := []byte(to)
		err := errors.Join(
			attributes.SetAttribute(t.Context(), "/f", at, value), typed.SetStoragePolicy(t.Context(), "/f", "ONE_SSD"), typed.SetReplication(t.Context(), "/f", 2+i),
		)
		if err != nil {
			t.Fatal(err)
		}
		for _, look := range []struct {
			st   store.Store
			name string
		}{{found, "/f"}, {s, to}} {
			info, err := look.st.Stat(t.Context(), look.name)
			if err != nil || info.Replicas != 2+i || info.Size != blockSize || info.Name != look.name {
				t.Errorf("%s: %+v, %v", to, info, err)
			}
			v, ok, err := look.st.(store.Attributer).Attribute(t.Context(), look.name, at)
			if err != nil || !ok || !bytes.Equal(v, value) {
				t.Errorf("%s: %q, %v, %v", to, v, ok, err)
			}
			p, err := look.st.(store.StoragePolicer).StoragePolicy(t.Context(), look.name)
			if err != nil || p != (store.StoragePolicy{Name: "ONE_SSD", Own: true}) {
				t.Errorf("%s: %+v, %v", to, p, err)
			}
		}
		if err := typed.SetStoragePolicy(t.Context(), "/f", ""); err != nil {
			t.Fatal(err)
		}
		if p, err := typed.StoragePolicy(t.Context(), "/f"); err != nil || p.Own || p.Name != []string{"COLD", "HOT"}[i] {
			t.Errorf("%s: it inherits %+v, %v", to, p, err)
		}
		if _, ok, err := s.Attribute(t.Context(), "/f", at); ok || err != nil {
			t.Errorf("the file that has the name by now has the attribute: %v", err)
		}
	}
	if now, err := s.Track(t.Context(), name); err != nil || now != handle {
		t.Errorf("it is %q, %v, was %q", now, err, handle)
	}
	if now, err := s.Track(t.Context(), "/f"); err != nil || now == handle {
		t.Errorf("another file is %q, %v", now, err)
	}
	if err := s.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	_, missing := found.Stat(t.Context(), "/f")
	_, _, unmarked := attributes.Attribute(t.Context(), "/f", at)
	_, policy := typed.StoragePolicy(t.Context(), "/f")
	for _, err := range []error{
		missing, unmarked, policy, attributes.SetAttribute(t.Context(), "/f", at, nil), typed.SetStoragePolicy(t.Context(), "/f", "HOT"), typed.SetReplication(t.Context(), "/f", 3),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of a file that was deleted: %v", err)
		}
	}
	_, folder := s.Track(t.Context(), "/hot")
	_, none := s.Track(t.Context(), "/none")
	_, bad := s.Tracked("/f", "../5")
	if !errors.Is(folder, syscall.EISDIR) || !errors.Is(none, fs.ErrNotExist) || !errors.Is(bad, fs.ErrInvalid) {
		t.Errorf("%v, %v, %v", folder, none, bad)
	}
}

// testNodes: what the NameNode tells superusers and others of DataNodes, each with two folders of so many GiB as its number.
func testNodes(t *testing.T, c *hdfstest.Cluster, nodes int) {
	root := c.Dir(t)
	for _, user := range []string{hdfstest.Superuser, hdfstest.User} {
		s := open(t, c, root, hdfs.Options{User: user})
		if err := sized(t, s, c.DataNodes()); err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		got, err := s.Nodes(t.Context())
		if err != nil || len(got) != nodes {
			t.Fatalf("%s: %d nodes, %v", user, len(got), err)
		}
		for _, n := range got {
			d := c.DataNodes()[number(c.DataNodes(), n.Node)]
			if n.Addr != d.Addr || n.Rack != d.Rack || !n.InService || fmt.Sprint(n.Types) != "[ARCHIVE DISK]" || (n.Load < 0) != (user == hdfstest.User) {
				t.Errorf("%s: %+v, want %+v", user, n, d)
			}
		}
	}
}

func number(nodes []hdfstest.DataNode, uuid string) int {
	return slices.IndexFunc(nodes, func(d hdfstest.DataNode) bool { return d.UUID == uuid })
}

// sized waits until heartbeats have said how much room there is.
func sized(t *testing.T, s *hdfs.Store, all []hdfstest.DataNode) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		nodes, err := s.Nodes(ctx)
		if err != nil {
			return err
		}
		wrong := slices.IndexFunc(nodes, func(n store.Node) bool {
			most := int64(2*(number(all, n.Node)+1)) << 30
			return n.Free <= most-1<<30 || n.Free > most
		})
		if wrong < 0 {
			return nil
		}
		if err := store.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%+v has not the room of number %d: %w", nodes[wrong], number(all, nodes[wrong].Node), err)
		}
	}
}
