package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// fileSize spans many blocks of a store that was opened with small ones.
const fileSize = 400_000

func testReadRanges(t *testing.T, s store.Store) {
	data := content(fileSize, 2)
	Put(t, s, "/f", data)
	f := Open(t, s, "/f")
	if f.Size() != fileSize {
		t.Fatalf("Size %d", f.Size())
	}
	cases := map[string][][2]int{
		"none":                {},
		"one":                 {{100, 200}},
		"all":                 {{0, fileSize}},
		"first and last byte": {{0, 1}, {fileSize - 1, fileSize}},
		"empty at each place": {{0, 0}, {77, 77}, {fileSize, fileSize}},
		"backwards":           {{9000, 9100}, {5000, 5100}, {0, 10}},
		"overlapping":         {{1000, 390_000}, {2000, 3000}, {0, 250_000}, {2000, 3000}},
		"adjacent":            {{0, 4096}, {4096, 8192}, {8192, 8193}},
	}
	for name, bounds := range cases {
		readAndCompare(t, f, name, data, bounds)
	}
	if err := f.ReadRanges(t.Context(), nil); err != nil {
		t.Fatalf("no ranges: %v", err)
	}
}

// readAndCompare reads into the middle of larger memory and looks for bytes written beside it.
func readAndCompare(t testing.TB, f store.File, what string, data []byte, bounds [][2]int) {
	t.Helper()
	const guard = 16
	var ranges []store.Range
	var memory [][]byte
	for _, b := range bounds {
		n := b[1] - b[0]
		m := bytes.Repeat([]byte{0xa5}, n+2*guard)
		memory = append(memory, m)
		ranges = append(ranges, store.Range{Off: int64(b[0]), Buf: m[guard : guard+n]})
	}
	if err := f.ReadRanges(t.Context(), ranges); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	fence := bytes.Repeat([]byte{0xa5}, guard)
	for i, b := range bounds {
		m := memory[i]
		if !bytes.Equal(m[guard:len(m)-guard], data[b[0]:b[1]]) {
			t.Errorf("%s: range %d [%d, %d) has wrong bytes", what, i, b[0], b[1])
		}
		if !bytes.Equal(m[:guard], fence) || !bytes.Equal(m[len(m)-guard:], fence) {
			t.Errorf("%s: range %d: memory beside the buffer was written", what, i)
		}
		if ranges[i].Off != int64(b[0]) || len(ranges[i].Buf) != b[1]-b[0] {
			t.Errorf("%s: the caller's ranges were changed", what)
		}
	}
}

func randomBounds(r *rand.Rand, n int) [][2]int {
	bounds := make([][2]int, n)
	for i := range bounds {
		a, b := r.IntN(fileSize+1), r.IntN(fileSize+1)
		if r.IntN(2) == 0 { // mostly short ones
			b = min(a+r.IntN(3000), fileSize)
		}
		bounds[i] = [2]int{min(a, b), max(a, b)}
	}
	return bounds
}

func testRandomRanges(t *testing.T, s store.Store) {
	data := content(fileSize, 3)
	Put(t, s, "/f", data)
	f := Open(t, s, "/f")
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 30 {
		readAndCompare(t, f, fmt.Sprintf("draw %d", i), data, randomBounds(r, r.IntN(12)))
	}
}

var outside = map[string]store.Range{
	"negative offset":              {Off: -1, Buf: make([]byte, 1)},
	"smallest offset":              {Off: math.MinInt64, Buf: make([]byte, 1)},
	"negative offset, empty":       {Off: -1},
	"one past the end":             {Off: fileSize, Buf: make([]byte, 1)},
	"over the end":                 {Off: fileSize - 1, Buf: make([]byte, 2)},
	"far past the end":             {Off: 1 << 40, Buf: make([]byte, 1)},
	"past the end, empty":          {Off: fileSize + 1},
	"offset and length overflow":   {Off: math.MaxInt64, Buf: make([]byte, 10)},
	"largest offset without bytes": {Off: math.MaxInt64},
}

func testRangesOutside(t *testing.T, s store.Store) {
	Put(t, s, "/f", content(fileSize, 4))
	f := Open(t, s, "/f")
	for what, bad := range outside {
		err := f.ReadRanges(t.Context(), []store.Range{bad})
		wantError(t, what, err, store.ErrRange)
		wantClass(t, what, err, store.Permanent)
	}
}

func testRangesOutsideReadNothing(t *testing.T, s store.Store) {
	Put(t, s, "/f", content(fileSize, 5))
	f := Open(t, s, "/f")
	for what, bad := range outside {
		good := make([]byte, 100)
		wantError(t, what, f.ReadRanges(t.Context(), []store.Range{{Off: 10, Buf: good}, bad}), store.ErrRange)
		wantBytes(t, what+": the good range beside it", good, make([]byte, 100))
	}
}

