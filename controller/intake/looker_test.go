package intake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// cluster is a store whose files are told of and not there. It counts what it is asked, and fails as told.
type cluster struct {
	store.Store
	files map[string]clusterFile

	mu       sync.Mutex
	asked    int
	atOnce   int
	most     int
	failures map[string][]error // of the next calls of Open
	expected []int              // names of each Prefetch
}

type clusterFile struct {
	store.File
	size   int64
	stored store.Stored
	rows   []store.Replica
	policy string
}

func (f clusterFile) Size() int64              { return f.size }
func (f clusterFile) Identity() store.Identity { return "v1" }
func (f clusterFile) Stored() store.Stored     { return f.stored }
func (f clusterFile) Close() error             { return nil }

func (c *cluster) Open(_ context.Context, name string) (store.File, error) {
	c.mu.Lock()
	c.asked++
	c.atOnce++
	c.most = max(c.most, c.atOnce)
	defer c.mu.Unlock()
	if list := c.failures[name]; len(list) > 0 {
		c.failures[name] = list[1:]
		c.atOnce--
		return nil, list[0]
	}
	f, ok := c.files[name]
	if !ok {
		c.atOnce--
		return nil, fs.ErrNotExist
	}
	return f, nil
}

func (c *cluster) Locate(_ context.Context, name string, off, n int64) ([]store.Replica, error) {
	f := c.files[name]
	if off != 0 || n != f.size {
		return nil, store.ErrRange
	}
	return f.rows, nil
}

func (c *cluster) StoragePolicy(_ context.Context, name string) (store.StoragePolicy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atOnce--
	if c.files[name].policy == "" {
		return store.StoragePolicy{}, errors.ErrUnsupported
	}
	return store.StoragePolicy{Name: c.files[name].policy}, nil
}

func (c *cluster) SetStoragePolicy(context.Context, string, string) error { panic("changes the world") }

func (c *cluster) Prefetch(_ context.Context, names []string) error {
	c.expected = append(c.expected, len(names))
	return nil
}

func (c *cluster) Forget([]string) {}

// rows are so many replicas of each block of one byte.
func rows(replicas ...int) (all []store.Replica) {
	for off, n := range replicas {
		for node := range n {
			all = append(all, store.Replica{Node: fmt.Sprint(node), Off: int64(off), Len: 1})
		}
	}
	return all
}

func TestLook(t *testing.T) {
	c := &cluster{failures: map[string][]error{}, files: map[string]clusterFile{
		"/plain":   {size: 2, rows: rows(3, 2), policy: "HOT"},
		"/empty":   {},
		"/cold":    {size: 1, rows: rows(1), policy: "COLD"},
		"/warm":    {size: 1, rows: rows(3), policy: "WARM"},
		"/own":     {size: 1, rows: rows(3), policy: "SOMETHING_NEW"},
		"/striped": {size: 1, rows: rows(9), stored: store.Stored{ErasureCoded: true}},
		"/open":    {size: 1, rows: rows(3), stored: store.Stored{Writing: true}},
		"/slow":    {size: 1, rows: rows(3)},
		"/dead":    {size: 1, rows: rows(3)},
		"/denied":  {size: 1, rows: rows(3)},
	}}
	c.failures["/slow"] = []error{store.ErrUnavailable, store.ErrIdentity, store.ErrUnavailable}
	c.failures["/dead"] = []error{store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable}
	c.failures["/denied"] = []error{fs.ErrPermission}
	want := map[string]plan.File{
		"/plain":   {Size: 2, Blocks: 2, Replicas: 2},
		"/empty":   {Blocks: 1, Replicas: 1},
		"/cold":    {Size: 1, Blocks: 1, Replicas: 1, OwnPolicy: true},
		"/warm":    {Size: 1, Blocks: 1, Replicas: 3, OwnPolicy: true},
		"/own":     {Size: 1, Blocks: 1, Replicas: 3, OwnPolicy: true},
		"/striped": {Size: 1, Blocks: 1, Replicas: 9, ErasureCoded: true},
		"/open":    {Size: 1, Blocks: 1, Replicas: 3, Open: true},
		"/slow":    {Size: 1, Blocks: 1, Replicas: 3},
	}
	o := LookerOptions{Stores: stores{home: c}}
	pauses := 0
	var mu sync.Mutex
	o.testing.pause = func(context.Context, time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		pauses++
		return nil
	}
	var paths []string
	for path := range maps.Keys(c.files) {
		paths = append(paths, path)
	}
	paths = append(paths, "/missing")
	for i, f := range NewLooker(o).Look(t.Context(), paths) {
		w, there := want[paths[i]]
		w.Path = paths[i]
		if there {
			w.Identity = "v1"
		}
		if f != w {
			t.Errorf("%+v\nwant %+v", f, w)
		}
	}
	if pauses != 6 {
		t.Errorf("%d pauses, want 3 for each of the two that do not answer", pauses)
	}
}

