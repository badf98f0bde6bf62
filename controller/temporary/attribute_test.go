package temporary

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// fileMark is the mark of a placement that raises a file and makes nothing else.
func fileMark() Mark {
	m := raisedMark()
	m.Place, m.Row = "", ""
	return m
}

func valueOf(t testing.TB, m Mark) string {
	t.Helper()
	value, err := AttributeOf(m)
	must(t, err)
	return string(value)
}

// raise does what a mark of fileMark says, in the order of makers, until an error.
func (p *process) raise(t *testing.T, m Mark) error {
	for _, step := range []func() error{
		func() error { return Write(t.Context(), p, m) },
		func() error { return p.SetAttribute(t.Context(), m.Path, Attribute, []byte(valueOf(t, m))) },
		func() error { return p.SetStoragePolicy(t.Context(), m.Path, m.Raised.Policy.Name) },
		func() error { return p.SetReplication(t.Context(), m.Path, m.Raised.Replicas) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestForgedMark: a mark whose words are not those of the file changes nothing and is reported, whatever of it is forged; with the right one all is undone.
func TestForgedMark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		forge func(*Mark)
	}{
		{"was", func(m *Mark) { m.Was.Replicas = 1 }},
		{"was", func(m *Mark) { m.Was.Policy.Name = "ALL_SSD" }},
		{"was", func(m *Mark) { m.Was.Policy.Own = true }},
		{"raised", func(m *Mark) { m.Raised.Replicas = 5 }},
		{"raised", func(m *Mark) { m.Was.Policy, m.Raised.Policy = nil, nil }},
		{"identity", func(m *Mark) { m.Identity = "y" }},
	} {
		field := c.field
		d, before := prepared(t)
		p := &process{disk: d}
		must(t, p.make(t.Context(), raisedMark()))
		m := raisedMark()
		c.forge(&m)
		must(t, Write(t.Context(), d, m))
		raised := d.tree(t)
		for _, dry := range []bool{true, false} {
			r, err := Sweep(t.Context(), p, SweepOptions{All: true, DryRun: dry})
			must(t, err)
			if r.Undone != 0 || r.Failed != 1 || !errors.Is(r.Marks[0].Err, ErrMark) || !strings.Contains(r.Marks[0].Err.Error(), field+": the mark says") || len(r.Marks[0].Done) > 0 {
				t.Errorf("%s: %+v", field, r)
			}
		}
		if now := d.tree(t); now != raised {
			t.Errorf("%s: now\n%s\nwas\n%s", field, now, raised)
		}
		must(t, Write(t.Context(), d, raisedMark()))
		if r, err := Sweep(t.Context(), p, SweepOptions{All: true}); err != nil || r.Undone != 1 {
			t.Errorf("%s: %+v, %v", field, r, err)
		}
		if now := d.tree(t); now != before {
			t.Errorf("%s: in the end\n%s\nwas\n%s", field, now, before)
		}
	}
}

// TestMarkLeadsElsewhere: a mark that was replaced by one of another file changes nothing of that, and the file that was raised can be undone by itself.
func TestMarkLeadsElsewhere(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	storetest.Put(t, d, "/sets/other", []byte("other bytes"))
	must(t, d.SetReplication(t.Context(), "/sets/other", 9))
	before := d.tree(t)
	p := &process{disk: d}
	must(t, p.raise(t, fileMark()))
	m := fileMark()
	m.Path = "/sets/other"
	must(t, Write(t.Context(), d, m))
	if _, err := Sweep(t.Context(), p, SweepOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	found, ok, err := Raised(t.Context(), p, hot)
	if err != nil || !ok || found.Name() != fileMark().Name() {
		t.Fatalf("%+v %v %v", found, ok, err)
	}
	_, err = Undo(t.Context(), p, found, nil)
	must(t, err)
	if now := d.tree(t); now != before {
		t.Errorf("now\n%s\nwas\n%s", now, before)
	}
}

// TestWithoutMark: what a raised file says itself is enough to undo it, also by two that are killed anywhere. A file that is not raised says nothing.
func TestWithoutMark(t *testing.T) {
	t.Parallel()
	for first := 1; first < 6; first++ {
		for second := 1; second < 6; second++ {
			d, before := prepared(t)
			p := &process{disk: d}
			must(t, p.raise(t, fileMark()))
			must(t, Remove(t.Context(), p, fileMark().Name()))
			for _, p := range []*process{{disk: d, dies: first}, {disk: d, dies: second, after: true}, {disk: d}} {
				found, ok, err := Raised(t.Context(), p, hot)
				must(t, err)
				if !ok {
					break
				}
				if todo, err := Preview(t.Context(), p, found); err != nil || p.made > 0 {
					t.Errorf("%q, %v", todo, err)
				}
				if _, err := Undo(t.Context(), p, found, nil); err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
			if now := d.tree(t); now != before {
				t.Errorf("killed at %d, %d: now\n%s\nwas\n%s", first, second, now, before)
			}
		}
	}
}

// TestKilledTwice: whoever undoes what a killed process had made is killed too, both before or after any change; a third undoes the rest.
func TestKilledTwice(t *testing.T) {
	t.Parallel()
	for first := 1; first < 10; first++ {
		for second := 1; second < 10; second++ {
			for after := range 4 {
				d, before := prepared(t)
				p := &process{disk: d, dies: first, after: after&1 != 0}
				err := p.raise(t, fileMark())
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				next := &process{disk: d, dies: second, after: after&2 != 0}
				r, err := Sweep(t.Context(), next, SweepOptions{All: true, Now: time.Unix(1, 0)})
				for _, m := range r.Marks {
					err = errors.Join(err, m.Err)
				}
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				_, err = Sweep(t.Context(), &process{disk: d}, SweepOptions{All: true})
				must(t, err)
				if now := d.tree(t); now != before {
					t.Fatalf("killed at %d and %d (%d), after %q and %q: now\n%s\nwas\n%s", first, second, after, p.log, next.log, now, before)
				}
			}
		}
	}
}

// foreign are values of the attribute that no mark has.
func foreign(t testing.TB) map[string]string {
	text := valueOf(t, fileMark())
	return map[string]string{
		"empty": "", "a name": NameOf("c1", 7), "no JSON": "{", "another JSON": "[]", "null": "null", "cut": text[:len(text)-1], "two": text + text,
		"too long":      text + strings.Repeat(" ", maxOriginal),
		"spaces":        text + " ",
		"unknown key":   strings.Replace(text, `"v":1`, `"v":1,"x":1`, 1),
		"key twice":     strings.Replace(text, `"v":1`, `"v":1,"v":1`, 1),
		"other case":    strings.Replace(text, `"mark"`, `"Mark"`, 1),
		"mark":          strings.Replace(text, Folder, "/tmp", 1),
		"no controller": strings.Replace(text, "c1-7", "7", 1),
		"placement":     strings.Replace(text, "c1-7", "c1-007", 1),
		"placement 0":   strings.Replace(text, "c1-7", "c1-0", 1),
		"replicas":      strings.Replace(text, `"replicas":3`, `"replicas":0`, 1),
		"no was":        strings.Replace(text, `"was":`, `"was":null,"war":`, 1),
		"policy":        strings.Replace(text, `"HOT"`, `""`, 1),
		"ttl":           strings.Replace(text, `"ttl_ns":`, `"ttl_ns":-`, 1),
		"version 0":     strings.Replace(text, `"v":1`, `"v":0`, 1),
		"newer":         `{"v":2,"expires":"tomorrow"}`,
		"newer, long":   `{"v":2` + strings.Repeat(" ", maxOriginal) + "}",
	}
}

// TestForeignAttribute: an attribute that is not the controller's, or a newer program's, is left alone with its file, and reported.
func TestForeignAttribute(t *testing.T) {
	t.Parallel()
	for name, value := range foreign(t) {
		if value == valueOf(t, fileMark()) {
			t.Fatalf("%s: nothing was changed", name)
		}
		d, _ := prepared(t)
		p := &process{disk: d}
		must(t, p.make(t.Context(), raisedMark()))
		must(t, p.SetAttribute(t.Context(), hot, Attribute, []byte(value)))
		before := d.tree(t)
		want := ErrMark
		if name == "newer" {
			want = ErrVersion
		}
		if _, ok, err := Raised(t.Context(), p, hot); ok || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if todo, err := Preview(t.Context(), p, raisedMark()); !errors.Is(err, want) || len(todo) > 0 {
			t.Errorf("%s: %q, %v", name, todo, err)
		}
		r, err := Sweep(t.Context(), p, SweepOptions{All: true})
		if err != nil || r.Failed != 1 || !errors.Is(r.Marks[0].Err, want) || !strings.Contains(r.Marks[0].Err.Error(), hot) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if now := d.tree(t); now != before {
			t.Errorf("%s: now\n%s\nwas\n%s", name, now, before)
		}
	}
}

// TestAttributeOfNoRaise: somebody gave a file the attribute that was never raised, also that of a placement of another file: nothing leads to it.
func TestAttributeOfNoRaise(t *testing.T) {
	t.Parallel()
	d, _ := prepared(t)
	p := &process{disk: d}
	storetest.Put(t, d, "/sets/mine", []byte("my bytes"))
	must(t, d.SetReplication(t.Context(), "/sets/mine", 9))
	must(t, p.SetAttribute(t.Context(), "/sets/mine", Attribute, []byte(valueOf(t, fileMark()))))
	before := d.tree(t)
	must(t, p.raise(t, fileMark()))
	for range 2 {
		if r, err := Sweep(t.Context(), p, SweepOptions{All: true}); err != nil || r.Failed > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if now := d.tree(t); now != before {
		t.Errorf("now\n%s\nwas\n%s", now, before)
	}
}

// TestAttributeOf: what a mark says of its file is read back, and more than an attribute holds is refused.
func TestAttributeOf(t *testing.T) {
	m := fileMark()
	m.Identity, m.Was.Policy.Own = "hdfs:1-2-3<&>\"é", true
	back, err := parseAttribute(hot, []byte(valueOf(t, m)))
	if err != nil || !reflect.DeepEqual([]any{back.Name(), back.Path, back.Identity, back.Was, back.Raised, back.TTL}, []any{m.Name(), hot, m.Identity, m.Was, m.Raised, m.TTL}) {
		t.Errorf("%+v, %v", back, err)
	}
	must(t, m.Agrees(back))
	m.Controller, m.Identity = strings.Repeat("c", maxController), strings.Repeat("i", 256)
	m.Was.Policy, m.Raised.Policy = &store.StoragePolicy{Name: strings.Repeat("p", 128)}, &store.StoragePolicy{Name: strings.Repeat("q", 128)}
	if n := len(valueOf(t, m)); n > maxOriginal {
		t.Errorf("%d bytes", n)
	}
	m.Identity = strings.Repeat("i", maxOriginal)
	if _, err := AttributeOf(m); !errors.Is(err, ErrMark) {
		t.Errorf("%v", err)
	}
	even := Mark{Version: Version, Controller: "c1", Placement: 7, Means: plan.Even, Path: hot}
	if _, err := AttributeOf(even); !errors.Is(err, ErrMark) {
		t.Errorf("%v", err)
	}
}

// TestBefore: only what the placement gave a file is taken for what it had before.
func TestBefore(t *testing.T) {
	m := fileMark()
	for _, c := range []struct{ now, want State }{
		{*m.Raised, *m.Was}, {*m.Was, *m.Was},
		{State{Replicas: 5, Policy: m.Raised.Policy}, State{Replicas: 5, Policy: m.Was.Policy}},
		{State{Replicas: 9, Policy: &store.StoragePolicy{Name: "ALL_SSD", Own: true}}, State{Replicas: 3, Policy: &store.StoragePolicy{Name: "ALL_SSD", Own: true}}},
		{State{Replicas: 9}, State{Replicas: 3}},
	} {
		if got := m.Before(c.now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s, want %s", text(c.now), text(got), text(c.want))
		}
	}
}

func FuzzAttribute(f *testing.F) {
	f.Add([]byte(valueOf(f, fileMark())))
	for _, value := range foreign(f) {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := parseAttribute(hot, value)
		if err != nil {
			if !errors.Is(err, ErrMark) && !errors.Is(err, ErrVersion) {
				t.Errorf("%v", err)
			}
			return
		}
		if again := valueOf(t, m); again != string(value) {
			t.Errorf("%s, again %s", value, again)
		}
		if err := m.Validate(); err != nil || m.Path != hot {
			t.Errorf("%+v: %v", m, err)
		}
	})
}
