package storetest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// everyCall calls each method with a name, and gives each error to check.
func everyCall(ctx context.Context, s store.Store, name string, check func(op string, err error)) {
	f, err := s.Open(ctx, name)
	if err == nil {
		f.Close()
	}
	check("Open", err)
	_, err = s.Stat(ctx, name)
	check("Stat", err)
	_, err = s.List(ctx, name)
	check("List", err)
	check("Rename from", s.Rename(ctx, name, "/other"))
	check("Remove", s.Remove(ctx, name))
	_, err = s.Locate(ctx, name, 0, 0)
	check("Locate", err)
}

func testNames(t *testing.T, s store.Store) {
	Put(t, s, "/a/b", []byte("b"))
	bad := []string{
		"", ".", "a", "a/b", "./a/b", "../a/b", "/a/../a/b", "/..", "/a/b/..", "/a//b", "//a/b", "/a/b/", "/a/./b",
		"/a/b\x00", "/a\x00/b", `C:\a`, "/" + strings.Repeat("n", 5000),
	}
	for _, name := range bad {
		everyCall(t.Context(), s, name, func(op string, err error) {
			t.Helper()
			wantError(t, op+" "+name[:min(len(name), 20)], err, store.ErrName)
			wantClass(t, op, err, store.Permanent)
		})
		w, err := s.Create(t.Context(), name)
		if err == nil {
			w.Abort()
		}
		wantError(t, "Create", err, store.ErrName)
		wantError(t, "Rename to", s.Rename(t.Context(), "/a/b", name), store.ErrName)
	}
	wantBytes(t, "the file after all this", Get(t, s, "/a/b"), []byte("b"))
}

func testNotFound(t *testing.T, s store.Store) {
	Put(t, s, "/there", nil)
	for _, name := range []string{"/missing", "/missing/deeper"} {
		everyCall(t.Context(), s, name, func(op string, err error) {
			t.Helper()
			wantError(t, op+" "+name, err, fs.ErrNotExist)
			wantClass(t, op+" "+name, err, store.NotFound)
			if !strings.Contains(err.Error(), s.Address(name)) {
				t.Fatalf("%s: %v, want %s in it", op, err, s.Address(name))
			}
		})
	}
	wantClass(t, "Rename to a missing folder", s.Rename(t.Context(), "/there", "/missing/there"), store.NotFound)
	wantNames(t, s, "/", "there")
}

func testCreateThenRead(t *testing.T, s store.Store) {
	data := content(300_000, 1)
	w, err := s.Create(t.Context(), "/deep/er/file.bin")
	if err != nil {
		t.Fatal(err)
	}
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 70_001)
		piece := append([]byte(nil), rest[:n]...)
		if got, err := w.Write(piece); got != n || err != nil {
			t.Fatalf("Write: %d of %d, %v", got, n, err)
		}
		clear(piece) // the writer must not keep it
		rest = rest[n:]
	}
	if n, err := w.Write(nil); n != 0 || err != nil {
		t.Fatalf("Write of nothing: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "content", Get(t, s, "/deep/er/file.bin"), data)
	info, err := s.Stat(t.Context(), "/deep/er/file.bin")
	if err != nil || info.Name != "/deep/er/file.bin" || info.Size != int64(len(data)) || info.Dir || info.Identity == "" || info.ModTime.IsZero() {
		t.Fatalf("Stat: %+v, %v", info, err)
	}
}

func testEmptyFile(t *testing.T, s store.Store) {
	Put(t, s, "/empty", nil)
	f := Open(t, s, "/empty")
	if f.Size() != 0 {
		t.Fatalf("size %d", f.Size())
	}
	if err := f.ReadRanges(t.Context(), []store.Range{{}, {Off: 0, Buf: []byte{}}}); err != nil {
		t.Fatalf("reading nothing: %v", err)
	}
	wantError(t, "one byte", f.ReadRanges(t.Context(), []store.Range{{Buf: make([]byte, 1)}}), store.ErrRange)
	rows, err := s.Locate(t.Context(), "/empty", 0, 0)
	if err != nil || len(rows) != 0 {
		t.Fatalf("Locate: %v, %v", rows, err)
	}
}

func testCreateIsExclusive(t *testing.T, s store.Store) {
	Put(t, s, "/a/f", []byte("first"))
	for _, name := range []string{"/a/f", "/a", "/"} {
		w, err := s.Create(t.Context(), name)
		if err == nil {
			err = errors.Join(w.Close(), w.Abort())
		}
		wantError(t, "Create "+name, err, fs.ErrExist)
		wantClass(t, "Create "+name, err, store.Permanent)
	}
	wantBytes(t, "the first file", Get(t, s, "/a/f"), []byte("first"))
	w, err := s.Create(t.Context(), "/a/f/below")
	if err == nil {
		w.Abort()
		t.Fatal("a file was created below a file")
	}
}

func testOneCreatorWins(t *testing.T, s store.Store) {
	const writers = 8
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			w, err := s.Create(t.Context(), "/race")
			if err == nil {
				defer w.Abort()
				if _, err = w.Write(content(1000, uint64(i))); err == nil {
					err = w.Close()
				}
			}
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, fs.ErrExist) {
				t.Errorf("a creator that lost got %v, want fs.ErrExist", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d of %d creators won, want 1", won.Load(), writers)
	}
	if n := len(Get(t, s, "/race")); n != 1000 {
		t.Fatalf("the file has %d bytes, want 1000", n)
	}
	wantNames(t, s, "/", "race")
}

func testInvisibleUntilClosed(t *testing.T, s store.Store) {
	w, err := s.Create(t.Context(), "/d/f")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	w.Write([]byte("half"))
	wantMissing(t, s, "/d/f")
	wantNames(t, s, "/d")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantNames(t, s, "/d", "f")
}

func testAbort(t *testing.T, s store.Store) {
	w, err := s.Create(t.Context(), "/d/f")
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("half"))
	if err := w.Abort(); err != nil {
		t.Fatalf("Abort: %v", err)
	}
	wantMissing(t, s, "/d/f")
	wantNames(t, s, "/d")
	if err := s.Remove(t.Context(), "/d"); err != nil {
		t.Fatalf("the folder is not empty after Abort: %v", err)
	}
	Put(t, s, "/d/f", []byte("new")) // the name is free again
}

