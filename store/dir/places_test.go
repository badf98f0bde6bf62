package dir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// TestLowerKeepsTheMostRoom: a plain raise and lower leaves a file on the nodes with the most room, on two racks.
func TestLowerKeepsTheMostRoom(t *testing.T) {
	s := newCluster(t, tagged(), dir.Options{})
	storetest.Put(t, s, "/f", make([]byte, 5*64<<10))
	must(t, s.SetReplication(t.Context(), "/f", 9))
	for block := range int64(5) {
		if n := len(holders(t, s, "/f", block*64<<10)); n != 9 {
			t.Fatalf("block %d: %d replicas", block, n)
		}
	}
	must(t, s.SetReplication(t.Context(), "/f", 3))
	for block := range int64(5) {
		got := holders(t, s, "/f", block*64<<10)
		slices.Sort(got)
		if fmt.Sprint(got) != "[dn6 dn7 dn8]" {
			t.Errorf("block %d: %v", block, got)
		}
	}
}

// TestLowerKeepsTwoRacks: where the two nodes with the most room are on one rack, the last of another stays.
func TestLowerKeepsTwoRacks(t *testing.T) {
	topology := dir.Topology{Replication: 1}
	for i := range 4 {
		topology.Nodes = append(topology.Nodes, dir.Node{Name: fmt.Sprint("dn", i), Rack: fmt.Sprint("/r", min(i, 1)), FreeBytes: int64(i+1) << 30})
	}
	s := newCluster(t, topology, dir.Options{})
	storetest.Put(t, s, "/f", []byte("f"))
	must(t, s.SetReplication(t.Context(), "/f", 4))
	must(t, s.SetReplication(t.Context(), "/f", 2))
	got := holders(t, s, "/f", 0)
	slices.Sort(got)
	if fmt.Sprint(got) != "[dn0 dn3]" {
		t.Errorf("left on %v", got)
	}
}

// TestRaiseWithoutTheType: COLD has no other type to go to, and so has as many replicas as there are ARCHIVE storages.
func TestRaiseWithoutTheType(t *testing.T) {
	topology := tagged()
	for i := range topology.Nodes {
		if i >= 5 {
			topology.Nodes[i].Types = []string{"DISK"}
		}
	}
	s := newCluster(t, topology, dir.Options{})
	storetest.Put(t, s, "/f", make([]byte, 10*64<<10))
	must(t, s.SetStoragePolicy(t.Context(), "/f", "COLD"))
	must(t, s.SetReplication(t.Context(), "/f", 9))
	rows, err := s.Locate(t.Context(), "/f", 0, 10*64<<10)
	must(t, err)
	disks := map[int64]int{}
	for _, r := range rows {
		if r.Storage == "DISK" {
			disks[r.Off]++
		} else if r.Node > "dn4" {
			t.Errorf("%+v has no such storage", r)
		}
	}
	for off, n := range disks {
		if n != 3 {
			t.Errorf("block at %d: %d on disks", off, n)
		}
	}
}

// TestNodesDown: a node that is down is not alive, and gets no replica that is chosen.
func TestNodesDown(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	down := filepath.Join(s.Root(), ".stepahead/down")
	must(t, os.MkdirAll(down, 0o755))
	must(t, os.WriteFile(filepath.Join(down, "dn2"), nil, 0o644))
	nodes, err := s.Nodes(t.Context())
	must(t, err)
	if len(nodes) != 5 || slices.ContainsFunc(nodes, func(n store.Node) bool { return n.Node == "dn2" }) {
		t.Errorf("%+v", nodes)
	}
	w, err := s.CreatePlaced(t.Context(), "/f", store.Placement{Replicas: 5, Exclude: func(int64) []string { return nil }})
	must(t, err)
	_, err = w.Write([]byte("f"))
	must(t, errors.Join(err, w.Close()))
	if got := holders(t, s, "/f", 0); len(got) != 5 || slices.Contains(got, "dn2") {
		t.Errorf("it is on %v", got)
	}
}