func testConcurrentReaders(t *testing.T, s store.Store) {
	data := content(fileSize, 6)
	Put(t, s, "/f", data)
	shared := Open(t, s, "/f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			f := shared
			if i%2 == 0 {
				f = Open(t, s, "/f")
			}
			for range 10 {
				readAndCompare(t, f, fmt.Sprintf("reader %d", i), data, randomBounds(r, 4))
			}
		})
	}
	wg.Wait()
}

func testReadAfterRemove(t *testing.T, s store.Store) {
	data := content(fileSize, 7)
	Put(t, s, "/f", data)
	f := Open(t, s, "/f")
	if err := s.Remove(t.Context(), "/f"); err != nil {
		t.Fatal(err)
	}
	wantOldOrClass(t, f, data, store.NotFound)
}

func testReadAfterReplace(t *testing.T, s store.Store) {
	old := content(fileSize, 8)
	Put(t, s, "/f", old)
	Put(t, s, "/new", content(fileSize, 9))
	f := Open(t, s, "/f")
	id := f.Identity()
	if err := s.Rename(t.Context(), "/new", "/f"); err != nil {
		t.Fatal(err)
	}
	if f.Identity() != id || f.Size() != fileSize {
		t.Fatal("an open file took over the identity of its replacement")
	}
	info, err := s.Stat(t.Context(), "/f")
	if err != nil || info.Identity == id {
		t.Fatalf("Stat still shows the old identity %s: %v", info.Identity, err)
	}
	wantOldOrClass(t, f, old, store.IdentityChanged)
	wantBytes(t, "opened again", Get(t, s, "/f"), content(fileSize, 9))
}

// wantOldOrClass wants the bytes of the pinned version, or an error of the class; never other bytes.
func wantOldOrClass(t *testing.T, f store.File, old []byte, class store.Class) {
	t.Helper()
	buf := make([]byte, len(old))
	if err := f.ReadRanges(t.Context(), []store.Range{{Buf: buf}}); err != nil {
		wantClass(t, "reading the old version", err, class)
		return
	}
	wantBytes(t, "the old version", buf, old)
}

func testIdentity(t *testing.T, s store.Store) {
	Put(t, s, "/a", []byte("same"))
	Put(t, s, "/b", []byte("same"))
	a, _ := s.Stat(t.Context(), "/a")
	b, _ := s.Stat(t.Context(), "/b")
	if a.Identity == "" || a.Identity == b.Identity {
		t.Fatalf("two files have the identities %q and %q", a.Identity, b.Identity)
	}
	if got := Open(t, s, "/a").Identity(); got != a.Identity {
		t.Fatalf("Open says %q, Stat says %q", got, a.Identity)
	}
}

func testClosedFile(t *testing.T, s store.Store) {
	Put(t, s, "/f", []byte("content"))
	f := Open(t, s, "/f")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][]store.Range{nil, {{}}, {{Buf: make([]byte, 3)}}} {
		wantError(t, "reading a closed file", f.ReadRanges(t.Context(), r), fs.ErrClosed)
	}
	wantError(t, "closing it again", f.Close(), fs.ErrClosed)
}

func testCancelled(t *testing.T, s store.Store) {
	Put(t, s, "/d/f", content(fileSize, 10))
	ctx := cancelled()
	everyCall(ctx, s, "/d/f", func(op string, err error) {
		t.Helper()
		wantError(t, op, err, context.Canceled)
		wantClass(t, op, err, store.ClassUnknown)
	})
	w, err := s.Create(ctx, "/new")
	if err == nil {
		w.Abort()
	}
	wantError(t, "Create", err, context.Canceled)
	f := Open(t, s, "/d/f")
	wantError(t, "ReadRanges", f.ReadRanges(ctx, []store.Range{{Buf: make([]byte, fileSize)}}), context.Canceled)
	wantBytes(t, "the file after all this", Get(t, s, "/d/f"), content(fileSize, 10))
	wantNames(t, s, "/", "d/")
}

func testLocate(t *testing.T, s store.Store) {
	Put(t, s, "/f", content(fileSize, 11))
	for _, c := range [][2]int64{{0, fileSize}, {0, 1}, {fileSize - 1, 1}, {12345, 67890}, {fileSize / 2, fileSize / 2}} {
		rows, err := s.Locate(t.Context(), "/f", c[0], c[1])
		if err != nil {
			t.Fatalf("Locate %v: %v", c, err)
		}
		checkRows(t, rows, c[0], c[1])
		again, err := s.Locate(t.Context(), "/f", c[0], c[1])
		if err != nil || fmt.Sprint(again) != fmt.Sprint(rows) {
			t.Fatalf("Locate %v says %v, then %v, %v", c, rows, again, err)
		}
	}
	for _, off := range []int64{0, 5, fileSize} {
		if rows, err := s.Locate(t.Context(), "/f", off, 0); err != nil || len(rows) != 0 {
			t.Fatalf("Locate of nothing at %d: %v, %v", off, rows, err)
		}
	}
}