func testWriterAfterItsEnd(t *testing.T, s store.Store) {
	for _, end := range []string{"Close", "Abort"} {
		w, err := s.Create(t.Context(), "/"+end)
		if err != nil {
			t.Fatal(err)
		}
		if end == "Close" {
			err = w.Close()
		} else {
			err = w.Abort()
		}
		if err != nil {
			t.Fatalf("%s: %v", end, err)
		}
		_, err = w.Write([]byte("x"))
		wantError(t, "Write after "+end, err, fs.ErrClosed)
		wantError(t, "Close after "+end, w.Close(), fs.ErrClosed)
		if err := w.Abort(); err != nil {
			t.Fatalf("Abort after %s: %v", end, err)
		}
	}
	wantNames(t, s, "/", "Close")
}

func testCancelledWriter(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := s.Create(ctx, "/d/f")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = w.Write([]byte("x"))
	wantError(t, "Write", err, context.Canceled)
	wantError(t, "Close", w.Close(), context.Canceled)
	wantNames(t, s, "/d")
}

func testList(t *testing.T, s store.Store) {
	wantNames(t, s, "/")
	for _, name := range []string{"/d/b", "/d/a", "/d/B", "/d/a0", "/d/sub/x", "/d/a.b", "/d-e"} {
		Put(t, s, name, []byte(name))
	}
	wantNames(t, s, "/d", "B", "a", "a.b", "a0", "b", "sub/")
	wantNames(t, s, "/", "d/", "d-e")
	infos, err := s.List(t.Context(), "/d")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		again, err := s.Stat(t.Context(), i.Name)
		if err != nil || again != i {
			t.Fatalf("List says %+v, Stat says %+v, %v", i, again, err)
		}
	}
	if _, err := s.List(t.Context(), "/d/a"); err == nil {
		t.Fatal("List of a file gave no error")
	}
}

func testOddNames(t *testing.T, s store.Store) {
	odd := []string{"new\nline", `back\slash`, "spa ce", "*?[x]", "ünï", "\"quote\"", "-dash", "..x", "...", "%2e%2e", "file:x"}
	if w, err := s.Create(t.Context(), "/odd/file:x"); errors.Is(err, store.ErrName) { // HDFS has no colons in names
		odd = slices.DeleteFunc(odd, func(name string) bool { return strings.Contains(name, ":") })
	} else if err == nil {
		w.Abort()
	}
	for _, name := range odd {
		Put(t, s, "/odd/"+name, []byte(name))
	}
	for _, name := range odd {
		wantBytes(t, name, Get(t, s, "/odd/"+name), []byte(name))
	}
	if got := names(t, s, "/odd"); len(got) != len(odd) {
		t.Fatalf("List: %q, want the %d names %q", got, len(odd), odd)
	}
}

