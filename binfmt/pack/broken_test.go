package pack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// hooked calls before every Create.
type hooked struct {
	store.Store
	create func(name string)
}

func (h hooked) Create(ctx context.Context, name string) (store.Writer, error) {
	h.create(name)
	return h.Store.Create(ctx, name)
}

// TestPackSourceChanges: between the passes, files vanish or change; the error names the file, and
// the next run packs what is there then.
func TestPackSourceChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(source string)
		says   []string
	}{
		"the folder vanishes": {func(s string) { os.RemoveAll(s) }, []string{"cat/0000.jpg", "vanished"}},
		"a file vanishes":     {func(s string) { os.Remove(filepath.Join(s, "dog/0004.jpg")) }, []string{"dog/0004.jpg", "vanished"}},
		"a file grows": {func(s string) {
			f, _ := os.OpenFile(filepath.Join(s, "dog/0004.jpg"), os.O_APPEND|os.O_WRONLY, 0)
			f.Write([]byte("more"))
			f.Close()
		}, []string{"dog/0004.jpg", "before", "changed"}},
		"a file changes unseen": {func(s string) {
			name := filepath.Join(s, "dog/0004.jpg")
			info, _ := os.Stat(name)
			f, _ := os.OpenFile(name, os.O_WRONLY, 0)
			f.WriteAt([]byte{0, 0, 0, 0}, 100)
			f.Close()
			os.Chtimes(name, info.ModTime(), info.ModTime())
		}, []string{"dog/0004.jpg", "CRC32C", "changed"}},
		"a large file changes unseen": {func(s string) {
			name := filepath.Join(s, "dog/large.jpg")
			info, _ := os.Stat(name)
			f, _ := os.OpenFile(name, os.O_WRONLY, 0)
			f.WriteAt([]byte{1}, streamAbove)
			f.Close()
			os.Chtimes(name, info.ModTime(), info.ModTime())
		}, []string{"dog/large.jpg", "CRC32C", "changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := photos(t, 12)
			put(t, source, "dog/large.jpg", append(picture(t, 9, 9, 3, false), make([]byte, streamAbove+10)...))
			inner, root := openDir(t)
			changed := false
			st := hooked{inner, func(name string) {
				if !changed && strings.HasSuffix(name, ".bin") {
					changed = true
					c.change(source)
				}
			}}
			_, err := Pack(context.Background(), Folder{Root: source}, st, "/set", Options{Workers: 1})
			if !errors.Is(err, ErrChanged) {
				t.Fatalf("error %v, want ErrChanged", err)
			}
			words(t, err, c.says...)
			for name := range drafttest.Tree(t, root) {
				if !strings.HasPrefix(name, "set/"+workDir) {
					t.Errorf("%s is there", name)
				}
			}
			if name == "the folder vanishes" {
				return
			}
			m := mustPack(t, Folder{Root: source}, st, Options{})
			readAll(t, m, root, source)
			clean(t, st)
		})
	}
}

// TestPackDiskFull: whenever the destination is full, the error says so and nothing has a final
// name; with room again, the same call goes on and gives the same bytes.
func TestPackDiskFull(t *testing.T) {
	source := photos(t, 30)
	want, wantRoot := openDir(t)
	o := Options{BinSize: 6_000, Workers: 2}
	mustPack(t, Folder{Root: source}, want, o)
	wantTree := drafttest.Tree(t, wantRoot)

	inner, root := openDir(t)
	full := 0
	for room := int64(0); ; room += 3_000 {
		var used atomic.Int64
		st := faulty{inner, func(_ string, p []byte) error {
			if used.Add(int64(len(p))) > room {
				return syscall.ENOSPC
			}
			return nil
		}}
		_, err := Pack(context.Background(), Folder{Root: source}, st, "/set", o)
		if err == nil {
			break
		}
		full++
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		words(t, err, "no space left", "run the same command again", "/set/.stepahead-pack")
		for name := range drafttest.Tree(t, root) {
			if !strings.HasPrefix(name, "set/"+workDir) {
				t.Fatalf("%s is there although packing failed", name)
			}
		}
	}
	if full < 3 {
		t.Fatalf("the disk was full %d times, want a few", full)
	}
	sameTree(t, drafttest.Tree(t, root), wantTree)
}

// TestPackDiskReallyFull packs onto a file system of 128 KiB.
func TestPackDiskReallyFull(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=128k"); err != nil {
		testdata.Missing(t, "root, for a small file system: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	source := photos(t, 300)
	st, _, err := dir.Open(small, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Pack(context.Background(), Folder{Root: source}, st, "/set", Options{BinSize: 20_000})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	words(t, err, "make room", "remove "+filepath.Join(small, "set", workDir))
	for name := range drafttest.Tree(t, small) {
		if !strings.HasPrefix(name, "set/"+workDir) {
			t.Errorf("%s is there", name)
		}
	}
	if err := syscall.Mount("", small, "", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	mustPack(t, Folder{Root: source}, st, Options{BinSize: 20_000})
	clean(t, st)
}

func TestPackCancelled(t *testing.T) {
	source := photos(t, 30)
	inner, root := openDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	st := hooked{inner, func(name string) {
		if strings.HasSuffix(name, ".bin") {
			cancel()
		}
	}}
	if _, err := Pack(ctx, Folder{Root: source}, st, "/set", Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	} else {
		words(t, err, "run the same command again")
	}
	if _, err := os.Stat(filepath.Join(root, "set", binfmt.ManifestName)); err == nil {
		t.Fatal("there is a manifest")
	}
	mustPack(t, Folder{Root: source}, inner, Options{})
	clean(t, inner)
}
