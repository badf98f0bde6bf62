package draft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store/dir"
)

// TestReplaceKeepsForeign: replacing a dataset removes its own files and never what it points at.
func TestReplaceKeepsForeign(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	st, name, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, f := range []string{"shards/a.tar", "tokens.bin", "tokens.idx", "set/old.arrow", "set/.work/data/new.arrow"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest := strings.Repeat("ab", 32)
	bin := func(name, container, path string) binfmt.Bin {
		return binfmt.Bin{Name: name, UUID: digest[:32], IndexSHA256: digest, Samples: 1, Bytes: 1, Foreign: &binfmt.Foreign{Container: container, Path: path, Identity: "dir:1"}}
	}
	manifest := func(bins ...binfmt.Bin) *binfmt.Manifest {
		return &binfmt.Manifest{Format: binfmt.FormatForeign, Fields: []binfmt.Field{{Name: "image", Kind: binfmt.Media}}, Bins: bins}
	}
	old := manifest(bin("old", binfmt.Tar, "../shards/a.tar"), bin("tok", binfmt.Megatron, "../tokens.bin"))
	m := manifest(bin("new", binfmt.Tar, "../shards/a.tar"))
	d := Draft{Store: st, Dir: name + "set", Work: ".work"}
	if err := d.publish(ctx, m, old, false); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[string]bool{"shards/a.tar": true, "tokens.bin": true, "tokens.idx": true, "set/old.arrow": false, "set/new.arrow": true, "set/dataset.json": true, "set/.work": false} {
		if _, err := os.Stat(filepath.Join(root, f)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", f, err, want)
		}
	}
	if _, same, err := d.existing(ctx, m, false); !same || err != nil {
		t.Errorf("%t, %v", same, err)
	}
}

// TestAdvice: errors of the surroundings say what to do, and stay what they are.
func TestAdvice(t *testing.T) {
	st, _, err := dir.Open(t.TempDir(), dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := Draft{Store: st, Dir: "/set", Work: ".work"}
	for _, c := range []struct {
		is    error
		words string
	}{
		{syscall.ENOSPC, "make room and run the same command again"},
		{context.Canceled, "pack: interrupted: run the same command again"},
		{fs.ErrExist, "another process makes the same dataset"},
	} {
		err := d.Advise("pack", fmt.Errorf("write: %w", c.is))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), st.Root()+"/set/.work") {
			t.Errorf("%v: %v", c.is, err)
		}
	}
	if err := d.Advise("pack", fs.ErrNotExist); err != fs.ErrNotExist {
		t.Error(err)
	}
}
