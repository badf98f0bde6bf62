package temporary

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/checkpoint/catalogue"
	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

const hot = "/sets/hot"

// rowName is the name of the row of the hot file.
var rowName = catalogue.Folder + "/" + catalogue.NameOf(hot)

// writeRow writes the row of a placement.
func (p *process) writeRow(ctx context.Context, placement plan.ID) error {
	k, err := catalogue.NewKey("k1", make([]byte, 32))
	if err != nil {
		return err
	}
	return catalogue.Write(ctx, p, k, catalogue.Row{Version: 1, Controller: "c1", Placement: uint64(placement), Path: hot, Identity: "x", TTL: time.Hour,
		Sources: &catalogue.Sources{Size: 5, Readers: 9}})
}

// raisedMark is the mark of a placement that has everything: a row, data, and a file that is raised.
func raisedMark() Mark {
	return Mark{
		Version: Version, Controller: "c1", Placement: 7, Means: plan.StorageType, Path: hot, Identity: "x",
		Place: PlaceOf("c1", 7), Row: rowName, File: "number 5", TTL: time.Hour, Job: "job", Why: "because",
		Was:    &State{Replicas: 3, Policy: &store.StoragePolicy{Name: "HOT"}},
		Raised: &State{Replicas: 9, Policy: &store.StoragePolicy{Name: "COLD", Own: true}},
	}
}

// make does everything that a mark says, in the order of makers, until an error.
func (p *process) make(ctx context.Context, m Mark) error {
	value, err := AttributeOf(m)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return Write(ctx, p, m) },
		func() error { return p.SetAttribute(ctx, m.Path, Attribute, value) },
		func() error { return p.SetStoragePolicy(ctx, m.Path, m.Raised.Policy.Name) },
		func() error { return p.SetReplication(ctx, m.Path, m.Raised.Replicas) },
		func() error { return p.put(ctx, m.Place+"/one", "1") },
		func() error { return p.put(ctx, m.Place+"/deep/two", "2") },
		func() error { return p.writeRow(ctx, m.Placement) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) put(ctx context.Context, name, text string) error {
	w, err := p.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return errors.Join(err, w.Abort())
	}
	return errors.Join(p.change("close "+name, w.Close), w.Abort())
}

// prepared is a disk with a file, and what it looks like once all folders that stay are there.
func prepared(t *testing.T) (*disk, string) {
	t.Helper()
	d := newDisk(t)
	storetest.Put(t, d, hot, []byte("bytes"))
	must(t, d.SetReplication(t.Context(), hot, 3))
	for _, folder := range []string{Folder, DataFolder, catalogue.Folder} {
		must(t, d.MakeFolder(t.Context(), folder))
	}
	return d, d.tree(t)
}

// TestKilledAnywhere: a process is killed before or after each of its changes while it makes, or while it undoes, and another one undoes the rest. Nothing
// is left, and the file is what it was.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	count := func(t *testing.T) (making, all int) {
		d, _ := prepared(t)
		p := &process{disk: d}
		must(t, p.make(t.Context(), raisedMark()))
		making = p.made
		_, err := Undo(t.Context(), p, raisedMark(), nil)
		must(t, err)
		return making, p.made
	}
	making, all := count(t)
	if making < 10 || all < making+8 {
		t.Fatalf("%d changes, %d of them to make: the test would prove nothing", all, making)
	}
	for dies := 1; dies <= all; dies++ {
		for _, after := range []bool{false, true} {
			d, before := prepared(t)
			p := &process{disk: d, dies: dies, after: after}
			err := p.make(t.Context(), raisedMark())
			if err == nil {
				_, err = Undo(t.Context(), p, raisedMark(), nil)
			}
			if !errors.Is(err, errKilled) && dies < all {
				t.Fatalf("killed at %d: %v", dies, err)
			}
			next := &process{disk: d}
			if _, err := Sweep(t.Context(), next, SweepOptions{All: true}); err != nil {
				t.Fatalf("killed at %d (%v), after %q: %v", dies, after, p.log, err)
			}
			if now := d.tree(t); now != before {
				t.Fatalf("killed at %d (%v), after %q, undone by %q:\n%s\nwas:\n%s", dies, after, p.log, next.log, now, before)
			}
		}
	}
}

// TestOrder: the storage policy is what it was before the replication is, and the mark goes last.
func TestOrder(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	must(t, p.make(t.Context(), raisedMark()))
	p.log = nil
	done, err := Undo(t.Context(), p, raisedMark(), nil)
	must(t, err)
	place := PlaceOf("c1", 7)
	want := []string{
		"remove " + rowName + ".new", "remove " + rowName, "policy ", "replication 3", "attribute",
		"remove " + place, "remove " + place + "/one", "remove " + place + "/deep", "remove " + place + "/deep/two", "remove " + place + "/deep", "remove " + place,
		"remove " + raisedMark().Name() + ".new", "remove " + raisedMark().Name(),
	}
	if !slices.Equal(p.log, want) {
		t.Errorf("got  %q\nwant %q", p.log, want)
	}
	if len(done) != 4 {
		t.Errorf("it says %q", done)
	}
}

