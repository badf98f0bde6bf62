package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/controller/temporary"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
)

// folders are stores in folders.
type folders map[string]store.Store

func (f folders) Home() store.Store { return f[""] }

func (f folders) Site(_ context.Context, name string) (store.Store, error) {
	if st := f[name]; st != nil {
		return st, nil
	}
	return nil, &controller.Error{Reason: plan.ReasonSite, Err: errors.New("not known")}
}

func openFolder(t testing.TB, root string) *dir.Store {
	t.Helper()
	st, _, err := dir.Open(root, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func newFolders(t testing.TB) folders {
	t.Helper()
	f := make(folders)
	for _, name := range []string{"", "east"} {
		root := t.TempDir()
		topology := dir.Topology{}
		for i := range 9 {
			topology.Nodes = append(topology.Nodes, dir.Node{Name: fmt.Sprint("dn", i)})
		}
		if err := dir.Init(root, topology); err != nil {
			t.Fatal(err)
		}
		f[name] = openFolder(t, root)
	}
	return f
}

func write(t testing.TB, st store.Store, name, content string) {
	t.Helper()
	if err := store.ReplaceFile(t.Context(), st, name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func mark(t testing.TB, st store.Store, m temporary.Mark) {
	t.Helper()
	m.Version = temporary.Version
	if err := temporary.Write(t.Context(), st, m); err != nil {
		t.Fatal(err)
	}
}

// TestSurveyTidies: what a controller that was killed asked a store with goes, also where nothing else is.
func TestSurveyTidies(t *testing.T) {
	f := newFolders(t)
	name := temporary.Folder + "/clock-X"
	write(t, f["east"], name, "")
	long := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(f["east"].Address(name), long, long); err != nil {
		t.Fatal(err)
	}
	if s := (Stores{Stores: f, Sites: func() []string { return []string{"east"} }}).Survey(t.Context()); !s.Listed["east"] {
		t.Error(s.Unknown)
	}
	if list, err := f["east"].List(t.Context(), temporary.Folder); err != nil || len(list) != 0 {
		t.Errorf("there are %v: %v", list, err)
	}
}

func TestSurveyOfStores(t *testing.T) {
	f := newFolders(t)
	w := Stores{Stores: f, Sites: func() []string { return []string{"east", "gone"} }}
	mark(t, f[""], temporary.Mark{Controller: "a", Placement: 1, Means: plan.Even, Path: "/hot", TTL: time.Hour})
	mark(t, f["east"], temporary.Mark{Controller: "a", Placement: 2, Means: plan.Copy, Path: f[""].Address("/ck/1"), TTL: time.Hour})
	mark(t, f["east"], temporary.Mark{Controller: "b", Placement: 3, Means: plan.Copy, Path: "hdfs://other/ck/1", TTL: 0})
	mark(t, f["east"], temporary.Mark{Controller: "b", Placement: 4, Means: plan.Sibling, Path: "/hot", TTL: time.Hour})
	write(t, f["east"], "/.stepahead/data/a-9/file", "late")
	write(t, f["east"], "/.stepahead/data/somebody's own/file", "not ours")
	s := w.Survey(t.Context())
	var got []string
	for _, l := range s.Leavings {
		state := "over"
		if l.Left > 59*time.Minute && l.Left <= time.Hour {
			state = "an hour"
		}
		got = append(got, fmt.Sprint(l.Site, " ", l.Mark.Controller, l.Mark.Placement, " ours=", l.Ours, " ", state))
	}
	want := []string{" a1 ours=true an hour", "east a2 ours=true an hour", "east b3 ours=false over", "east b4 ours=false an hour", "east a9 ours=true over"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !s.Listed[""] || !s.Listed["east"] || s.Listed["gone"] {
		t.Errorf("listed: %v", s.Listed)
	}
	for _, l := range s.Leavings {
		if l.Mark.Placement == 9 {
			if err := w.Undo(t.Context(), l, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := f["east"].List(t.Context(), temporary.DataFolder); err != nil || len(list) != 1 {
		t.Errorf("there are %v: %v", list, err)
	}
	write(t, f["east"], temporary.Folder+"/b-5.json", "{")
	if s := w.Survey(t.Context()); s.Listed["east"] {
		t.Error("of a store with a mark that cannot be read all is known")
	}
}

// TestRowsWithoutMarks has a stopped process publish after its mark was removed, and in the place of another's row.
func TestRowsWithoutMarks(t *testing.T) {
	f := newFolders(t)
	st := f[""]
	w := Stores{Stores: f, Sites: func() []string { return nil }}
	key, err := catalogue.NewKey("k1", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	publish := func(controller string, id uint64, path string) {
		row := catalogue.Row{
			Version: 1, Controller: controller, Placement: id, Path: st.Address(path), Identity: "v1", TTL: time.Hour, Sources: &catalogue.Sources{Size: 1, Readers: 2},
		}
		if err := catalogue.Write(t.Context(), st, key, row); err != nil {
			t.Fatal(err)
		}
	}
	rowName := func(path string) string { return catalogue.Folder + "/" + catalogue.NameOf(st.Address(path)) }
	for i, path := range []string{"/shown", "/displaced", "/hidden"} {
		mark(t, st, temporary.Mark{Controller: "a", Placement: plan.ID(i + 1), Means: plan.Even, Path: path, Row: rowName(path), TTL: time.Hour})
	}
	publish("a", 1, "/shown")
	publish("late", 2, "/displaced")
	publish("late", 7, "/orphan")
	see := func() (list []string) {
		for _, l := range w.Survey(t.Context()).Leavings {
			list = append(list, fmt.Sprint(l.Mark.Controller, l.Mark.Placement, " ", l.Mark.Means, " shown=", l.Shown))
			if l.Mark.Means == "orphan" {
				if err := w.Undo(t.Context(), l, nil); err != nil {
					t.Error(err)
				}
			}
		}
		slices.Sort(list)
		return list
	}
	if got := see(); !slices.Equal(got, []string{"a1 even shown=true", "a2 even shown=false", "a3 even shown=false", "late2 orphan shown=false", "late7 orphan shown=false"}) {
		t.Errorf("%q", got)
	}
	if got := see(); len(got) != 3 {
		t.Errorf("orphans are left: %q", got)
	}
}

// TestRaisedAgain undoes a raised file, has the process that raised it go on, and looks again.
func TestRaisedAgain(t *testing.T) {
	f := newFolders(t)
	st := f[""].(*dir.Store)
	w := Stores{Stores: f, Sites: func() []string { return nil }}
	for name, c := range map[string]struct {
		late  func(m temporary.Mark) error
		again bool
		want  int
	}{
		"nothing":         {func(temporary.Mark) error { return nil }, false, 3},
		"the replication": {func(m temporary.Mark) error { return st.SetReplication(t.Context(), m.Path, 7) }, true, 3},
		"the attribute": {func(m temporary.Mark) error {
			return st.SetAttribute(t.Context(), m.Path, temporary.Attribute, attributeOf(t, m))
		}, true, 3},
		"another number": {func(m temporary.Mark) error { return st.SetReplication(t.Context(), m.Path, 5) }, false, 5},
		"another placement": {func(m temporary.Mark) error {
			m.Controller, m.Placement = "b", 9
			err := st.SetAttribute(t.Context(), m.Path, temporary.Attribute, attributeOf(t, m))
			return errors.Join(err, st.SetReplication(t.Context(), m.Path, 7))
		}, false, 7},
		"another version": {func(m temporary.Mark) error {
			write(t, st, m.Path, "other")
			return st.SetReplication(t.Context(), m.Path, 7)
		}, false, 7},
		"removed": {func(m temporary.Mark) error { return st.Remove(t.Context(), m.Path) }, false, 0},
	} {
		write(t, st, "/hot", "content")
		if err := st.SetReplication(t.Context(), "/hot", 3); err != nil {
			t.Fatal(err)
		}
		info, err := st.Stat(t.Context(), "/hot")
		if err != nil {
			t.Fatal(err)
		}
		m := temporary.Mark{
			Version: 1, Controller: "a", Placement: 1, Means: plan.Raise, Path: "/hot", Identity: string(info.Identity), TTL: time.Hour,
			Was: &temporary.State{Replicas: 3}, Raised: &temporary.State{Replicas: 7},
		}
		if err := errors.Join(st.SetAttribute(t.Context(), m.Path, temporary.Attribute, attributeOf(t, m)), temporary.Write(t.Context(), st, m)); err != nil {
			t.Fatal(err)
		}
		found := w.Survey(t.Context()).Leavings[0]
		if err := w.Undo(t.Context(), found, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.late(m); err != nil {
			t.Fatal(err)
		}
		fences := 0
		again, err := w.Again(t.Context(), found, func(context.Context) error { fences++; return nil })
		if err != nil || again != c.again || again != (fences > 0) {
			t.Errorf("%s: %v, %d fences: %v", name, again, fences, err)
		}
		info, err = st.Stat(t.Context(), "/hot")
		if info.Replicas != c.want {
			t.Errorf("%s: %d replicas, want %d: %v", name, info.Replicas, c.want, err)
		}
		if v, ok, _ := st.Attribute(t.Context(), "/hot", temporary.Attribute); ok && c.again {
			t.Errorf("%s: the attribute is left: %s", name, v)
		}
	}
}

// following is a store that finds a file again, at one other name.
type following struct{ *dir.Store }

func (f following) Track(ctx context.Context, name string) (string, error) {
	info, err := f.Stat(ctx, name)
	return string(info.Identity), err
}

func (f following) Tracked(name, _ string) (store.Store, error) { return renamed{f.Store, name}, nil }

// renamed is a store to which one name is the file at renamedTo.
type renamed struct {
	*dir.Store
	name string
}

const renamedTo = "/renamed"

func (r renamed) at(name string) string {
	if name == r.name {
		return renamedTo
	}
	return name
}

func (r renamed) Stat(ctx context.Context, name string) (store.Info, error) {
	return r.Store.Stat(ctx, r.at(name))
}

func (r renamed) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	return r.Store.Attribute(ctx, r.at(name), attribute)
}

func (r renamed) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return r.Store.SetAttribute(ctx, r.at(name), attribute, value)
}

func (r renamed) SetReplication(ctx context.Context, name string, n int) error {
	return r.Store.SetReplication(ctx, r.at(name), n)
}

// TestRenamedIsRaisedAgain: a raised file that was renamed is seen to be raised, is undone, and once more when a stopped process goes on.
func TestRenamedIsRaisedAgain(t *testing.T) {
	f := newFolders(t)
	st := following{f[""].(*dir.Store)}
	f[""] = st
	w := Stores{Stores: f, Sites: func() []string { return nil }}
	write(t, st, "/hot", "content")
	id, err := st.Track(t.Context(), "/hot")
	if err != nil {
		t.Fatal(err)
	}
	m := temporary.Mark{
		Version: 1, Controller: "a", Placement: 1, Means: plan.Raise, Path: "/hot", Identity: id, File: id, TTL: time.Hour,
		Was: &temporary.State{Replicas: 3}, Raised: &temporary.State{Replicas: 7},
	}
	mark(t, st, m)
	raise := func(name string) {
		t.Helper()
		if err := errors.Join(st.SetAttribute(t.Context(), name, temporary.Attribute, attributeOf(t, m)), st.SetReplication(t.Context(), name, 7)); err != nil {
			t.Fatal(err)
		}
	}
	raise("/hot")
	if err := st.Rename(t.Context(), "/hot", renamedTo); err != nil {
		t.Fatal(err)
	}
	found := w.Survey(t.Context()).Leavings[0]
	if !found.Raised {
		t.Error("it is not seen that the file is raised")
	}
	lowered := func() {
		t.Helper()
		info, err := st.Stat(t.Context(), renamedTo)
		_, ok, failed := st.Attribute(t.Context(), renamedTo, temporary.Attribute)
		if err := errors.Join(err, failed); err != nil || info.Replicas != 3 || ok {
			t.Errorf("%+v, attribute %v, %v", info, ok, err)
		}
	}
	if err := w.Undo(t.Context(), found, nil); err != nil {
		t.Fatal(err)
	}
	lowered()
	for _, late := range []func(){
		func() { raise(renamedTo) },
		func() {
			if err := st.SetReplication(t.Context(), renamedTo, 7); err != nil {
				t.Fatal(err)
			}
		},
	} {
		late()
		if again, err := w.Again(t.Context(), found, nil); err != nil || !again {
			t.Errorf("%v, %v", again, err)
		}
		lowered()
	}
	if err := st.Remove(t.Context(), renamedTo); err != nil {
		t.Fatal(err)
	}
	if again, err := w.Again(t.Context(), found, nil); err != nil || again {
		t.Errorf("of a file that is gone: %v, %v", again, err)
	}
}

func attributeOf(t *testing.T, m temporary.Mark) []byte {
	t.Helper()
	value, err := temporary.AttributeOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestMarkIsNotTheFiles has a mark say other things of a raised file than the file, or the file what no controller wrote: neither is undone, nor again when the
// attribute is gone, and each is an error.
func TestMarkIsNotTheFiles(t *testing.T) {
	f := newFolders(t)
	st := f[""].(*dir.Store)
	w := Stores{Stores: f, Sites: func() []string { return nil }}
	write(t, st, "/hot", "content")
	if err := st.SetReplication(t.Context(), "/hot", 7); err != nil {
		t.Fatal(err)
	}
	info, err := st.Stat(t.Context(), "/hot")
	if err != nil {
		t.Fatal(err)
	}
	m := temporary.Mark{
		Version: 1, Controller: "a", Placement: 1, Means: plan.Raise, Path: "/hot", Identity: string(info.Identity), TTL: time.Hour,
		Was: &temporary.State{Replicas: 3}, Raised: &temporary.State{Replicas: 7},
	}
	right := attributeOf(t, m)
	m.Was = &temporary.State{Replicas: 1}
	mark(t, st, m)
	for _, value := range []string{string(right), "theirs", `{"v":2}`} {
		if err := st.SetAttribute(t.Context(), "/hot", temporary.Attribute, []byte(value)); err != nil {
			t.Fatal(err)
		}
		found := w.Survey(t.Context()).Leavings[0]
		again, failed := w.Again(t.Context(), found, nil)
		if err := w.Undo(t.Context(), found, nil); err == nil || failed == nil || again && value != string(right) || found.Raised {
			t.Errorf("%s: %+v, %v; again %v, %v", value, found, err, again, failed)
		}
		if err := st.SetAttribute(t.Context(), "/hot", temporary.Attribute, nil); err != nil {
			t.Fatal(err)
		}
		if again, err := w.Again(t.Context(), found, nil); again || err != nil {
			t.Errorf("%s: %v, %v", value, again, err)
		}
		if now, err := st.Stat(t.Context(), "/hot"); err != nil || now.Replicas != 7 {
			t.Errorf("%s: %+v, %v", value, now, err)
		}
	}
}

// TestMarkOfSomebodysFile has a mark say of a file that it was raised, to just what it has, which it never was: by whoever may write marks and not that file.
func TestMarkOfSomebodysFile(t *testing.T) {
	f := newFolders(t)
	st := f[""].(*dir.Store)
	w := Stores{Stores: f, Sites: func() []string { return nil }}
	write(t, st, "/users/ada/thesis", "content")
	info, err := st.Stat(t.Context(), "/users/ada/thesis")
	if err != nil {
		t.Fatal(err)
	}
	mark(t, st, temporary.Mark{
		Controller: "a", Placement: 1, Means: plan.Raise, Path: info.Name, Identity: string(info.Identity), TTL: time.Hour,
		Was: &temporary.State{Replicas: 1}, Raised: &temporary.State{Replicas: info.Replicas},
	})
	found := w.Survey(t.Context()).Leavings[0]
	if err := w.Undo(t.Context(), found, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := w.Again(t.Context(), found, nil); again || err != nil {
		t.Errorf("it is undone again: %v", err)
	}
	if now, err := st.Stat(t.Context(), info.Name); now.Replicas != info.Replicas {
		t.Errorf("%d replicas, had %d: %v", now.Replicas, info.Replicas, err)
	}
}

// silent is a store that answers nobody.
type silent struct {
	store.Store
	end chan struct{}
}

func (s silent) List(context.Context, string) ([]store.Info, error) {
	<-s.end
	return nil, store.ErrUnavailable
}

// TestSurveyBesideASilentSite has one site not answer at all: what is at the others is known all the same.
func TestSurveyBesideASilentSite(t *testing.T) {
	f := newFolders(t)
	mark(t, f["east"], temporary.Mark{Controller: "a", Placement: 2, Means: plan.Copy, Path: f[""].Address("/ck/1"), TTL: time.Hour})
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		f["deaf"] = silent{f["east"], end}
		w := Stores{Stores: f, Sites: func() []string { return []string{"deaf", "east"} }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := w.Survey(ctx)
		if !s.Listed["east"] || !s.Listed[""] || s.Listed["deaf"] || len(s.Leavings) != 1 {
			t.Errorf("%+v", s)
		}
	})
}