func testRename(t *testing.T, s store.Store) {
	Put(t, s, "/d/from", []byte("new"))
	Put(t, s, "/e/to", []byte("old"))
	before, _ := s.Stat(t.Context(), "/d/from")
	if err := s.Rename(t.Context(), "/d/from", "/e/to"); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, s, "/d/from")
	wantBytes(t, "the replaced file", Get(t, s, "/e/to"), []byte("new"))
	if after, _ := s.Stat(t.Context(), "/e/to"); after.Identity != before.Identity {
		t.Fatalf("a rename changed the identity from %s to %s", before.Identity, after.Identity)
	}
	if err := s.Rename(t.Context(), "/e/to", "/e/to"); err != nil {
		t.Fatalf("a file onto itself: %v", err)
	}
	if err := s.Rename(t.Context(), "/e", "/d/e"); err != nil {
		t.Fatalf("a folder: %v", err)
	}
	wantBytes(t, "the file in the moved folder", Get(t, s, "/d/e/to"), []byte("new"))
}

func testRenameRefused(t *testing.T, s store.Store) {
	Put(t, s, "/f", []byte("f"))
	Put(t, s, "/d/x", []byte("x"))
	w, err := s.Create(t.Context(), "/empty/gone")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"/f", "/d"}, {"/d", "/empty"}, {"/d", "/f"}, {"/d", "/d/deeper"}, {"/", "/r"}, {"/f", "/"}} {
		if err := s.Rename(t.Context(), c[0], c[1]); err == nil {
			t.Fatalf("Rename %s to %s gave no error", c[0], c[1])
		}
	}
	wantBytes(t, "/f", Get(t, s, "/f"), []byte("f"))
	wantBytes(t, "/d/x", Get(t, s, "/d/x"), []byte("x"))
}

func testRemove(t *testing.T, s store.Store) {
	Put(t, s, "/d/f", []byte("f"))
	if err := s.Remove(t.Context(), "/d"); err == nil {
		t.Fatal("a folder that is not empty was removed")
	}
	if err := s.Remove(t.Context(), "/"); err == nil {
		t.Fatal("the root was removed")
	}
	for _, name := range []string{"/d/f", "/d"} {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatalf("Remove %s: %v", name, err)
		}
		wantMissing(t, s, name)
		wantError(t, "Remove again", s.Remove(t.Context(), name), fs.ErrNotExist)
	}
	wantNames(t, s, "/")
}

func testFileIsNoFolder(t *testing.T, s store.Store) {
	Put(t, s, "/d/f", []byte("f"))
	for _, name := range []string{"/d/f", "/d/f/deeper"} {
		_, err := s.List(t.Context(), name)
		if name == "/d/f" {
			wantError(t, "List "+name, err, syscall.ENOTDIR)
		}
		if err == nil {
			t.Errorf("List %s: no error", name)
		}
	}
}

func testMakeFolder(t *testing.T, s store.Store) {
	m, ok := s.(store.FolderMaker)
	if !ok {
		t.Skip("the store makes no empty folders")
	}
	Put(t, s, "/d/f", []byte("f"))
	for _, name := range []string{"/a/b/c", "/a/b/c", "/d", "/"} {
		err := m.MakeFolder(t.Context(), name)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("the store makes no empty folders")
		}
		if err != nil {
			t.Fatalf("MakeFolder %s: %v", name, err)
		}
		if info, err := s.Stat(t.Context(), name); err != nil || !info.Dir {
			t.Fatalf("%s: %+v, %v", name, info, err)
		}
	}
	wantNames(t, s, "/a/b", "c/")
	wantNames(t, s, "/a/b/c")
	wantNames(t, s, "/d", "f")
	for _, name := range []string{"/d/f", "/d/f/deeper"} {
		wantClass(t, "MakeFolder "+name, m.MakeFolder(t.Context(), name), store.Permanent)
	}
	wantError(t, "a bad name", m.MakeFolder(t.Context(), "/a/../b"), store.ErrName)
}

func testFolderIsNoFile(t *testing.T, s store.Store) {
	Put(t, s, "/d/f", []byte("f"))
	for _, name := range []string{"/d", "/"} {
		f, err := s.Open(t.Context(), name)
		if err == nil {
			f.Close()
		}
		wantClass(t, "Open "+name, err, store.Permanent)
		_, err = s.Locate(t.Context(), name, 0, 0)
		wantClass(t, "Locate "+name, err, store.Permanent)
		info, err := s.Stat(t.Context(), name)
		if err != nil || !info.Dir || info.Size != 0 || info.Identity != "" || info.Name != name {
			t.Fatalf("Stat %s: %+v, %v", name, info, err)
		}
	}
}