// TestPreview: what would be done is what is done, and nothing is.
func TestPreview(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	must(t, p.make(t.Context(), raisedMark()))
	made, before := p.made, d.tree(t)
	todo, err := Preview(t.Context(), p, raisedMark())
	must(t, err)
	r, err := Sweep(t.Context(), p, SweepOptions{All: true, DryRun: true})
	must(t, err)
	if p.log = p.log[made:]; slices.ContainsFunc(p.log, func(s string) bool { return !strings.Contains(s, "/clock-") }) || d.tree(t) != before {
		t.Errorf("it did %q", p.log)
	}
	if len(r.Marks) != 1 || !slices.Equal(r.Marks[0].Done, todo) || r.Marks[0].Undone || r.Undone != 0 {
		t.Errorf("the sweep says %+v", r)
	}
	done, err := Undo(t.Context(), p, raisedMark(), nil)
	must(t, err)
	if !slices.Equal(todo, done) {
		t.Errorf("would do %q, did %q", todo, done)
	}
}

// TestFence: after the fence says no, nothing is changed, and a sweep ends.
func TestFence(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	must(t, p.make(t.Context(), raisedMark()))
	for allowed := range 8 {
		made := p.made
		checks, lost := 0, errors.New("lost")
		fence := func(context.Context) error {
			if checks++; checks > allowed {
				return lost
			}
			return nil
		}
		var fenced *FenceError
		_, err := Sweep(t.Context(), p, SweepOptions{All: true, Fence: fence, Now: time.Unix(1, 0)})
		if !errors.As(err, &fenced) || !errors.Is(err, lost) || p.made != made+allowed {
			t.Fatalf("%v, %d changes after %d checks that passed", err, p.made-made, allowed)
		}
		if allowed > 0 {
			break // the rest is undone by now
		}
	}
}

// TestOthers: what somebody else did to the file meanwhile stays.
func TestOthers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		theirs func(*process) error
		want   func(before, now store.Info, policy string) bool
		says   string
	}{
		{"replaced", func(p *process) error {
			return errors.Join(p.put(t.Context(), "/other", "other bytes"), p.SetReplication(t.Context(), "/other", 9), p.Rename(t.Context(), "/other", hot))
		}, func(_, now store.Info, _ string) bool { return now.Replicas == 9 && now.Size == 11 }, "left alone"},
		{"deleted", func(p *process) error { return p.Remove(t.Context(), hot) },
			func(_, now store.Info, _ string) bool { return now.Name == "" }, "not there"},
		{"factor", func(p *process) error { return p.SetReplication(t.Context(), hot, 5) },
			func(_, now store.Info, policy string) bool { return now.Replicas == 5 && policy == "HOT" }, "replication is 5"},
		{"policy", func(p *process) error { return p.SetStoragePolicy(t.Context(), hot, "ALL_SSD") },
			func(_, now store.Info, policy string) bool { return now.Replicas == 3 && policy == "ALL_SSD" }, "ALL_SSD"},
		{"attribute taken away", func(p *process) error { return p.SetAttribute(t.Context(), hot, Attribute, nil) },
			func(_, now store.Info, policy string) bool { return now.Replicas == 9 && policy == "COLD" }, "left alone"},
		{"raised by another placement", func(p *process) error {
			m := fileMark()
			m.Placement = 8
			return p.SetAttribute(t.Context(), hot, Attribute, []byte(valueOf(t, m)))
		}, func(_, now store.Info, policy string) bool { return now.Replicas == 9 && policy == "COLD" }, "left alone"},
		{"row of another placement", func(p *process) error {
			return p.writeRow(t.Context(), 8)
		}, func(_, now store.Info, _ string) bool { return now.Replicas == 3 }, "replication 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, _ := prepared(t)
			p := &process{disk: d}
			must(t, p.make(t.Context(), raisedMark()))
			before, err := d.Stat(t.Context(), hot)
			must(t, err)
			must(t, test.theirs(p))
			done, err := Undo(t.Context(), p, raisedMark(), nil)
			must(t, err)
			now, _ := d.Stat(t.Context(), hot)
			policy, _ := p.StoragePolicy(t.Context(), hot)
			if !test.want(before, now, policy.Name) || !strings.Contains(strings.Join(done, "\n"), test.says) {
				t.Errorf("%+v with policy %v; %q", now, policy, done)
			}
			if _, err := d.Stat(t.Context(), rowName); (err == nil) != (test.name == "row of another placement") {
				t.Errorf("the row: %v", err)
			}
			if left, err := List(t.Context(), d); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestLinks: what links in the place lead to stays.
func TestLinks(t *testing.T) {
	t.Parallel()
	d, before := prepared(t)
	m := Mark{Version: Version, Controller: "c1", Placement: 7, Means: plan.Sibling, Path: hot, Identity: "x", Place: PlaceOf("c1", 7)}
	for _, link := range []string{"/inside", ""} { // in the place, and the place itself
		must(t, os.MkdirAll(filepath.Dir(d.Root()+m.Place+link), 0o755))
		must(t, os.Symlink(d.Root()+"/sets", d.Root()+m.Place+link))
		must(t, Write(t.Context(), d, m))
		if _, err := Undo(t.Context(), d, m, nil); err != nil {
			t.Fatal(err)
		}
		if now := d.tree(t); now != before {
			t.Errorf("%q: %s\nwas:\n%s", link, now, before)
		}
	}
}

// TestPlaces: a mark leads nowhere but where the controller's things lie.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"/sets", "/", DataFolder, DataFolder + "/", DataFolder + "/..", DataFolder + "/a/b", DataFolder + "/../x", DataFolder + "x", "data", DataFolder + "//a"} {
		m := raisedMark()
		m.Place = place
		d, _ := prepared(t)
		if _, err := Undo(t.Context(), d, m, nil); !errors.Is(err, ErrMark) {
			t.Errorf("place %q: %v", place, err)
		}
		m.Place, m.Row = "", place
		if _, err := Undo(t.Context(), d, m, nil); !errors.Is(err, ErrMark) {
			t.Errorf("row %q: %v", place, err)
		}
	}
}

