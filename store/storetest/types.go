package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
)

// TypedStore is a store with types of storage, as RunTyped wants it.
type TypedStore interface {
	store.Store
	store.Replicator
	store.StoragePolicer
	store.PlacedCreator
}

// RunTyped runs the suite of stores in which each of 9 nodes has storages of the types DISK and ARCHIVE, and files have 3 replicas. open must return an empty
// store that no other test uses.
func RunTyped(t *testing.T, open func(t *testing.T) TypedStore) {
	for _, c := range []struct {
		name string
		test func(*testing.T, TypedStore)
	}{
		{"RaiseAndLower", testRaiseAndLower},
		{"LowerUnderTheOtherPolicy", testLowerUnderTheOtherPolicy},
		{"PolicyOfTheFolder", testPolicyOfTheFolder},
		{"Sibling", testSibling},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// typedBytes is four blocks and a bit, of stores whose blocks have 1 MiB.
const typedBytes = 4<<20 + 5

// located are the nodes of each block that hold it on a type of storage, sorted; any type: "".
func located(t *testing.T, s store.Store, name, storage string) map[int64][]string {
	t.Helper()
	rows, err := s.Locate(t.Context(), name, 0, typedBytes)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[int64][]string{}
	for _, r := range rows {
		if storage == "" || r.Storage == storage {
			nodes[r.Off] = append(nodes[r.Off], r.Node)
		}
	}
	return sorted(nodes)
}

// await waits until every block of a file has n replicas.
func await(t *testing.T, s store.Store, name string, n int) {
	t.Helper()
	awaitBlocks(t, s, name, fmt.Sprintf("%d replicas", n), func(rows []store.Replica) bool { return len(rows) == n })
}

// awaitBlocks waits until the replicas of every block of a file are as they should be.
func awaitBlocks(t *testing.T, s store.Store, name, what string, is func(rows []store.Replica) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		rows, err := s.Locate(t.Context(), name, 0, typedBytes)
		if err != nil {
			t.Fatal(err)
		}
		blocks := map[int64][]store.Replica{}
		for _, r := range rows {
			blocks[r.Off] = append(blocks[r.Off], r)
		}
		maps.DeleteFunc(blocks, func(_ int64, rows []store.Replica) bool { return is(rows) })
		if len(blocks) == 0 {
			return
		}
		if err := store.Sleep(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("%s: it should have %s, and has %+v", name, what, blocks)
		}
	}
}

func wantLocated(t *testing.T, what string, s store.Store, name, storage string, want map[int64][]string) {
	t.Helper()
	if got := located(t, s, name, storage); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: on %s %v, want %v", what, storage, got, want)
	}
}

// under sets a policy and then a number of replicas, and waits for these.
func under(t *testing.T, s TypedStore, name, policy string, n int) {
	t.Helper()
	if err := s.SetStoragePolicy(t.Context(), name, policy); err != nil {
		t.Fatal(err)
	}
	if err := s.SetReplication(t.Context(), name, n); err != nil {
		t.Fatal(err)
	}
	await(t, s, name, n)
}

// testRaiseAndLower: replicas raised under COLD lie on ARCHIVE, and lowering under the file's own policy drops just these.
func testRaiseAndLower(t *testing.T, s TypedStore) {
	Put(t, s, "/f", content(typedBytes, 31))
	await(t, s, "/f", 3)
	before := located(t, s, "/f", "DISK")
	wantLocated(t, "a new file", s, "/f", "", before)
	under(t, s, "/f", "COLD", 8)
	wantLocated(t, "raised", s, "/f", "DISK", before)
	for off, nodes := range located(t, s, "/f", "ARCHIVE") {
		if len(nodes) != 5 {
			t.Errorf("block at %d: %d replicas on ARCHIVE, want 5", off, len(nodes))
		}
	}
	under(t, s, "/f", "", 3)
	wantLocated(t, "lowered", s, "/f", "DISK", before)
	wantBytes(t, "the file", Get(t, s, "/f"), content(typedBytes, 31))
}

// testLowerUnderTheOtherPolicy: what the policy in effect does not ask for goes first, and that is then the original. One replica of it stays where all
// others are on one rack: HDFS keeps blocks on two.
func testLowerUnderTheOtherPolicy(t *testing.T, s TypedStore) {
	Put(t, s, "/f", content(typedBytes, 32))
	await(t, s, "/f", 3)
	under(t, s, "/f", "COLD", 6)
	archive := located(t, s, "/f", "ARCHIVE")
	if err := s.SetReplication(t.Context(), "/f", 3); err != nil {
		t.Fatal(err)
	}
	awaitBlocks(t, s, "/f", "its original replicas no more", func(rows []store.Replica) bool {
		racks, others := map[string]bool{}, 0
		for _, r := range rows {
			if r.Storage == "ARCHIVE" {
				racks[r.Rack] = true
			} else {
				others++
			}
		}
		return others == 0 || others == 1 && len(racks) == 1
	})
	wantLocated(t, "lowered", s, "/f", "ARCHIVE", archive)
}

// testPolicyOfTheFolder: files are made where the policy of their folder says.
func testPolicyOfTheFolder(t *testing.T, s TypedStore) {
	Put(t, s, "/d/first", content(typedBytes, 33))
	await(t, s, "/d/first", 3)
	before := located(t, s, "/d/first", "DISK")
	if err := s.SetStoragePolicy(t.Context(), "/d", "COLD"); err != nil {
		t.Fatal(err)
	}
	wantLocated(t, "a file that was there", s, "/d/first", "", before)
	Put(t, s, "/d/second", content(typedBytes, 34))
	await(t, s, "/d/second", 3)
	wantLocated(t, "a new file", s, "/d/second", "ARCHIVE", located(t, s, "/d/second", ""))
}

// testSibling: a copy shares no node with the original, block by block.
func testSibling(t *testing.T, s TypedStore) {
	data := content(typedBytes, 35)
	if err := createPlaced(t, s, "/f", store.Placement{BlockSize: 1 << 20}, data); err != nil {
		t.Fatal(err)
	}
	await(t, s, "/f", 3)
	original := located(t, s, "/f", "")
	exclude := func(off int64) []string { return original[off] }
	if err := createPlaced(t, s, "/copy", store.Placement{Replicas: 6, BlockSize: 1 << 20, Exclude: exclude}, data); err != nil {
		t.Fatal(err)
	}
	await(t, s, "/copy", 6)
	copied := located(t, s, "/copy", "")
	for off, nodes := range original {
		for _, n := range nodes {
			if slices.Contains(copied[off], n) {
				t.Errorf("block at %d: both are on %s", off, n)
			}
		}
	}
	wantBytes(t, "the copy", Get(t, s, "/copy"), data)
	if err := createPlaced(t, s, "/more", store.Placement{Replicas: 7, BlockSize: 1 << 20, Exclude: exclude}, data); err != nil {
		t.Fatal(err)
	}
	if info, err := s.Stat(t.Context(), "/more"); err != nil || info.Replicas != 6 {
		t.Errorf("with a seventh replica: %+v, %v", info, err)
	}
	await(t, s, "/more", 6)
	for _, name := range []string{"/copy", "/more"} {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantLocated(t, "after the copies are gone", s, "/f", "", original)
}
