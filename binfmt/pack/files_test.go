package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepahead-io/stepahead/binfmt/draft"
	"github.com/stepahead-io/stepahead/binfmt/draft/drafttest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// elsewhere is a store that is not this machine's: it counts what is asked of it, and can be changed under way.
type elsewhere struct {
	store.Store
	root string

	mu                 sync.Mutex
	opens              map[string]int
	stats, many, ahead int
	before             func(name string, nth int) // an open
}

func newElsewhere(t testing.TB, root string) *elsewhere {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &elsewhere{Store: st, root: root, opens: map[string]int{}, before: func(string, int) {}}
}

func (r *elsewhere) Open(ctx context.Context, name string) (store.File, error) {
	r.mu.Lock()
	r.opens[name]++
	nth := r.opens[name]
	r.mu.Unlock()
	r.before(name, nth)
	return r.Store.Open(ctx, name)
}

func (r *elsewhere) Stat(ctx context.Context, name string) (store.Info, error) {
	r.mu.Lock()
	r.stats++
	r.mu.Unlock()
	return r.Store.Stat(ctx, name)
}

func (r *elsewhere) Prefetch(_ context.Context, names []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += len(names)
	return errors.New("must not matter")
}

func (r *elsewhere) Forget([]string) {}

func (r *elsewhere) ReadMany(ctx context.Context, files []store.FileRanges) error {
	r.mu.Lock()
	if len(files) > 1 {
		r.many++
	}
	r.mu.Unlock()
	return store.ReadMany(ctx, r.Store, files)
}

// TestPackFromAStore: a folder gives the same dataset, to the bit, from this machine and from a store, which is
// asked for many small files at once.
func TestPackFromAStore(t *testing.T) {
	root := photos(t, 150)
	put(t, root, "cat/large.gif", append([]byte("GIF89a"), bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, streamAbove/4)...))
	put(t, root, "dog/deep/er.gif", []byte("GIF89a deeper"))
	put(t, root, ".hidden/x.gif", []byte("GIF89a no"))
	var report Report
	local, localRoot := openDir(t)
	want := mustPack(t, Folder{Root: root}, local, Options{BlockSize: 8 << 20, Report: &report})
	from := newElsewhere(t, root)
	to, toRoot := openDir(t)
	var remotely Report
	got := mustPack(t, Folder{Store: from, Root: "/"}, to, Options{BlockSize: 8 << 20, Report: &remotely})
	if got.Identity() != want.Identity() || report.Hidden != remotely.Hidden || got.Samples() != 152 {
		t.Errorf("%+v, hidden %d, want %+v, hidden %d", got, remotely.Hidden, want, report.Hidden)
	}
	if a, b := drafttest.Tree(t, localRoot), drafttest.Tree(t, toRoot); !drafttest.Same(a, b) {
		t.Errorf("%v, want %v", drafttest.Names(b), drafttest.Names(a))
	}
	if from.stats != 1 || from.many < 2 || from.many > 4 || from.ahead < 2*152 {
		t.Errorf("%d stats, %d reads of many files, %d names ahead", from.stats, from.many, from.ahead)
	}
	for name, n := range from.opens {
		if n != 2 {
			t.Errorf("%s was opened %d times", name, n)
		}
	}
}

func TestPackListFromAStore(t *testing.T) {
	root := photos(t, 9)
	put(t, root, "lists/two.csv", []byte("path,n\n../cat/0000.jpg,1\n/dog/0001.jpg,2\n"))
	from := newElsewhere(t, root)
	to, _ := openDir(t)
	m := mustPack(t, List{Store: from, Path: "/lists/two.csv"}, to, Options{})
	if m.Samples() != 2 || len(m.Fields) != 2 {
		t.Errorf("%+v", m)
	}
	put(t, root, "lists/bad.csv", []byte("path\n../cat/0000.jpg\n../cat\n"))
	_, err := Pack(t.Context(), List{Store: from, Path: "/lists/bad.csv"}, to, "/bad", Options{})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), `line 3: "`+root+`/cat": a folder`) {
		t.Errorf("a folder in a list: %v", err)
	}
	put(t, root, "lists/gone.csv", []byte("path\n../cat/none.jpg\n"))
	if _, err := Pack(t.Context(), List{Store: from, Path: "/lists/gone.csv"}, to, "/gone", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Pack(t.Context(), List{Store: from, Path: "/lists/none.csv"}, to, "/none", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no list: %v", err)
	}
}

