package foreign_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store/dir"
)

var writers = map[string]drafttest.Writer{"index": indexTold, "pack": packTold}

func TestMain(m *testing.M) {
	if !drafttest.Child(writers) {
		os.Exit(m.Run())
	}
}

// indexTold indexes the shards of a store.
func indexTold(root string, tell func()) error {
	return inStore(root, tell, func(src foreign.Source, o foreign.Options) error {
		_, err := foreign.Index(context.Background(), containers(foreign.Strict), src, "/"+drafttest.Set, o)
		return err
	})
}

// packTold packs them.
func packTold(root string, tell func()) error {
	return inStore(root, tell, func(src foreign.Source, o foreign.Options) error {
		p := foreign.PackOptions{Options: o, Sizes: draft.Sizes{Block: 1024, Bin: 10_000}}
		_, err := foreign.Pack(context.Background(), containers(foreign.Strict), src, src.Store, "/"+drafttest.Set, p)
		return err
	})
}

func inStore(root string, tell func(), write func(foreign.Source, foreign.Options) error) error {
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	src := foreign.Source{Store: drafttest.Told{Store: st, Tell: tell}, Names: []string{"/shards"}}
	return write(src, foreign.Options{Workers: 3, Progress: func(foreign.Progress) { tell() }})
}

// TestKilled: indexing containers, and packing them, compressed ones too, killed at any step, go on and end with the same bytes.
func TestKilled(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			_, root, _ := shards(t, 8)
			if name == "pack" {
				zip(t, filepath.Join(root, "shards", "003.tar"))
			}
			drafttest.Killed(t, name, root, write, 2, nil)
		})
	}
}

// zip compresses a shard.
func zip(t *testing.T, shard string) {
	t.Helper()
	data, err := os.ReadFile(shard)
	if err == nil {
		err = os.WriteFile(shard+".gz", compressed(t, "gz", data), 0o644)
	}
	if err == nil {
		err = os.Remove(shard)
	}
	if err != nil {
		t.Fatal(err)
	}
}
