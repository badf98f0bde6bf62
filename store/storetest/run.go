// Package storetest knows what every store must do, as a suite of tests that each implementation and
// each decorator runs.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// Run runs the suite. open must return an empty store that no other test uses.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"Names", testNames},
		{"NotFound", testNotFound},
		{"CreateThenRead", testCreateThenRead},
		{"EmptyFile", testEmptyFile},
		{"CreateIsExclusive", testCreateIsExclusive},
		{"OneOfManyCreatorsWins", testOneCreatorWins},
		{"InvisibleUntilClosed", testInvisibleUntilClosed},
		{"AbortLeavesNothing", testAbort},
		{"WriterAfterItsEnd", testWriterAfterItsEnd},
		{"CancelledWriter", testCancelledWriter},
		{"Parts", testParts},
		{"PartsRefused", testPartsRefused},
		{"PartsAreExclusive", testPartsAreExclusive},
		{"Claim", testClaim},
		{"List", testList},
		{"OddNames", testOddNames},
		{"Rename", testRename},
		{"RenameRefused", testRenameRefused},
		{"Remove", testRemove},
		{"MakeFolder", testMakeFolder},
		{"FileIsNoFolder", testFileIsNoFolder},
		{"FolderIsNoFile", testFolderIsNoFile},
		{"ReadRanges", testReadRanges},
		{"RandomRanges", testRandomRanges},
		{"RangesOutside", testRangesOutside},
		{"RangesOutsideReadNothing", testRangesOutsideReadNothing},
		{"ConcurrentReaders", testConcurrentReaders},
		{"ReadAfterRemove", testReadAfterRemove},
		{"ReadAfterReplace", testReadAfterReplace},
		{"Identity", testIdentity},
		{"ClosedFile", testClosedFile},
		{"Cancelled", testCancelled},
		{"Locate", testLocate},
		{"LocateOutside", testLocateOutside},
		{"ReadReplica", testReadReplica},
		{"SetReplication", testSetReplication},
		{"LocalPath", testLocalPath},
		{"Attributes", testAttributes},
		{"AttributesFollow", testAttributesFollow},
		{"AttributesRefused", testAttributesRefused},
		{"StoragePolicy", testStoragePolicy},
		{"CreatePlaced", testCreatePlaced},
		{"CreatePlacedRefused", testCreatePlacedRefused},
		{"Protect", testProtect},
		{"Nodes", testNodes},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// content is n bytes that do not repeat, different for each seed.
func content(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

// Put writes a file of the given content.
func Put(t testing.TB, s store.Store, name string, data []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatalf("Create %s: %v", name, err)
	}
	if n, err := w.Write(data); err != nil || n != len(data) {
		t.Fatalf("Write %s: %d of %d bytes, %v", name, n, len(data), err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close %s: %v", name, err)
	}
}

// Open opens a file, and closes it at the test's end.
func Open(t testing.TB, s store.Store, name string) store.File {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("Open %s: %v", name, err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Get reads a whole file.
func Get(t testing.TB, s store.Store, name string) []byte {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("Open %s: %v", name, err)
	}
	defer f.Close()
	buf := make([]byte, f.Size())
	if err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}); err != nil {
		t.Fatalf("ReadRanges %s: %v", name, err)
	}
	return buf
}

func wantBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: wrong bytes: %d of %d, first difference at %d", what, len(got), len(want), difference(got, want))
	}
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func wantError(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: error %q, want one that matches %q", what, fmt.Sprint(err), target)
	}
}

func wantClass(t testing.TB, what string, err error, class store.Class) {
	t.Helper()
	if err == nil || store.ClassOf(err) != class {
		t.Fatalf("%s: error %q has class %s, want %s", what, fmt.Sprint(err), store.ClassOf(err), class)
	}
}

// names lists a folder's names without the folder; a folder's own end with a slash.
func names(t testing.TB, s store.Store, dir string) []string {
	t.Helper()
	infos, err := s.List(t.Context(), dir)
	if err != nil {
		t.Fatalf("List %s: %v", dir, err)
	}
	out := []string{}
	for _, i := range infos {
		if path.Dir(i.Name) != dir {
			t.Fatalf("List %s: the name %q is not a whole name in that folder", dir, i.Name)
		}
		name := path.Base(i.Name)
		if i.Dir {
			name += "/"
		}
		out = append(out, name)
	}
	return out
}

func wantNames(t testing.TB, s store.Store, dir string, want ...string) {
	t.Helper()
	if got := names(t, s, dir); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) && len(got)+len(want) > 0 {
		t.Fatalf("List %s: got %q, want %q", dir, got, want)
	}
}

func wantMissing(t testing.TB, s store.Store, name string) {
	t.Helper()
	_, err := s.Stat(t.Context(), name)
	wantError(t, "Stat "+name, err, fs.ErrNotExist)
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