// TestSweep: what has expired by the store's clock is undone, whatever else lies there; a mark's time begins when it is written.
func TestSweep(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	start, err := Now(t.Context(), d)
	must(t, err)
	for i, ttl := range []time.Duration{time.Minute, time.Hour} {
		m := Mark{Version: Version, Controller: "c1", Placement: plan.ID(i + 1), Means: plan.Sibling, Path: hot, Identity: "x", Place: PlaceOf("c1", plan.ID(i+1)), TTL: ttl}
		must(t, Write(t.Context(), p, m))
		must(t, p.put(t.Context(), m.Place+"/data", "x"))
	}
	storetest.Put(t, d, Folder+"/bad.json", []byte("{}"))
	storetest.Put(t, d, Folder+"/new.json", []byte(`{"v":2,"more":1}`))
	storetest.Put(t, d, Folder+"/c1-9.json.new", []byte("half"))
	storetest.Put(t, d, Folder+"/clock-X", nil)
	storetest.Put(t, d, Folder+"/README", []byte("not ours"))
	must(t, Write(t.Context(), p, Mark{Version: Version, Controller: "x", Placement: 3, Means: plan.Copy, Path: "hdfs://a/b"}))
	must(t, d.Rename(t.Context(), NameOf("x", 3), Folder+"/misnamed.json"))
	for _, step := range []struct {
		after  time.Duration
		undone int
		left   string
	}{
		{time.Minute, 0, "README bad.json c1-1.json c1-2.json c1-9.json.new clock-X misnamed.json new.json"},
		{time.Minute + Margin + 5*time.Second, 1, "README bad.json c1-2.json c1-9.json.new clock-X misnamed.json new.json"},
		{30 * time.Minute, 0, "README bad.json c1-2.json misnamed.json new.json"},
		{2 * time.Hour, 1, "README bad.json misnamed.json new.json"},
	} {
		r, err := Sweep(t.Context(), p, SweepOptions{Now: start.Add(step.after)})
		must(t, err)
		if r.Undone != step.undone || r.Failed != 3 {
			t.Errorf("after %v: %+v", step.after, r)
		}
		infos, err := d.List(t.Context(), Folder)
		must(t, err)
		var left []string
		for _, i := range infos {
			left = append(left, filepath.Base(i.Name))
		}
		if got := strings.Join(left, " "); got != step.left {
			t.Errorf("after %v: %s, want %s", step.after, got, step.left)
		}
	}
	data, err := d.List(t.Context(), DataFolder)
	if err != nil || len(data) > 0 {
		t.Errorf("data: %v, %v", data, err)
	}
}

