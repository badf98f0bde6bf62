package hints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"
)

// folder is a store of small files with a clock of its own.
type folder struct {
	files map[string]file
	clock time.Time
	reads int
	fail  error // of every call
	gone  string
}

type file struct {
	data     []byte
	modified time.Time
}

func newFolder() *folder {
	return &folder{files: map[string]file{}, clock: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (f *folder) Address(name string) string { return "memory:/" + name }

func (f *folder) ListFiles(_ context.Context, dir string, each func(string, time.Time)) error {
	if f.fail != nil {
		return f.fail
	}
	found := false
	for name, file := range f.files {
		if path.Dir(name) == dir {
			found = true
			each(path.Base(name), file.modified)
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	return nil
}

func (f *folder) ReadFile(_ context.Context, name string, limit int64) ([]byte, error) {
	f.reads++
	file, ok := f.files[name]
	switch {
	case f.fail != nil:
		return nil, f.fail
	case !ok || name == f.gone:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case int64(len(file.data)) > limit:
		return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return file.data, nil
}

func (f *folder) ReplaceFile(_ context.Context, name string, data []byte) error {
	if f.fail != nil {
		return f.fail
	}
	f.files[name] = file{data, f.clock}
	return nil
}

func (f *folder) RemoveFile(_ context.Context, name string) error {
	if _, ok := f.files[name]; !ok {
		return fs.ErrNotExist
	}
	delete(f.files, name)
	return f.fail
}

func entry(node string) Entry {
	return Entry{Node: node, Addr: "127.0.0.1:4001", Versions: map[string]int{"fetch": 1, "hints": 1}, TTL: 30 * time.Second}
}

// reader is a registry with a monotonic clock that a test moves.
type reader struct {
	*Registry
	t   *testing.T
	now time.Duration
}

// live lists the live nodes, and how many files were ignored.
func (r *reader) live() string {
	r.t.Helper()
	l, err := r.List(context.Background(), r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, e := range l.Live {
		names = append(names, e.Node)
	}
	return fmt.Sprintf("%s (%d ignored)", strings.Join(names, " "), len(l.Ignored))
}

func (r *reader) want(want string) {
	r.t.Helper()
	if got := r.live(); got != want {
		r.t.Errorf("at %s: %s, want %s", r.now, got, want)
	}
}

func publish(t *testing.T, f *folder, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		if err := NewPublisher(f, "/reg").Publish(context.Background(), entry(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRegistry(t *testing.T) {
	f := newFolder()
	r := &reader{NewRegistry(f, "/reg"), t, 0}
	r.want(" (0 ignored)") // no folder yet
	publish(t, f, "dn2", "dn1")
	r.want("dn1 dn2 (0 ignored)")

	if l, err := r.List(context.Background(), 0); err != nil || fmt.Sprint(l.Live[0]) != fmt.Sprint(entry("dn1")) {
		t.Errorf("got %+v, %v", l, err)
	}
	if f.reads != 2 {
		t.Errorf("%d reads, files that did not change are read again", f.reads)
	}
	if err := NewPublisher(f, "/reg").Withdraw(context.Background(), "dn1"); err != nil {
		t.Fatal(err)
	}
	if err := NewPublisher(f, "/reg").Withdraw(context.Background(), "dn1"); err != nil {
		t.Errorf("second withdrawal: %v", err)
	}
	r.want("dn2 (0 ignored)")
}

// TestRegistryExpiry: by the store's clock alone, and by the reader's clock alone.
func TestRegistryExpiry(t *testing.T) {
	f := newFolder()
	publish(t, f, "dead")
	f.clock = f.clock.Add(29 * time.Second)
	publish(t, f, "dn1")
	r := &reader{NewRegistry(f, "/reg"), t, 0}
	r.want("dead dn1 (0 ignored)")
	f.clock = f.clock.Add(2 * time.Second) // 31 s after the dead agent's last sign, by the store
	publish(t, f, "dn1")
	r.want("dn1 (1 ignored)")

	// All die: nothing newer tells, but the reader has seen the same file for too long.
	r.now += 30 * time.Second
	r.want("dn1 (1 ignored)")
	r.now += time.Millisecond
	r.want(" (2 ignored)")
	// One comes back, with a store clock that jumped back an hour.
	f.clock = f.clock.Add(-time.Hour)
	publish(t, f, "dn1")
	r.want("dn1 (1 ignored)")
}

// TestRegistrySkew is row 19 of the fault matrix: what the hosts' clocks say plays no part.
func TestRegistrySkew(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute, 40 * 365 * 24 * time.Hour} {
		f := newFolder()
		f.clock = time.Now().Add(skew)
		publish(t, f, "dn1", "dn2")
		r := &reader{NewRegistry(f, "/reg"), t, 0}
		r.want("dn1 dn2 (0 ignored)")
	}
}

// TestRegistryForeignFiles: what is not an entry is named and costs no other.
func TestRegistryForeignFiles(t *testing.T) {
	f := newFolder()
	publish(t, f, "dn1")
	good := f.files["/reg/dn1.json"].data
	for name, data := range map[string]string{
		"dn2.json": string(good), "empty.json": "", "big.json": strings.Repeat(" ", maxEntry+1),
		".dn3.json.tmp": "half", ".hidden.json": "x", "README": "x",
	} {
		f.files["/reg/"+name] = file{[]byte(data), f.clock}
	}
	r := &reader{NewRegistry(f, "/reg"), t, 0}
	r.want("dn1 (3 ignored)")
	l, err := r.List(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"big.json", "dn2.json", "empty.json"} {
		if !strings.Contains(errors.Join(l.Ignored...).Error(), "/reg/"+name) {
			t.Errorf("%d: no error names %s: %v", i, name, l.Ignored)
		}
	}
}

// TestRegistryTrouble: a store that fails is an error or costs one entry, and passes.
func TestRegistryTrouble(t *testing.T) {
	f := newFolder()
	publish(t, f, "dn1", "dn2")
	f.gone = "/reg/dn1.json" // withdrawn between listing and reading
	r := &reader{NewRegistry(f, "/reg"), t, 0}
	r.want("dn2 (0 ignored)")
	f.gone = ""
	r.want("dn1 dn2 (0 ignored)")

	f.fail = errors.New("down")
	if _, err := r.List(context.Background(), 0); !errors.Is(err, f.fail) || !strings.Contains(err.Error(), "/reg") {
		t.Errorf("got %v", err)
	}
	if err := NewPublisher(f, "/reg").Publish(context.Background(), entry("dn1")); !errors.Is(err, f.fail) {
		t.Errorf("got %v", err)
	}
	f.fail = nil
	r.want("dn1 dn2 (0 ignored)")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.List(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestEntryRules(t *testing.T) {
	for name, change := range map[string]func(e *Entry){
		"no node":      func(e *Entry) { e.Node = "" },
		"a path":       func(e *Entry) { e.Node = "../dn1" },
		"hidden":       func(e *Entry) { e.Node = ".dn1" },
		"newline":      func(e *Entry) { e.Node = "a\nb" },
		"no address":   func(e *Entry) { e.Addr = "" },
		"port zero":    func(e *Entry) { e.Addr = "127.0.0.1:0" },
		"short life":   func(e *Entry) { e.TTL = time.Millisecond },
		"long life":    func(e *Entry) { e.TTL = time.Hour },
		"version zero": func(e *Entry) { e.Versions["fetch"] = 0 },
		"many":         func(e *Entry) { e.Versions = manyVersions() },
	} {
		e := entry("dn1")
		change(&e)
		if _, err := encodeEntry(e); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	for name, data := range map[string]string{
		"not JSON":      `{`,
		"another":       `[]`,
		"two":           `{"agent":1,"node":"a","addr":"h:1","versions":{},"ttl_ms":30000}{}`,
		"unknown key":   `{"agent":1,"node":"a","addr":"h:1","versions":{},"ttl_ms":30000,"x":1}`,
		"newer":         `{"agent":2,"node":"a","addr":"h:1","versions":{},"ttl_ms":30000}`,
		"huge ttl":      `{"agent":1,"node":"a","addr":"h:1","versions":{},"ttl_ms":9223372036854775807}`,
		"ttl is a text": `{"agent":1,"node":"a","addr":"h:1","versions":{},"ttl_ms":"30000"}`,
	} {
		if _, err := decodeEntry("/reg/a.json", []byte(data)); !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), "/reg/a.json") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzEntry: what is accepted survives the way back.
func FuzzEntry(f *testing.F) {
	good, err := encodeEntry(entry("dn1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"agent":1,"node":"a","addr":"[::1]:1","ttl_ms":30000}`))
	f.Add([]byte(`{"AGENT":1,"node":"\u0000","addr":"h:70000","versions":{"":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEntry("f", data)
		if err != nil {
			if !errors.Is(err, ErrEntry) {
				t.Fatalf("%v does not match ErrEntry", err)
			}
			return
		}
		again, err := encodeEntry(e)
		if err != nil {
			t.Fatalf("accepted %+v, cannot write it: %v", e, err)
		}
		back, err := decodeEntry("f", again)
		if err != nil || fmt.Sprint(back) != fmt.Sprint(e) {
			t.Fatalf("%+v became %+v: %v", e, back, err)
		}
	})
}

func manyVersions() map[string]int {
	m := map[string]int{}
	for i := range maxVersions + 1 {
		m[fmt.Sprint(i)] = 1
	}
	return m
}

// foreseer is a folder that is told what will be read.
type foreseer struct {
	*folder
	told [][]string
}

func (f *foreseer) ExpectFiles(_ context.Context, names []string) { f.told = append(f.told, names) }

// A registry that believes renewals reads an entry once, however often it is written, until it is doubted; an
// agent that is silent expires all the same.
func TestRegistryBelievesRenewals(t *testing.T) {
	f := &foreseer{folder: newFolder()}
	p := NewPublisher(f, "/agents")
	publish := func(e Entry) {
		t.Helper()
		if err := p.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	r := NewRegistry(f, "/agents")
	r.BelieveRenewals()
	moved := entry("b")
	moved.Addr = "127.0.0.1:4002"
	list := func(after time.Duration) map[string]string {
		t.Helper()
		l, err := r.List(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		live := map[string]string{}
		for _, e := range l.Live {
			live[e.Node] = e.Addr
		}
		return live
	}
	for i := range 4 {
		f.clock = f.clock.Add(20 * time.Second)
		publish(entry("a"))
		publish(entry("b"))
		if live := list(time.Duration(i) * 20 * time.Second); len(live) != 2 {
			t.Fatalf("live: %v", live)
		}
	}
	if f.reads != 2 || len(f.told) != 1 || len(f.told[0]) != 2 {
		t.Errorf("read %d files, told beforehand %v", f.reads, f.told)
	}
	f.clock = f.clock.Add(20 * time.Second)
	publish(moved)
	if live := list(80 * time.Second); live["b"] != entry("b").Addr || f.reads != 2 {
		t.Errorf("renewed: %v", live)
	}
	r.Doubt("b", "never heard of")
	if live := list(81 * time.Second); live["b"] != moved.Addr || f.reads != 3 {
		t.Errorf("doubted: %v after %d reads", live, f.reads)
	}
	r.Doubt("b")
	if live := list(82 * time.Second); live["b"] != moved.Addr || f.reads != 3 { // not written since
		t.Errorf("doubted once more: %v after %d reads", live, f.reads)
	}
	if live := list(140 * time.Second); len(live) != 0 {
		t.Errorf("silent: %v", live)
	}
}