// TestAttributesOfManyWriters: two stores on one folder, as in two processes, lose nothing of each other.
func TestAttributesOfManyWriters(t *testing.T) {
	one := newCluster(t, cluster(), dir.Options{})
	storetest.Put(t, one, "/f", []byte("f"))
	stores := []*dir.Store{one, open(t, one.Root(), dir.Options{})}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := stores[i%2].SetAttribute(t.Context(), "/f", fmt.Sprint("stepahead.a", i), []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 16 {
		if v, ok, err := one.Attribute(t.Context(), "/f", fmt.Sprint("stepahead.a", i)); err != nil || !ok || v[0] != byte(i) {
			t.Errorf("attribute %d: %v, %v, %v", i, v, ok, err)
		}
	}
}

// TestAttributesEndWithTheFile: whoever removes it, and whatever comes in its place. Names need not be UTF-8.
func TestAttributesEndWithTheFile(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	const name, at = "/d\xff/f\xfe", "stepahead.test"
	storetest.Put(t, s, name, []byte("f"))
	must(t, s.SetAttribute(t.Context(), name, at, []byte("v")))
	must(t, s.Rename(t.Context(), "/d\xff", "/e\xff"))
	if v, ok, err := s.Attribute(t.Context(), "/e\xff/f\xfe", at); err != nil || !ok || string(v) != "v" {
		t.Fatalf("after the folder's rename: %q, %v, %v", v, ok, err)
	}
	path := s.Address("/e\xff/f\xfe")
	must(t, os.Rename(path, path+"x")) // its inode stays in use
	must(t, os.WriteFile(path, []byte("another"), 0o644))
	if v, ok, err := s.Attribute(t.Context(), "/e\xff/f\xfe", at); err != nil || ok {
		t.Errorf("another file has the attribute: %q, %v", v, err)
	}
}

// TestFailedRenameKeepsWhatThereIs: both files keep their own.
func TestFailedRenameKeepsWhatThereIs(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	const at = "stepahead.test"
	for _, name := range []string{"/d/f", "/e/f", "/file"} {
		storetest.Put(t, s, name, []byte("f"))
		must(t, s.SetAttribute(t.Context(), name, at, []byte(name)))
	}
	must(t, s.SetAttribute(t.Context(), "/d", at, []byte("/d")))
	if err := s.Rename(t.Context(), "/d", "/file"); err == nil {
		t.Fatal("a folder took the place of a file")
	}
	if err := s.Rename(t.Context(), "/d", "/none/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range []string{"/d", "/d/f", "/e/f", "/file"} {
		if v, _, err := s.Attribute(t.Context(), name, at); err != nil || string(v) != name {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(s.Root(), ".stepahead/replication/*")); len(kept) != 4 {
		t.Errorf("kept: %v", kept)
	}
}

// TestAKilledRename: what a file has of its own is there whether the rename took place or not.
func TestAKilledRename(t *testing.T) {
	const at = "stepahead.test"
	for _, moved := range []bool{false, true} {
		s := newCluster(t, cluster(), dir.Options{})
		storetest.Put(t, s, "/f", []byte("f"))
		must(t, s.SetAttribute(t.Context(), "/f", at, []byte("v")))
		folder := filepath.Join(s.Root(), ".stepahead/replication")
		before, err := filepath.Glob(folder + "/*")
		must(t, err)
		kept, err := os.ReadFile(before[0])
		must(t, err)
		must(t, s.Rename(t.Context(), "/f", "/g"))
		must(t, os.WriteFile(before[0], kept, 0o644)) // as it is in the midst
		name := "/g"
		if !moved {
			must(t, os.Rename(s.Address("/g"), s.Address("/f")))
			name = "/f"
		}
		if v, _, err := s.Attribute(t.Context(), name, at); err != nil || string(v) != "v" {
			t.Errorf("%s: %q, %v", name, v, err)
		}
		other := map[bool]string{true: "/f", false: "/g"}[moved]
		storetest.Put(t, s, other, []byte("new"))
		if _, ok, err := s.Attribute(t.Context(), other, at); err != nil || ok {
			t.Errorf("a new file %s has what another had, %v", other, err)
		}
	}
}

// TestPlacedFewer: a file has as many replicas as the block that has most nodes left out.
func TestPlacedFewer(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	not := [][]string{{"dn1"}, {"dn1", "dn2", "dn3"}, {}}
	p := store.Placement{Replicas: 4, BlockSize: 512, Exclude: func(off int64) []string { return not[off/512] }}
	w, err := s.CreatePlaced(t.Context(), "/f", p)
	must(t, err)
	_, err = w.Write(make([]byte, 3*512))
	must(t, errors.Join(err, w.Close()))
	nodes, err := s.Nodes(t.Context())
	must(t, err)
	info, err := s.Stat(t.Context(), "/f")
	must(t, err)
	if want := len(nodes) - 3; want < 1 || want > 3 || info.Replicas != want {
		t.Fatalf("%d replicas of %d nodes", info.Replicas, len(nodes))
	}
	for block := range int64(3) {
		got := holders(t, s, "/f", block*512)
		if len(got) != info.Replicas || slices.ContainsFunc(got, func(n string) bool { return slices.Contains(not[block], n) }) {
			t.Errorf("block %d is on %v", block, got)
		}
	}
}

// TestFailedPlacementLeavesNothing: neither a file nor what the store keeps of one.
func TestFailedPlacementLeavesNothing(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	p := store.Placement{Replicas: 2, Exclude: func(int64) []string { return nil }}
	w, err := s.CreatePlaced(t.Context(), "/f", p)
	must(t, err)
	must(t, os.WriteFile(s.Address("/f"), []byte("another's"), 0o644))
	if err := w.Close(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Close: %v", err)
	}
	p.Exclude = func(int64) []string { return []string{"dn1", "dn2", "dn3", "dn4", "dn5", "dn6"} }
	if w, err = s.CreatePlaced(t.Context(), "/g", p); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("g")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Close: %v", err)
	}
	if kept, _ := filepath.Glob(filepath.Join(s.Root(), ".stepahead/replication/*")); len(kept) != 0 {
		t.Errorf("left: %v", kept)
	}
}

// TestProtectRefused: what cannot be given is refused before anything is changed.
func TestProtectRefused(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	storetest.Put(t, s, "/f", []byte("f"))
	before, err := s.Access(t.Context(), "/f")
	must(t, err)
	for what, c := range map[string]struct {
		a    store.Access
		want error
	}{
		"an ACL":              {store.Access{Mode: 0o600, ACL: []string{"user:ada:r--"}}, errors.ErrUnsupported},
		"a name":              {store.Access{Mode: 0o600, Owner: "ada"}, fs.ErrInvalid},
		"a number too large":  {store.Access{Mode: 0o600, Group: "4294967295"}, fs.ErrInvalid},
		"a number with signs": {store.Access{Mode: 0o600, Group: "-1"}, fs.ErrInvalid},
	} {
		if err := s.Protect(t.Context(), "/f", c.a); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, err := s.Access(t.Context(), "/f"); err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%+v, before %+v, %v", after, before, err)
	}
	if os.Geteuid() != 0 {
		if err := s.Protect(t.Context(), "/f", store.Access{Mode: 0o600, Owner: "0"}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("giving a file to root: %v", err)
		}
		return
	}
	must(t, s.Protect(t.Context(), "/f", store.Access{Mode: 0o600, Owner: "1234", Group: "4321"}))
	if after, err := s.Access(t.Context(), "/f"); err != nil || after.Owner != "1234" || after.Group != "4321" || after.Mode != 0o600 {
		t.Errorf("%+v, %v", after, err)
	}
}

// TestProtectFollowsLinks: as reading does, and not out of the root.
func TestProtectFollowsLinks(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	storetest.Put(t, s, "/f", []byte("f"))
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, nil, 0o644))
	must(t, os.Symlink("f", s.Address("/link")))
	must(t, os.Symlink(outside, s.Address("/out")))
	must(t, s.Protect(t.Context(), "/link", store.Access{Mode: 0o600}))
	if a, err := s.Access(t.Context(), "/f"); err != nil || a.Mode != 0o600 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := s.Protect(t.Context(), "/out", store.Access{Mode: 0o600}); !errors.Is(err, store.ErrName) {
		t.Errorf("out of the root: %v", err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