// TestOrphans: data without a mark are removed; what is no place of a placement is left alone.
func TestOrphans(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	must(t, p.put(t.Context(), PlaceOf("c-1", 12)+"/part", "x"))
	must(t, p.put(t.Context(), PlaceOf("c-1", 13)+"/part", "x"))
	must(t, Write(t.Context(), p, Mark{Version: Version, Controller: "c-1", Placement: 13, Means: plan.Sibling, Path: hot, Place: PlaceOf("c-1", 13), TTL: time.Hour}))
	for _, other := range []string{"/theirs/x", "/c-0x1", "/c-01/x", "/-3/x", "/7"} {
		must(t, p.put(t.Context(), DataFolder+other, "x"))
	}
	now, err := Now(t.Context(), p)
	must(t, err)
	for i, after := range []time.Duration{0, time.Minute, time.Minute} {
		r, err := Sweep(t.Context(), p, SweepOptions{Now: now.Add(after)})
		if want := []int{0, 1, 0}[i]; err != nil || r.Undone != want {
			t.Errorf("after %v: %+v, %v", after, r, err)
		}
	}
	infos, err := d.List(t.Context(), DataFolder)
	must(t, err)
	var left []string
	for _, i := range infos {
		left = append(left, filepath.Base(i.Name))
	}
	if got := strings.Join(left, " "); got != "-3 7 c-01 c-0x1 c-1-13 theirs" {
		t.Errorf("left: %s", got)
	}
}

// TestOrphanRows: a row that no mark is of is withdrawn; keys and what is no row are left alone.
func TestOrphanRows(t *testing.T) {
	t.Parallel()
	d, before := prepared(t)
	p := &process{disk: d}
	storetest.Put(t, d, catalogue.KeyFolder+"/k.pub", []byte("key"))
	if some, err := Any(t.Context(), p); err != nil || some {
		t.Errorf("keys are none of what has to go: %v, %v", some, err)
	}
	must(t, p.writeRow(t.Context(), 9))
	now, err := Now(t.Context(), p)
	must(t, err)
	if r, err := Sweep(t.Context(), p, SweepOptions{}); err != nil || r.Undone != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, p.writeRow(t.Context(), 9))
	m := Mark{Version: Version, Controller: "c1", Placement: 9, Means: plan.Even, Path: hot, Row: rowName, TTL: time.Hour}
	must(t, Write(t.Context(), p, m))
	r, err := Sweep(t.Context(), p, SweepOptions{Now: now.Add(30 * time.Minute)})
	if err != nil || r.Undone != 0 || len(r.Marks) != 1 {
		t.Errorf("with a mark: %+v, %v", r, err)
	}
	if r, err = Sweep(t.Context(), p, SweepOptions{All: true}); err != nil || r.Undone != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, d.Remove(t.Context(), catalogue.KeyFolder+"/k.pub"))
	must(t, d.Remove(t.Context(), catalogue.KeyFolder))
	if now := d.tree(t); now != before {
		t.Errorf("%s\nwas\n%s", now, before)
	}
}

// TestOneFails: a mark that cannot be undone keeps no other from being undone.
func TestOneFails(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	must(t, p.make(t.Context(), raisedMark()))
	other := Mark{Version: Version, Controller: "c2", Placement: 1, Means: plan.Sibling, Path: hot, Place: PlaceOf("c2", 1)}
	must(t, Write(t.Context(), d, other))
	broken := struct {
		*dirOnly
		store.StoragePolicer
		store.Attributer
	}{&dirOnly{d}, p, p} // it cannot set a replication
	r, err := Sweep(t.Context(), broken, SweepOptions{All: true})
	must(t, err)
	if r.Undone != 1 || r.Failed != 1 || !errors.Is(r.Marks[0].Err, errors.ErrUnsupported) || !r.Marks[1].Undone {
		t.Errorf("%+v", r)
	}
	left, err := List(t.Context(), d)
	if err != nil || len(left) != 1 || left[0].Name != raisedMark().Name() {
		t.Errorf("left: %v, %v", left, err)
	}
	if r, err = Sweep(t.Context(), p, SweepOptions{All: true}); err != nil || r.Undone != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// dirOnly is a store without optional interfaces.
type dirOnly struct{ store.Store }

// TestNow: the time is the store's, and asking leaves nothing.
func TestNow(t *testing.T) {
	t.Parallel()
	d, before := prepared(t)
	a, err := Now(t.Context(), d)
	must(t, err)
	b, err := Now(t.Context(), d)
	must(t, err)
	if b.Before(a) || d.tree(t) != before {
		t.Errorf("%v, then %v; %s", a, b, d.tree(t))
	}
}

// TestChange: a change that its process comes to late is not made.
func TestChange(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Change(ctx, nil, func(context.Context) error { return fmt.Errorf("made") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	err = Change(t.Context(), nil, func(ctx context.Context) error {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > changeTime {
			return fmt.Errorf("the deadline is %v", at)
		}
		return nil
	})
	must(t, err)
}
