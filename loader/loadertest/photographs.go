// Package loadertest makes datasets for tests and examples of loaders.
package loadertest

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"

	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/store/dir"
)

// Photographs packs three pictures of cats (label 0) and three of dogs (label 1) as the dataset "/photos" of a store of its own,
// which is gone after remove. It panics when it cannot, as examples have no test to fail.
func Photographs() (st *dir.Store, remove func()) {
	root, err := os.MkdirTemp("", "photographs")
	must(err)
	for i := range 6 {
		draw(filepath.Join(root, "pictures", []string{"cats", "dogs"}[i/3]), fmt.Sprintf("%d.png", i))
	}
	st, _, err = dir.Open(root, dir.Options{})
	must(err)
	_, err = pack.Pack(context.Background(), pack.Folder{Root: filepath.Join(root, "pictures")}, st, "/photos", pack.Options{})
	must(err)
	return st, func() { must(errors.Join(st.Close(), os.RemoveAll(root))) }
}

func draw(folder, name string) {
	must(os.MkdirAll(folder, 0o755))
	f, err := os.Create(filepath.Join(folder, name))
	must(err)
	must(errors.Join(png.Encode(f, image.NewRGBA(image.Rect(0, 0, 8, 8))), f.Close()))
}

func must(err error) {
	if err != nil {
		panic("loadertest: " + err.Error())
	}
}