// TestLookAtMany: places are asked for in batches, and few files are asked about at once.
func TestLookAtMany(t *testing.T) {
	c := &cluster{files: map[string]clusterFile{}}
	var paths []string
	for i := range 2*batchOf + 5 {
		path := fmt.Sprint("/", i)
		paths = append(paths, path)
		c.files[path] = clusterFile{size: 1, rows: rows(3), policy: "HOT"}
	}
	found := NewLooker(LookerOptions{Stores: stores{home: c}}).Look(t.Context(), paths)
	for i, f := range found {
		if f.Path != paths[i] || f.Identity == "" {
			t.Fatalf("%d: %+v", i, f)
		}
	}
	if fmt.Sprint(c.expected) != fmt.Sprint([]int{batchOf, batchOf, 5}) || c.asked != len(paths) || c.most > looksAtOnce {
		t.Errorf("batches %v, %d files opened, at most %d at once", c.expected, c.asked, c.most)
	}
}

// TestLookInAFolder: a store that knows none of all this.
func TestLookInAFolder(t *testing.T) {
	st, root := folder(t, map[string]string{"a/b": "words"})
	info, err := st.Stat(t.Context(), "/a/b")
	must(t, err)
	l := NewLooker(LookerOptions{Stores: stores{home: st}})
	want := plan.File{Path: "/a/b", Identity: string(info.Identity), Size: 5, Blocks: 1, Replicas: 1}
	for _, w := range []plan.File{want, {Path: "/a"}, {Path: "/c"}} {
		if f := l.Look(t.Context(), []string{w.Path}); len(f) != 1 || f[0] != w {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
	write(t, filepath.Join(root, "a/b"), "other")
	if f := l.Look(t.Context(), []string{"/a/b"}); f[0].Identity == want.Identity {
		t.Error("another content has the same identity")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f := l.Look(ctx, []string{"/a/b"}); f[0].Identity != "" {
		t.Errorf("%+v", f)
	}
}

func TestInspect(t *testing.T) {
	const zip = "PK\x03\x04" + "PK\x05\x06" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	st, root := folder(t, map[string]string{
		"step-1/model.safetensors":                               "\x02\x00\x00\x00\x00\x00\x00\x00{}",
		"global_step2/mp_rank_00_model_states.pt":                zip,
		"global_step2/zero_pp_rank_0_mp_rank_00_optim_states.pt": zip,
		"cut/model.safetensors.index.json":                       `{"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors"}}`,
		"nothing/readme":                                         "words",
	})
	labels := map[string]string{"team": "vision"}
	var failing error
	l := NewLooker(LookerOptions{
		Stores: stores{home: st},
		Labels: func(_ context.Context, _ store.Store, path string) (map[string]string, error) { return labels, failing },
	})
	whole := l.Inspect(t.Context(), "/step-1")
	if !whole.Complete || whole.Identity == "" || whole.Bytes != 10 || whole.Layout != "safetensors" || whole.Problem != "" ||
		whole.Labels["team"] != "vision" {
		t.Errorf("%+v", whole)
	}
	if c := l.Inspect(t.Context(), "/global_step2"); !c.Complete || c.Identity == "" || c.Layout != "deepspeed" {
		t.Errorf("a layout that does not say how many ranks there are: %+v", c)
	}
	if c := l.Inspect(t.Context(), "/cut"); c.Complete || c.Problem == "" || c.Identity == "" {
		t.Errorf("%+v", c)
	}
	for path, word := range map[string]string{"/missing": "there is no checkpoint", "/nothing": "no checkpoint"} {
		if c := l.Inspect(t.Context(), path); c.Complete || c.Identity != "" || !strings.Contains(c.Problem, word) {
			t.Errorf("%+v", c)
		}
	}
	failing = errors.New("labels cannot be read")
	if c := l.Inspect(t.Context(), "/step-1"); c.Complete || c.Identity != "" || !strings.Contains(c.Problem, "labels") {
		t.Errorf("without labels policy cannot decide: %+v", c)
	}
	failing = nil
	asked := 0
	l.o.testing.pause = func(context.Context, time.Duration) error { return nil }
	l.o.Labels = func(ctx context.Context, _ store.Store, _ string) (map[string]string, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("labels may take as long as they like")
		}
		if asked++; asked == 1 {
			return nil, store.ErrUnavailable
		}
		return labels, nil
	}
	if c := l.Inspect(t.Context(), "/step-1"); !c.Complete || c.Labels["team"] != "vision" || asked != 2 {
		t.Errorf("labels that could not be read at first: %+v", c)
	}
	must(t, os.WriteFile(filepath.Join(root, "step-1/model.safetensors"), []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o600))
	must(t, os.Chtimes(filepath.Join(root, "step-1/model.safetensors"), time.Unix(1, 0), time.Unix(1, 0)))
	if c := l.Inspect(t.Context(), "/step-1"); c.Identity == whole.Identity {
		t.Error("another version has the same identity")
	}
}
