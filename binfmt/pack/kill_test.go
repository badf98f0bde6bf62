package pack

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/store/dir"
)

// packTold packs the photos in root.
func packTold(root string, tell func()) error {
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		return err
	}
	o := Options{Workers: 3, BinSize: 20_000, Progress: func(Progress) { tell() }}
	o.testing.chunk = 4
	_, err = Pack(context.Background(), Folder{Root: filepath.Join(root, "photos")}, drafttest.Told{Store: st, Tell: tell}, "/"+drafttest.Set, o)
	return err
}

// TestKilled: packing files, killed at any step, goes on and ends with the same bytes; what is published is whole.
func TestKilled(t *testing.T) {
	root := t.TempDir()
	photosIn(t, filepath.Join(root, "photos"), 60)
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	drafttest.Killed(t, "pack", root, packTold, 5, func() { clean(t, st) })
}