// TestSourceInAStoreChanges: what changes between listing, first and second reading is an error that says so.
func TestSourceInAStoreChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed":   os.Remove,
		"cut":       func(p string) error { return os.Truncate(p, 3) },
		"rewritten": func(p string) error { return os.WriteFile(p, []byte("GIF89a other"), 0o644) },
	} {
		for _, nth := range []int{1, 2} {
			if name == "rewritten" && nth == 1 {
				continue // of the same size: the first reading is the first look
			}
			t.Run(fmt.Sprintf("%s before reading %d", name, nth), func(t *testing.T) {
				root := t.TempDir()
				for i := range 5 {
					put(t, root, fmt.Sprintf("%d.gif", i), []byte("GIF89a first"))
				}
				from := newElsewhere(t, root)
				from.before = func(name string, n int) {
					if name == "/3.gif" && n == nth {
						if err := change(filepath.Join(root, name)); err != nil {
							t.Error(err)
						}
					}
				}
				to, _ := openDir(t)
				_, err := Pack(t.Context(), Folder{Store: from, Root: "/"}, to, "/set", Options{})
				if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "/3.gif") {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestPackFromAStoreGoesOn: after a failure nothing is scanned again.
func TestPackFromAStoreGoesOn(t *testing.T) {
	from := newElsewhere(t, photos(t, 30))
	inner, _ := openDir(t)
	faults, err := store.ParseFaults("fail(op=create, path=*.bin)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), Folder{Store: from, Root: "/"}, store.Faults(inner, faults), "/set", Options{}); err == nil {
		t.Fatal("no failure")
	}
	once := len(from.opens)
	mustPack(t, Folder{Store: from, Root: "/"}, inner, Options{})
	total := 0
	for _, n := range from.opens {
		total += n
	}
	if once != 30 || total != 60 {
		t.Errorf("%d files opened before the failure, %d opens in all", once, total)
	}
}

func TestStoreFolderRefused(t *testing.T) {
	root := photos(t, 3)
	st, _ := openDir(t)
	for name, want := range map[string]error{"/cat/0000.jpg": ErrSource, "/none": fs.ErrNotExist} {
		if _, err := (Folder{Store: newElsewhere(t, root), Root: name}).List(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Folder{Store: st, Root: "/"}).List(t.Context()); !errors.Is(err, ErrSource) {
		t.Error("an empty folder was listed")
	}
}

// One file more than a source may have is refused while it is listed, wherever it is listed; hidden ones do not count.
func TestTooManyFiles(t *testing.T) {
	root := photos(t, 4)
	put(t, root, "cat/.hidden.jpg", nil)
	lists := map[string]func(most int) error{
		"a folder": func(most int) error {
			_, err := Folder{Root: root}.walk(t.Context(), &Listing{most: most})
			return err
		},
		"a folder in a store": func(most int) error {
			_, err := Folder{Store: newElsewhere(t, root), Root: "/"}.walkStore(t.Context(), &Listing{most: most})
			return err
		},
		"a CSV list": func(most int) error {
			return readCSV(strings.NewReader("path\na\nb\nc\nd\n"), &table{ctx: t.Context(), pathColumn: "path", found: &Listing{most: most}})
		},
		"a JSON list": func(most int) error {
			return readJSONL(strings.NewReader("{\"path\":\"a\"}\n{\"path\":\"b\"}\n{\"path\":\"c\"}\n{\"path\":\"d\"}\n"), &table{ctx: t.Context(), pathColumn: "path", found: &Listing{most: most}})
		},
	}
	for name, list := range lists {
		if err := list(4); err != nil {
			t.Errorf("%s of as many files as there may be: %v", name, err)
		}
		err := list(3)
		if err == nil || !strings.Contains(err.Error(), "more than 3 files in all") {
			t.Errorf("%s of one more: %v", name, err)
		}
	}
}

// The sources that commands make have the limit, and say what kind of error it is.
func TestTooManyFilesAreASourcesFault(t *testing.T) {
	_, err := Folder{Root: photos(t, 3)}.walk(t.Context(), &Listing{most: 2})
	if !errors.Is(err, ErrSource) {
		t.Errorf("%v, want ErrSource", err)
	}
	root := t.TempDir()
	put(t, root, "list.csv", []byte("path\na\n"))
	for _, src := range []Source{Folder{Root: photos(t, 1)}, List{Path: filepath.Join(root, "list.csv")}} {
		if l, err := src.List(t.Context()); err != nil || l.most != draft.MaxFiles {
			t.Errorf("%T: %+v, %v", src, l, err)
		}
	}
}
