package pack

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

func TestMain(m *testing.M) {
	if drafttest.Child(map[string]drafttest.Writer{"pack": packTold}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// picture makes a small encoded picture that differs for every seed.
func picture(t testing.TB, w, h, seed int, asPNG bool) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{uint8(x*7 + seed), uint8(y*5 + seed*3), uint8(seed * 11), 255})
		}
	}
	var b bytes.Buffer
	var err error
	if asPNG {
		err = png.Encode(&b, img)
	} else {
		err = jpeg.Encode(&b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put writes a file and its folders.
func put(t testing.TB, root, name string, data []byte) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// photos makes a folder with n pictures in three classes, and returns it.
func photos(t testing.TB, n int) string {
	t.Helper()
	root := t.TempDir()
	photosIn(t, root, n)
	return root
}

func photosIn(t testing.TB, root string, n int) {
	t.Helper()
	for i := range n {
		put(t, root, fmt.Sprintf("%s/%04d.jpg", []string{"cat", "dog", "eel"}[i%3], i), picture(t, 20+i%9, 16, i, i%4 == 3))
	}
}

// openDir opens a new folder as a store.
func openDir(t testing.TB) (*dir.Store, string) {
	t.Helper()
	root := t.TempDir()
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st, root
}

// mustPack packs and returns the manifest.
func mustPack(t testing.TB, src Source, st store.Store, o Options) *binfmt.Manifest {
	t.Helper()
	m, err := Pack(context.Background(), src, st, "/set", o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameTree compares two folders byte by byte.
func sameTree(t testing.TB, got, want map[string]string) {
	t.Helper()
	if g, w := drafttest.Names(got), drafttest.Names(want); !slices.Equal(g, w) {
		t.Fatalf("files:\n got %q\nwant %q", g, w)
	}
	for name := range want {
		if got[name] != want[name] {
			t.Fatalf("%s differs", name)
		}
	}
}

// findings verifies and returns what was found.
func findings(t testing.TB, st store.Store) []Finding {
	t.Helper()
	var all []Finding
	checked, err := Verify(context.Background(), st, "/set", VerifyOptions{}, func(f Finding) { all = append(all, f) })
	if err != nil {
		t.Fatal(err)
	}
	if checked.Findings != int64(len(all)) {
		t.Fatalf("%d findings counted, %d reported", checked.Findings, len(all))
	}
	return all
}

func clean(t testing.TB, st store.Store) {
	t.Helper()
	if all := findings(t, st); len(all) > 0 {
		t.Fatalf("findings in a good dataset: %v", all)
	}
}

// words fails unless err says all of the words.
func words(t testing.TB, err error, all ...string) {
	t.Helper()
	for _, w := range all {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Fatalf("error %v, want one that says %q", err, w)
		}
	}
}

// remote hides that a store's files are local ones.
type remote struct{ store.Store }

// faulty lets a test break writes.
type faulty struct {
	store.Store
	write func(name string, p []byte) error
}

func (f faulty) Create(ctx context.Context, name string) (store.Writer, error) {
	w, err := f.Store.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return faultyWriter{w, name, f.write}, nil
}

type faultyWriter struct {
	store.Writer
	name  string
	write func(name string, p []byte) error
}

func (w faultyWriter) Write(p []byte) (int, error) {
	if err := w.write(w.name, p); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

var _ io.Writer = faultyWriter{}
