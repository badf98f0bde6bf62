package storetest

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/store"
)

// createParts skips the test where the store takes no parts.
func createParts(t *testing.T, s store.Store, name string) store.PartsWriter {
	t.Helper()
	w, err := store.CreateParts(t.Context(), s, name)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no parts here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abort() })
	return w
}

// pieces cuts data at random.
func pieces(r *rand.Rand, data []byte) (all [][]byte) {
	for len(data) > 0 {
		n := 1 + r.IntN(len(data))
		all = append(all, data[:n])
		data = data[n:]
	}
	return all
}

// testParts: parts of any length, in any order and at the same time, are the file.
func testParts(t *testing.T, s store.Store) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 100_000, 3_000_000} {
		data := content(n, uint64(n))
		w := createParts(t, s, "/d/f")
		var wg sync.WaitGroup
		spans := pieces(r, data)
		off := int64(0)
		offs := make([]int64, len(spans))
		for i, b := range spans {
			offs[i] = off
			off += int64(len(b))
		}
		for _, i := range r.Perm(len(spans)) {
			cut := pieces(r, spans[i])
			wg.Go(func() {
				if err := w.WritePart(t.Context(), offs[i], cut); err != nil {
					t.Errorf("part at %d: %v", offs[i], err)
				}
			})
		}
		wg.Wait()
		wantMissing(t, s, "/d/f")
		wantNames(t, s, "/d")
		if err := w.Close(); err != nil {
			t.Fatalf("%d bytes in %d parts: %v", n, len(spans), err)
		}
		wantBytes(t, "the parts", Get(t, s, "/d/f"), data)
		wantNames(t, s, "/d", "f")
		wantError(t, "WritePart after Close", w.WritePart(t.Context(), 0, nil), fs.ErrClosed)
		if err := w.Abort(); err != nil {
			t.Errorf("Abort after Close: %v", err)
		}
		if err := s.Remove(t.Context(), "/d/f"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), "/d"); err != nil {
		t.Errorf("something is left in the folder: %v", err)
	}
}

// testPartsRefused: holes and overlaps make no file, and nothing is left of one.
func testPartsRefused(t *testing.T, s store.Store) {
	for what, offs := range map[string][]int64{"a hole": {0, 200}, "an overlap": {0, 50}, "no beginning": {100}, "a part twice": {0, 0}} {
		w := createParts(t, s, "/d/f")
		for _, off := range offs {
			if err := w.WritePart(t.Context(), off, [][]byte{content(100, 1)}); err != nil {
				t.Fatalf("%s: part at %d: %v", what, off, err)
			}
		}
		wantError(t, what, w.Close(), fs.ErrInvalid)
		wantNames(t, s, "/d")
	}
	w := createParts(t, s, "/d/f")
	if err := w.WritePart(t.Context(), 0, [][]byte{content(100, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	w = createParts(t, s, "/d/g")
	if err := w.WritePart(cancelled(), 0, [][]byte{content(100, 1)}); err == nil {
		t.Error("a part was written after the end of its context")
	}
	if err := w.Close(); err == nil {
		t.Error("a file lacks a part")
	}
	if err := s.Remove(t.Context(), "/d"); err != nil {
		t.Errorf("something is left in the folder: %v", err)
	}
}

// testPartsAreExclusive: a name that exists is not taken, and one of two writers wins.
func testPartsAreExclusive(t *testing.T, s store.Store) {
	w := createParts(t, s, "/f")
	if err := w.WritePart(t.Context(), 0, [][]byte{content(100, 1)}); err != nil {
		t.Fatal(err)
	}
	if other, err := s.Create(t.Context(), "/f"); err == nil {
		other.Write([]byte("another"))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		wantError(t, "Close", w.Close(), fs.ErrExist)
		wantBytes(t, "the other's file", Get(t, s, "/f"), []byte("another"))
	} else {
		wantError(t, "Create", err, fs.ErrExist)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := store.CreateParts(t.Context(), s, "/f")
	wantError(t, "CreateParts of a name that exists", err, fs.ErrExist)
	wantNames(t, s, "/", "f")
}

// testClaim: a name is one holder's at a time, and is no file.
func testClaim(t *testing.T, s store.Store) {
	c, ok := s.(store.Claimer)
	if !ok {
		t.Skip("names cannot be held here")
	}
	held, err := c.Claim(t.Context(), "/d/f")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("names cannot be held here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Release() })
	_, err = c.Claim(t.Context(), "/d/f")
	wantError(t, "a second claim", err, fs.ErrExist)
	other, err := c.Claim(t.Context(), "/d/g")
	if err != nil {
		t.Fatalf("a claim of another name: %v", err)
	}
	wantNames(t, s, "/d")
	Put(t, s, "/d/f", []byte("a file of the same name"))
	if err := s.Remove(t.Context(), "/d/f"); err != nil {
		t.Fatal(err)
	}
	if err := held.Held(t.Context()); err != nil {
		t.Errorf("Held: %v", err)
	}
	for _, claim := range []store.Claim{held, held, other} {
		if err := claim.Release(); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	if err := held.Held(t.Context()); err == nil {
		t.Error("held after Release")
	}
	again, err := c.Claim(t.Context(), "/d/f")
	if err != nil {
		t.Fatalf("a claim after Release: %v", err)
	}
	if err := held.Held(t.Context()); err == nil {
		t.Error("another's claim is taken for one's own")
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "/d"); err != nil {
		t.Errorf("something is left in the folder: %v", err)
	}
}
