package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// skipUnsupported skips the test where the store cannot do what it is about.
func skipUnsupported(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the store cannot do this")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantAttribute wants a value, or none: nil.
func wantAttribute(t *testing.T, a store.Attributer, name, attribute string, want []byte) {
	t.Helper()
	got, ok, err := a.Attribute(t.Context(), name, attribute)
	if err != nil || ok != (want != nil) || !bytes.Equal(got, want) {
		t.Fatalf("attribute %s of %s: %q, %v, %v, want %q", attribute, name, got, ok, err, want)
	}
}

func testAttributes(t *testing.T, s store.Store) {
	a, ok := s.(store.Attributer)
	if !ok {
		t.Skip("the store keeps no attributes")
	}
	const one, two = "stepahead.one", "stepahead.two-2"
	Put(t, s, "/d/f", []byte("f"))
	skipUnsupported(t, a.SetAttribute(t.Context(), "/d/f", one, []byte("1")))
	set := func(name, attribute string, value []byte) {
		t.Helper()
		if err := a.SetAttribute(t.Context(), name, attribute, value); err != nil {
			t.Fatalf("SetAttribute %s of %s: %v", attribute, name, err)
		}
	}
	wantAttribute(t, a, "/d/f", two, nil)
	odd := []byte("\x00\xff \n\"")
	for _, value := range [][]byte{odd, odd, {}, bytes.Repeat([]byte("x"), 1024), []byte("end")} {
		set("/d/f", one, value)
		wantAttribute(t, a, "/d/f", one, value)
	}
	set("/d", two, []byte("of a folder"))
	set("/d/f", two, []byte("2"))
	before, _ := s.Stat(t.Context(), "/d/f")
	for range 2 {
		set("/d/f", one, nil)
		wantAttribute(t, a, "/d/f", one, nil)
	}
	wantAttribute(t, a, "/d/f", two, []byte("2"))
	wantAttribute(t, a, "/d", two, []byte("of a folder"))
	if after, err := s.Stat(t.Context(), "/d/f"); err != nil || after != before {
		t.Errorf("attributes changed the file from %+v to %+v, %v", before, after, err)
	}
	wantNames(t, s, "/d", "f")
}

// testAttributesFollow: an attribute is the file's, not the name's.
func testAttributesFollow(t *testing.T, s store.Store) {
	a, ok := s.(store.Attributer)
	if !ok {
		t.Skip("the store keeps no attributes")
	}
	const at = "stepahead.test"
	Put(t, s, "/d/f", []byte("f"))
	skipUnsupported(t, a.SetAttribute(t.Context(), "/d/f", at, []byte("f")))
	if err := a.SetAttribute(t.Context(), "/d", at, []byte("d")); err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		t.Helper()
		if err := s.Rename(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename("/d/f", "/d/g")
	wantAttribute(t, a, "/d/g", at, []byte("f"))
	rename("/d", "/e")
	wantAttribute(t, a, "/e", at, []byte("d"))
	wantAttribute(t, a, "/e/g", at, []byte("f"))
	Put(t, s, "/d/f", []byte("another"))
	wantAttribute(t, a, "/d/f", at, nil)
	wantAttribute(t, a, "/d", at, nil)
	rename("/d/f", "/e/g") // over it
	wantAttribute(t, a, "/e/g", at, nil)
	if err := a.SetAttribute(t.Context(), "/e/g", at, []byte("again")); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "/e/g"); err != nil {
		t.Fatal(err)
	}
	Put(t, s, "/e/g", []byte("new"))
	wantAttribute(t, a, "/e/g", at, nil)
}

func testAttributesRefused(t *testing.T, s store.Store) {
	a, ok := s.(store.Attributer)
	if !ok {
		t.Skip("the store keeps no attributes")
	}
	Put(t, s, "/f", []byte("f"))
	skipUnsupported(t, a.SetAttribute(t.Context(), "/f", "stepahead.test", []byte("f")))
	for _, bad := range []string{"", "x", "stepahead.", ".x", "a..b", "Stepahead.x", "stepahead.x y", "stepahead/x.y", "stepahead." + string(make([]byte, 200))} {
		_, _, err := a.Attribute(t.Context(), "/f", bad)
		wantError(t, "Attribute "+bad, err, fs.ErrInvalid)
		wantError(t, "SetAttribute "+bad, a.SetAttribute(t.Context(), "/f", bad, []byte("x")), fs.ErrInvalid)
	}
	wantError(t, "a long value", a.SetAttribute(t.Context(), "/f", "stepahead.test", make([]byte, 1025)), fs.ErrInvalid)
	wantAttribute(t, a, "/f", "stepahead.test", []byte("f"))
	for _, value := range [][]byte{nil, []byte("x")} {
		wantClass(t, "of a missing file", a.SetAttribute(t.Context(), "/missing", "stepahead.test", value), store.NotFound)
	}
	_, _, err := a.Attribute(t.Context(), "/missing", "stepahead.test")
	wantClass(t, "of a missing file", err, store.NotFound)
	_, _, err = a.Attribute(t.Context(), "f", "stepahead.test")
	wantError(t, "a bad name", err, store.ErrName)
	_, _, err = a.Attribute(cancelled(), "/f", "stepahead.test")
	wantError(t, "cancelled", err, context.Canceled)
}

func wantPolicy(t *testing.T, p store.StoragePolicer, name string, want store.StoragePolicy) {
	t.Helper()
	if got, err := p.StoragePolicy(t.Context(), name); err != nil || got != want {
		t.Fatalf("policy of %s: %+v, %v, want %+v", name, got, err, want)
	}
}

func testStoragePolicy(t *testing.T, s store.Store) {
	p, ok := s.(store.StoragePolicer)
	if !ok {
		t.Skip("the store has no types of storage")
	}
	Put(t, s, "/d/f", content(1000, 21))
	before, err := p.StoragePolicy(t.Context(), "/d/f")
	skipUnsupported(t, err)
	if before.Own || before.Name == "" {
		t.Fatalf("a new file's policy is %+v", before)
	}
	set := func(name, policy string) {
		t.Helper()
		if err := p.SetStoragePolicy(t.Context(), name, policy); err != nil {
			t.Fatalf("policy %q of %s: %v", policy, name, err)
		}
	}
	rows := func() string {
		t.Helper()
		rows, err := s.Locate(t.Context(), "/d/f", 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(rows)
	}
	place := rows()
	for range 2 {
		set("/d/f", "COLD")
		wantPolicy(t, p, "/d/f", store.StoragePolicy{Name: "COLD", Own: true})
	}
	wantPolicy(t, p, "/d", before)
	if now := rows(); now != place {
		t.Errorf("a policy moved replicas from %s to %s", place, now)
	}
	if err := s.Rename(t.Context(), "/d/f", "/d/g"); err != nil {
		t.Fatal(err)
	}
	wantPolicy(t, p, "/d/g", store.StoragePolicy{Name: "COLD", Own: true})
	if err := s.Rename(t.Context(), "/d/g", "/d/f"); err != nil {
		t.Fatal(err)
	}
	set("/d", "WARM")
	wantPolicy(t, p, "/d/f", store.StoragePolicy{Name: "COLD", Own: true})
	for range 2 {
		set("/d/f", "")
		wantPolicy(t, p, "/d/f", store.StoragePolicy{Name: "WARM"})
	}
	wantPolicy(t, p, "/d", store.StoragePolicy{Name: "WARM", Own: true})
	set("/d", "")
	wantPolicy(t, p, "/d/f", before)
	set("/d/f", before.Name) // the same, and its own
	wantPolicy(t, p, "/d/f", store.StoragePolicy{Name: before.Name, Own: true})
	wantClass(t, "a policy that nobody knows", p.SetStoragePolicy(t.Context(), "/d/f", "LUKEWARM"), store.Permanent)
	for _, policy := range []string{"COLD", ""} {
		wantClass(t, "a missing file", p.SetStoragePolicy(t.Context(), "/missing", policy), store.NotFound)
	}
	_, err = p.StoragePolicy(t.Context(), "/missing")
	wantClass(t, "a missing file", err, store.NotFound)
	wantError(t, "cancelled", p.SetStoragePolicy(cancelled(), "/d/f", "COLD"), context.Canceled)
}

// nodesOf are the nodes that hold each block.
func nodesOf(t *testing.T, s store.Store, name string) map[int64][]string {
	t.Helper()
	info, err := s.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Locate(t.Context(), name, 0, info.Size)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[int64][]string{}
	for _, r := range rows {
		nodes[r.Off] = append(nodes[r.Off], r.Node)
	}
	return nodes
}

func createPlaced(t *testing.T, s store.Store, name string, p store.Placement, data []byte) error {
	t.Helper()
	c, ok := s.(store.PlacedCreator)
	if !ok {
		t.Skip("the store places blocks by itself")
	}
	w, err := c.CreatePlaced(t.Context(), name, p)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the store places blocks by itself")
	}
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// testCreatePlaced: blocks of the length asked for, on other nodes than those excluded for each.
func testCreatePlaced(t *testing.T, s store.Store) {
	const block = 1 << 20
	data := content(3*block+100, 22)
	if err := createPlaced(t, s, "/d/one", store.Placement{Replicas: 1, BlockSize: block}, data); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "the first", Get(t, s, "/d/one"), data)
	first := nodesOf(t, s, "/d/one")
	if len(first) != 4 || len(first[3*block]) != 1 {
		t.Fatalf("blocks of %d bytes, one replica each: %v", block, first)
	}
	info, err := s.Stat(t.Context(), "/d/one")
	if err != nil || info.Replicas != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	err = createPlaced(t, s, "/d/two", store.Placement{Replicas: 2, BlockSize: block, Exclude: func(off int64) []string { return first[off] }}, data)
	if errors.Is(err, store.ErrUnavailable) {
		wantMissing(t, s, "/d/two") // one node
	} else if err != nil {
		t.Fatal(err)
	} else {
		wantBytes(t, "the second", Get(t, s, "/d/two"), data)
		info, err := s.Stat(t.Context(), "/d/two")
		if err != nil || info.Replicas < 1 || info.Replicas > 2 { // 1: of two nodes one is left
			t.Fatalf("%+v, %v", info, err)
		}
		second := nodesOf(t, s, "/d/two")
		for off, nodes := range second {
			if len(nodes) != info.Replicas || slices.Contains(nodes, first[off][0]) {
				t.Errorf("block at %d is on %v, its original on %v; %d replicas", off, nodes, first[off], info.Replicas)
			}
		}
		if len(second) != len(first) {
			t.Errorf("%d blocks, want %d", len(second), len(first))
		}
		if err := s.Rename(t.Context(), "/d/two", "/d/three"); err != nil {
			t.Fatal(err)
		}
		if moved := nodesOf(t, s, "/d/three"); fmt.Sprint(sorted(moved)) != fmt.Sprint(sorted(second)) {
			t.Errorf("a rename moved blocks from %v to %v", second, moved)
		}
	}
}

func sorted(nodes map[int64][]string) map[int64][]string {
	for _, n := range nodes {
		slices.Sort(n)
	}
	return nodes
}

// testCreatePlacedRefused: where no node is left, and where the placement is none.
func testCreatePlacedRefused(t *testing.T, s store.Store) {
	l, ok := s.(store.NodeLister)
	if !ok {
		t.Skip("the store has no nodes")
	}
	nodes, err := l.Nodes(t.Context())
	skipUnsupported(t, err)
	all := func(int64) (names []string) {
		for _, n := range nodes {
			names = append(names, n.Node)
		}
		return names
	}
	err = createPlaced(t, s, "/d/f", store.Placement{Exclude: all}, content(1000, 23))
	wantClass(t, "no node is left", err, store.Retryable)
	wantError(t, "no node is left", err, store.ErrUnavailable)
	fewer := store.Placement{Replicas: len(nodes), Exclude: func(int64) []string { return []string{nodes[0].Node} }}
	if err = createPlaced(t, s, "/d/fewer", fewer, content(1000, 23)); len(nodes) == 1 {
		wantError(t, "its only node is left out", err, store.ErrUnavailable)
	} else {
		wantFewer(t, s, "/d/fewer", err, len(nodes)-1)
	}
	for _, p := range []store.Placement{{Replicas: -1}, {BlockSize: -512}, {BlockSize: 1000}} {
		wantError(t, fmt.Sprint(p), createPlaced(t, s, "/d/f", p, nil), fs.ErrInvalid)
	}
	wantNames(t, s, "/d")
	Put(t, s, "/d/f", nil)
	wantError(t, "a file that is there", createPlaced(t, s, "/d/f", store.Placement{}, nil), fs.ErrExist)
	wantError(t, "a bad name", createPlaced(t, s, "/d/../f", store.Placement{}, nil), store.ErrName)
}

// wantFewer wants a file with at most so many replicas and at least one, as many as it says, and removes it.
func wantFewer(t *testing.T, s store.Store, name string, err error, most int) {
	t.Helper()
	info, missing := s.Stat(t.Context(), name)
	if err := errors.Join(err, missing); err != nil {
		t.Fatal(err)
	}
	if n := len(nodesOf(t, s, name)[0]); info.Replicas < 1 || info.Replicas > most || n != info.Replicas {
		t.Errorf("%d replicas are asked for, %d there, want 1 to %d", info.Replicas, n, most)
	}
	if err := s.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func testProtect(t *testing.T, s store.Store) {
	p, ok := s.(store.Protector)
	if !ok {
		t.Skip("the store has no owners")
	}
	Put(t, s, "/d/f", []byte("f"))
	before, err := p.Access(t.Context(), "/d/f")
	skipUnsupported(t, err)
	info, err := s.Stat(t.Context(), "/d/f")
	if err != nil || before.Owner == "" || before.Group == "" || before.Owner != info.Owner || before.Mode.Perm() == 0 || before.ACL != nil {
		t.Fatalf("%+v, %+v, %v", before, info, err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o400, 0o754} {
		want := before
		want.Mode = mode
		for _, a := range []store.Access{want, {Mode: mode}} {
			if err := p.Protect(t.Context(), "/d/f", a); err != nil {
				t.Fatalf("%+v: %v", a, err)
			}
			if got, err := p.Access(t.Context(), "/d/f"); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%+v gave %+v, %v", a, got, err)
			}
		}
	}
	if folder, err := p.Access(t.Context(), "/d"); err != nil || folder.Owner != before.Owner {
		t.Fatalf("a folder: %+v, %v", folder, err)
	}
	wantClass(t, "a missing file", p.Protect(t.Context(), "/missing", before), store.NotFound)
	_, err = p.Access(t.Context(), "/missing")
	wantClass(t, "a missing file", err, store.NotFound)
	wantError(t, "cancelled", p.Protect(cancelled(), "/d/f", before), context.Canceled)
}

func testNodes(t *testing.T, s store.Store) {
	l, ok := s.(store.NodeLister)
	if !ok {
		t.Skip("the store has no nodes")
	}
	nodes, err := l.Nodes(t.Context())
	skipUnsupported(t, err)
	known := map[string]store.Node{}
	for _, n := range nodes {
		if n.Rack == "" || n.Free <= 0 || n.Load < -1 || !n.InService || !slices.IsSorted(n.Types) {
			t.Errorf("%+v", n)
		}
		known[n.Node] = n
	}
	if len(known) != len(nodes) || len(nodes) == 0 {
		t.Fatalf("%d nodes of %d names", len(nodes), len(known))
	}
	Put(t, s, "/f", content(1000, 24))
	rows, err := s.Locate(t.Context(), "/f", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		n, ok := known[r.Node]
		if !ok || n.Rack != r.Rack || n.Addr != r.Addr {
			t.Errorf("replica %+v is on none of the nodes", r)
		}
	}
	_, err = l.Nodes(cancelled())
	wantError(t, "cancelled", err, context.Canceled)
}
