package loader

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler/megatron"
	"github.com/stepahead-io/stepahead/sampler/tokens"
	"github.com/stepahead-io/stepahead/store/dir"
)

// indexes are the paths of a store's index files, and of copies in the cache. They get a time that no later write gives them, however coarse
// the file system's clock is.
func indexes(t testing.TB, root string) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*/*.arrow", "*.idx", "cache/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		must(t, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	return paths
}

// plain makes the kit's store one whose files are read as they are, not those of simulated nodes.
func (k *kit) plain(t testing.TB) {
	t.Helper()
	must(t, os.Remove(filepath.Join(k.root, ".stepahead/store.json")))
	var err error
	k.store, _, err = dir.Open(k.root, dir.Options{})
	must(t, err)
}

// inPlace are ways to spoil a file that is in use.
var inPlace = map[string]func(path string, size int) error{
	"cut": func(path string, _ int) error { return os.Truncate(path, 100) },
	"zeros": func(path string, size int) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, size))
		return errors.Join(err, f.Close())
	},
	"rewritten": func(path string, size int) error { return os.WriteFile(path, make([]byte, size), 0o644) },
}

// spoil has change spoil files, and returns what puts them back.
func spoil(t testing.TB, paths []string, change func(path string, size int) error) (restore func()) {
	t.Helper()
	was := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, change(path, len(data)))
		was[path] = data
	}
	return func() {
		for path, data := range was {
			must(t, os.WriteFile(path, data, 0o644))
		}
	}
}

// TestIndexChangedUnderALoader: indexes that are cut or written to in place in the middle of a run stop it with an error that names one of them,
// again and again; every batch before it is the right one. With the files put back each index stops it once more at most, and then the run goes
// on with the right batches.
func TestIndexChangedUnderALoader(t *testing.T) {
	const steps = 24
	for _, kind := range []string{"data", "cached", "tars", "files", "union", "balanced"} {
		for name, change := range inPlace {
			k := newKit(t, 40, 10, nil)
			if kind != "cached" {
				k.plain(t)
			}
			o := k.options(t)
			switch kind {
			case "tars", "files":
				k.inTars(t)
				k.asFiles(t)
				o.Dir, o.Fields = "/"+kind, []string{"image"}
			case "union":
				k.beside(t, "other", 30, 1)
				o = k.options(t)
			case "balanced":
				o.Balance = "cost"
			}
			o.Prefetch = 2
			want := strings.Fields(contents(t, mustOpen(t, o), steps))
			paths := indexes(t, k.root)
			l := mustOpen(t, o)
			if got := strings.Fields(contents(t, l, 2)); !slices.Equal(got, want[:2]) {
				t.Fatalf("%s: %v, want %v", kind, got, want[:2])
			}
			restore := spoil(t, paths, change)
			at := 2
			for range 3 {
				at += stopped(t, l, want[at:], paths, kind+", "+name)
			}
			if at == len(want) {
				t.Fatalf("%s, %s: nothing stopped it", kind, name)
			}
			restore()
			for range paths {
				at += stopped(t, l, want[at:], paths, kind+", "+name)
			}
			if at < len(want) {
				t.Errorf("%s, %s: it stopped at step %d of %d", kind, name, at, len(want))
			}
		}
	}
}

// stopped takes batches, which must be those of want, to the last of them or until one fails because of an index that changed.
func stopped(t *testing.T, l *Loader, want, paths []string, what string) (taken int) {
	t.Helper()
	for ; taken < len(want); taken++ {
		got, err := nextDigest(t, l)
		if err == nil && got == want[taken] {
			continue
		}
		var changed *binfmt.ChangedError
		if !errors.As(err, &changed) || !slices.Contains(paths, changed.Name) || !strings.Contains(err.Error(), "identity changed: "+changed.Name) || strings.Contains(err.Error(), "nil pointer") {
			t.Fatalf("%s: after %d batches: %q, %v, want that an index changed", what, taken, got, err)
		}
		return taken
	}
	return taken
}

// TestIndexReplacedUnderALoader: a run goes on with the indexes it opened when other files get their names.
func TestIndexReplacedUnderALoader(t *testing.T) {
	k := newKit(t, 40, 10, nil)
	k.plain(t)
	o := k.options(t)
	o.Prefetch = 2
	want, paths := contents(t, mustOpen(t, o), 24), indexes(t, k.root)
	l := mustOpen(t, o)
	got := contents(t, l, 5) // every bin was used
	for _, path := range paths {
		must(t, os.WriteFile(path+".new", make([]byte, 1000), 0o644))
		rename(t, path+".new", path)
	}
	if got += contents(t, l, 19); got != want {
		t.Errorf("the run went on with %s, want %s", got, want)
	}
}

// TestTokenIndexAfterOpening: a run of tokens needs its indexes only to begin.
func TestTokenIndexAfterOpening(t *testing.T) {
	all := map[string]TokenOptions{"megatron": {SequenceLength: 9, Megatron: &MegatronOptions{Part: megatron.Train, Samples: 60, Seed: 5}}}
	for _, packing := range []string{tokens.Windows, tokens.Chunk, tokens.BestFit} {
		all[packing] = TokenOptions{SequenceLength: 9, Packing: packing}
	}
	for name, order := range all {
		for how, change := range inPlace {
			k := newTokenKit(t, "uint16", []int64{30, 0, 7, 55, 12}, []int64{44, 3, 3, 90})
			paths := indexes(t, k.root)
			want := contents(t, mustOpen(t, k.options(order, 4)), 8)
			l := mustOpen(t, k.options(order, 4))
			spoil(t, paths, change)
			if got := contents(t, l, 8); got != want {
				t.Errorf("%s, %s: %s, want %s", name, how, got, want)
			}
		}
	}
}