// checkRows wants sorted rows that cover the range without holes and stay inside the file, each node once a block.
func checkRows(t *testing.T, rows []store.Replica, off, n int64) {
	t.Helper()
	covered := off
	seen := map[store.Replica]bool{}
	for i, r := range rows {
		if r.Node == "" || r.Len <= 0 || r.Off < 0 || r.Off+r.Len > fileSize || seen[r] {
			t.Fatalf("row %d is %+v", i, r)
		}
		seen[r] = true
		if i > 0 && r.Off < rows[i-1].Off {
			t.Fatalf("rows %d and %d are not sorted: %+v", i-1, i, rows)
		}
		if r.Off > covered {
			t.Fatalf("hole from %d to %d", covered, r.Off)
		}
		if r.Off+r.Len <= off || r.Off >= off+n {
			t.Fatalf("row %+v does not touch [%d, %d)", r, off, off+n)
		}
		covered = max(covered, r.Off+r.Len)
	}
	if covered < off+n {
		t.Fatalf("[%d, %d) is covered up to %d only", off, off+n, covered)
	}
}

func testLocateOutside(t *testing.T, s store.Store) {
	Put(t, s, "/f", content(fileSize, 12))
	for _, c := range [][2]int64{{-1, 1}, {0, -1}, {fileSize, 1}, {0, fileSize + 1}, {math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, 0}} {
		_, err := s.Locate(t.Context(), "/f", c[0], c[1])
		wantError(t, fmt.Sprint("Locate ", c), err, store.ErrRange)
	}
}

func testReadReplica(t *testing.T, s store.Store) {
	data := content(fileSize, 13)
	Put(t, s, "/f", data)
	f, ok := Open(t, s, "/f").(store.ReplicaReader)
	if !ok {
		t.Skip("files cannot be read by replica")
	}
	if errors.Is(f.ReadReplica(t.Context(), "?", nil), errors.ErrUnsupported) {
		t.Skip("files cannot be read by replica")
	}
	rows, err := s.Locate(t.Context(), "/f", 0, fileSize)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		buf := make([]byte, r.Len)
		if err := f.ReadReplica(t.Context(), r.Node, []store.Range{{Off: r.Off, Buf: buf}}); err != nil {
			t.Fatalf("replica %+v: %v", r, err)
		}
		wantBytes(t, "replica on "+r.Node, buf, data[r.Off:r.Off+r.Len])
	}
	one := []store.Range{{Buf: make([]byte, 1)}}
	wantClass(t, "an unknown node", f.ReadReplica(t.Context(), "no-such-node", one), store.NotFound)
	wantError(t, "outside", f.ReadReplica(t.Context(), rows[0].Node, []store.Range{{Off: -1}}), store.ErrRange)
	wantError(t, "cancelled", f.ReadReplica(cancelled(), rows[0].Node, one), context.Canceled)
}

func testSetReplication(t *testing.T, s store.Store) {
	r, ok := s.(store.Replicator)
	if !ok {
		t.Skip("the store cannot change replication")
	}
	Put(t, s, "/d/f", content(1000, 14))
	err := r.SetReplication(t.Context(), "/d/f", 2)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the store cannot change replication")
	}
	for _, n := range []int{2, 2, 1, 100} {
		if err := r.SetReplication(t.Context(), "/d/f", n); err != nil {
			t.Fatalf("%d replicas: %v", n, err)
		}
	}
	wantClass(t, "0 replicas", r.SetReplication(t.Context(), "/d/f", 0), store.Permanent)
	wantClass(t, "a missing file", r.SetReplication(t.Context(), "/missing", 2), store.NotFound)
	wantClass(t, "a folder", r.SetReplication(t.Context(), "/d", 2), store.Permanent)
	wantError(t, "cancelled", r.SetReplication(cancelled(), "/d/f", 2), context.Canceled)
	wantNames(t, s, "/", "d/")
	wantNames(t, s, "/d", "f")
}

func testLocalPath(t *testing.T, s store.Store) {
	Put(t, s, "/d/f", content(1000, 15))
	l, ok := s.(store.Localizer)
	if !ok {
		t.Skip("the store has no local files")
	}
	path, ok := l.LocalPath("/d/f")
	if !ok {
		t.Skip("the store has no local files")
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "the local file", got, content(1000, 15))
	for _, bad := range []string{"/d/missing", "d/f", "/d/../d/f", ""} {
		if path, ok := l.LocalPath(bad); ok {
			t.Fatalf("LocalPath of %q is %s", bad, path)
		}
	}
}
