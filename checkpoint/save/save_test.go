package save

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func newDir(t testing.TB) *dir.Store {
	t.Helper()
	s, _, err := dir.Open(t.TempDir(), dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inOrder is a store that takes no parts and holds no names.
type inOrder struct{ store.Store }

// small are limits under which a megabyte is many parts.
var small = Limits{Memory: 2 << 20, Parts: 3, PartSize: 300_000}

func write(t testing.TB, f *File, data []byte, r *rand.Rand) {
	t.Helper()
	for len(data) > 0 {
		n := min(1+r.IntN(400_000), len(data))
		if m, err := f.Write(data[:n]); m != n || err != nil {
			t.Fatalf("Write: %d of %d, %v", m, n, err)
		}
		data = data[n:]
	}
}

// TestSaves: whatever the limits and the store, files are what was written.
func TestSaves(t *testing.T) {
	for name, wrap := range map[string]func(store.Store) store.Store{
		"parts":    func(s store.Store) store.Store { return s },
		"in order": func(s store.Store) store.Store { return inOrder{s} },
	} {
		for _, limits := range []Limits{small, {Memory: chunk, Parts: 1, PartSize: chunk}, {Memory: 1 << 20, PartSize: 1 << 30}, {}} {
			t.Run(name, func(t *testing.T) {
				st := wrap(newDir(t))
				w, err := Begin(t.Context(), st, "/run/step-1", Options{Layout: TorchDCP(), Limits: limits})
				must(t, err)
				sizes := []int{0, 1, chunk - 1, chunk, chunk + 1, 299_999, 300_000, 300_001, 3_000_000}
				var wg sync.WaitGroup
				for i, n := range sizes {
					wg.Go(func() {
						f, err := w.Create(shard(i))
						must(t, err)
						write(t, f, random(n, uint64(i)), rand.New(rand.NewPCG(uint64(i), 1)))
						must(t, f.End())
					})
				}
				wg.Wait()
				saved, err := w.Wait(t.Context())
				must(t, err)
				if len(saved) != len(sizes) {
					t.Fatalf("%d files are stored, want %d", len(saved), len(sizes))
				}
				must(t, w.Commit(t.Context(), ".metadata", []byte("the marker"), saved...))
				for i, n := range sizes {
					if !bytes.Equal(storetest.Get(t, st, "/run/step-1/"+shard(i)), random(n, uint64(i))) {
						t.Errorf("file %d of %d bytes is another", i, n)
					}
				}
				if got := storetest.Get(t, st, "/run/step-1/.metadata"); string(got) != "the marker" {
					t.Errorf("the marker holds %q", got)
				}
				must(t, w.Abort(t.Context())) // does nothing
				if _, err := w.Create("more"); !errors.Is(err, fs.ErrClosed) {
					t.Errorf("Create after Commit: %v", err)
				}
			})
		}
	}
}

func shard(i int) string { return "__" + string(rune('0'+i)) + "_0.distcp" }

// TestOneGoroutineWritesManyFiles: all memory lies in parts that are not full, and nobody waits for ever.
func TestOneGoroutineWritesManyFiles(t *testing.T) {
	st := newDir(t)
	w, err := Begin(t.Context(), st, "/s", Options{Layout: TorchDCP(), Limits: Limits{Memory: 2 * chunk, Parts: 2, PartSize: 1 << 20}})
	must(t, err)
	files := make([]*File, 9)
	for i := range files {
		files[i], err = w.Create(shard(i))
		must(t, err)
	}
	data := random(700_000, 1)
	for at := 0; at < len(data); at += 50_000 {
		for _, f := range files {
			if _, err := f.Write(data[at : at+50_000]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range files {
		must(t, f.Close())
	}
	must(t, w.Commit(t.Context(), ".metadata", nil))
	for i := range files {
		if !bytes.Equal(storetest.Get(t, st, "/s/"+shard(i)), data) {
			t.Errorf("file %d is another", i)
		}
	}
}

func TestFileOfItsOwn(t *testing.T) {
	st := newDir(t)
	data := random(1_000_000, 3)
	f, err := Create(t.Context(), st, "/d/f", small)
	must(t, err)
	write(t, f, data, rand.New(rand.NewPCG(1, 1)))
	if _, err := st.Stat(t.Context(), "/d/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is visible before Close: %v", err)
	}
	must(t, f.Close())
	if !bytes.Equal(storetest.Get(t, st, "/d/f"), data) {
		t.Error("another content")
	}
	f, err = Create(t.Context(), st, "/d/f", small)
	must(t, err)
	if err := f.Close(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a file: %v", err)
	}
	storetest.Put(t, st, beside("/d/f"), []byte("left by a killed process"))
	storetest.Put(t, st, "/d/f.new", []byte("somebody's own"))
	f, err = Replace(t.Context(), st, "/d/f", small)
	must(t, err)
	write(t, f, data[1:], rand.New(rand.NewPCG(1, 1)))
	if !bytes.Equal(storetest.Get(t, st, "/d/f"), data) {
		t.Error("replaced before Close")
	}
	must(t, f.Close())
	if !bytes.Equal(storetest.Get(t, st, "/d/f"), data[1:]) {
		t.Error("not replaced")
	}
	f, err = Replace(t.Context(), st, "/d/f", small)
	must(t, err)
	write(t, f, data, rand.New(rand.NewPCG(1, 1)))
	must(t, f.Abort())
	if _, err := f.Write(nil); err != nil {
		t.Errorf("an empty Write: %v", err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) && !errors.Is(err, ErrAborted) {
		t.Errorf("Write after Abort: %v", err)
	}
	infos, err := st.List(t.Context(), "/d")
	must(t, err)
	if len(infos) != 2 || path.Base(infos[0].Name) != "f" || path.Base(infos[1].Name) != "f.new" {
		t.Errorf("in the folder: %v", infos)
	}
}
