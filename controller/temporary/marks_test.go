package temporary

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func newStore(t *testing.T) *dir.Store {
	t.Helper()
	s, _, err := dir.Open(t.TempDir(), dir.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMarks(t *testing.T) {
	st, ctx := newStore(t), t.Context()
	if all, err := List(ctx, st); err != nil || len(all) > 0 {
		t.Fatalf("an empty store has %v, %v", all, err)
	}
	m := Mark{Version: Version, Controller: "home.1", Placement: 7, Means: plan.Copy, Path: "hdfs://a/x", Identity: "i", Place: DataOf("home.1", 7), Row: "ab.json", TTL: time.Hour}
	must(t, Write(ctx, st, m))
	m.TTL *= 2
	must(t, Write(ctx, st, m))
	storetest.Put(t, st, Folder+"/broken-1.json", []byte("{"))
	other := m
	other.Placement, other.Place = 8, ""
	must(t, Write(ctx, st, other))
	must(t, st.Rename(ctx, Folder+"/home.1-8.json", Folder+"/home.1-9.json"))
	all, err := List(ctx, st)
	must(t, err)
	if len(all) != 3 || !errors.Is(all[2].Err, fs.ErrInvalid) || all[0].Err == nil || !reflect.DeepEqual(all[1].Mark, m) || all[1].Written.IsZero() {
		t.Fatalf("List: %+v", all)
	}
	must(t, Remove(ctx, st, "home.1", 7))
	must(t, Remove(ctx, st, "home.1", 7))
	if all, err = List(ctx, st); err != nil || len(all) != 2 {
		t.Fatalf("after Remove: %v, %v", all, err)
	}
	for what, harm := range map[string]func(*Mark){
		"controller": func(m *Mark) { m.Controller = "../x" }, "place": func(m *Mark) { m.Place = "/data" }, "above": func(m *Mark) { m.Place = DataFolder },
		"another's": func(m *Mark) { m.Place = DataOf("home.1", 70) }, "below": func(m *Mark) { m.Place += ".x/y" }, "row": func(m *Mark) { m.Row = "../x" },
	} {
		bad := m
		harm(&bad)
		if err := Write(ctx, st, bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRemovePlace: all of a place goes, and nothing else: not what a link in it leads to.
func TestRemovePlace(t *testing.T) {
	st, ctx := newStore(t), t.Context()
	place := DataOf("c", 1)
	for _, name := range []string{place + "/a", place + "/x/y/z", place + "/x/y2", "/keep/this", DataOf("c", 10) + "/other"} {
		storetest.Put(t, st, name, []byte("1"))
	}
	must(t, os.Symlink(filepath.Join("..", "..", "..", "..", "keep"), filepath.Join(st.Root(), place, "x", "link")))
	must(t, os.WriteFile(filepath.Join(st.Root(), place, "x", ".stepahead-tmp-killed"), nil, 0o644))
	for range 2 {
		must(t, RemovePlace(ctx, st, place))
	}
	if infos, err := st.List(ctx, DataFolder); err != nil || len(infos) != 1 {
		t.Fatalf("left: %v, %v", infos, err)
	}
	storetest.Get(t, st, "/keep/this")
	storetest.Put(t, st, DataOf("c", 2), []byte("a file"))
	must(t, RemovePlace(ctx, st, DataOf("c", 2)))
	for _, bad := range []string{"/keep", DataFolder, "/keep/this", DataFolder + "/a/b", DataFolder + "/../keep", "/.stepahead/catalogue/x"} {
		if err := RemovePlace(ctx, st, bad); err == nil {
			t.Errorf("%s was removed", bad)
		}
	}
}
