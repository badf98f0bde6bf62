package save

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

var dcpNow = Options{Layout: TorchDCP(), Patience: -1, Limits: tight.Limits}

// wantEmpty wants no file at a path, nor what is hidden.
func wantEmpty(t *testing.T, st store.Store, name string) {
	t.Helper()
	infos, err := st.List(t.Context(), name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(infos) > 0 {
		t.Errorf("left at %s: %v, %v", name, infos, err)
	}
	if err := st.Remove(t.Context(), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something hidden is left: %v", err)
	}
}

// TestFullDisks: whichever call finds no room, the save fails with that and nothing is left.
func TestFullDisks(t *testing.T) {
	for _, fault := range []string{
		"fail(op=create, nth=1, err=full)", "fail(op=create, nth=2, err=full)", "fail(op=write, nth=1, err=full)",
		"fail(op=write, nth=3, err=full)", "fail(op=close, nth=1, err=full)", "fail(op=write, path=.metadata, err=full)", "fail(op=close, path=.metadata, err=full)",
	} {
		faults, err := store.ParseFaults(fault)
		must(t, err)
		st := store.Faults(newDir(t), faults)
		err = saveAll(t.Context(), st, "/step", torchSave(t, "plain"), dcpNow)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", fault, err)
		}
		if _, whole := complete(t, st, "/step"); whole {
			t.Errorf("%s: complete", fault)
		}
		wantEmpty(t, st, "/step")
	}
}

// TestWritesFailSoon: who goes on to write learns of a failure before the end.
func TestWritesFailSoon(t *testing.T) {
	faults, err := store.ParseFaults("fail(op=write, err=full)")
	must(t, err)
	w, err := Begin(t.Context(), store.Faults(newDir(t), faults), "/step", dcpNow)
	must(t, err)
	f, err := w.Create(shard(0))
	must(t, err)
	data := random(chunk, 1)
	for range 100 {
		if _, err = f.Write(data); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write: %v", err)
	}
	if _, err := w.Create(shard(1)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create: %v", err)
	}
	if err := f.End(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("End: %v", err)
	}
	if err := w.Commit(t.Context(), ".metadata", nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Commit: %v", err)
	}
	must(t, w.Abort(t.Context()))
}

// TestQuota: HDFS charges each block before it is written.
func TestQuota(t *testing.T) {
	c := hdfstest.Shared(t)
	root := c.Dir(t)
	st := openCluster(t, c, root, map[string]string{"dfs.blocksize": "1m"})
	for what, quota := range map[string][2]int64{"names": {4, 0}, "bytes": {0, 4 << 20}} {
		c.Mkdir(root + "/" + what)
		c.Quota(root+"/"+what, quota[0], quota[1])
		err := saveAll(t.Context(), st, "/"+what+"/step", torchSave(t, "plain"), dcpNow)
		if !errors.Is(err, syscall.EDQUOT) {
			t.Errorf("%s: %v", what, err)
		}
		wantEmpty(t, st, "/"+what+"/step")
	}
}

// TestTwoWriters: the second does not begin, and harms nothing.
func TestTwoWriters(t *testing.T) {
	t.Run("dir", func(t *testing.T) { st := newDir(t); twoWriters(t, st, st) })
	t.Run("HDFS", func(t *testing.T) {
		c := hdfstest.Shared(t)
		root := c.Dir(t)
		twoWriters(t, openCluster(t, c, root, nil), openCluster(t, c, root, nil))
	})
}

func twoWriters(t *testing.T, a, b store.Store) {
	w, err := Begin(t.Context(), a, "/step", dcpNow)
	must(t, err)
	put(t, w, shard(0), random(100, 1))
	if _, err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(t.Context(), b, "/step", dcpNow); !errors.Is(err, ErrInFlight) {
		t.Fatalf("a second Begin: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	patient := dcpNow
	patient.Patience = time.Hour
	if _, err := Begin(ctx, b, "/step", patient); !errors.Is(err, ErrInFlight) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a Begin that waits: %v", err)
	}
	must(t, w.Commit(t.Context(), ".metadata", []byte("first")))
	if _, err := Begin(t.Context(), b, "/step", dcpNow); !errors.Is(err, fs.ErrExist) || errors.Is(err, ErrInFlight) {
		t.Fatalf("a Begin over a complete save: %v", err)
	}
	over := dcpNow
	over.Overwrite = true
	w, err = Begin(t.Context(), b, "/step", over)
	must(t, err)
	if got := w.Removed(); !slices.Equal(got, []string{".metadata", shard(0)}) {
		t.Errorf("removed: %q", got)
	}
	put(t, w, shard(0), random(100, 2))
	must(t, w.Commit(t.Context(), ".metadata", []byte("second")))
	if got := storetest.Get(t, a, "/step/.metadata"); string(got) != "second" {
		t.Errorf("the marker is %q", got)
	}
}

func put(t *testing.T, w *Writer, name string, data []byte) {
	t.Helper()
	f, err := w.Create(name)
	must(t, err)
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	must(t, f.End())
}

// TestRanksOfAnOlderSave: its ranks live on and write into the path of the later one.
func TestRanksOfAnOlderSave(t *testing.T) {
	st := newDir(t)
	old, err := Join(t.Context(), st, "/step", dcpNow)
	must(t, err)
	w, err := Begin(t.Context(), st, "/step", dcpNow)
	must(t, err)
	put(t, old, shard(0), random(100, 1))
	if _, err := old.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, w, shard(0), random(100, 2))
	if err := w.Commit(t.Context(), ".metadata", nil); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Commit over another's file: %v", err)
	}
	must(t, w.Abort(t.Context()))
	if !slices.Equal(storetest.Get(t, st, "/step/"+shard(0)), random(100, 1)) {
		t.Error("the other's file was touched")
	}
	must(t, old.Abort(t.Context()))
	wantEmpty(t, st, "/step")
}

// TestCommitLooks: what is not there any more, or is another's, makes no complete save.
func TestCommitLooks(t *testing.T) {
	for what, harm := range map[string]func(st store.Store, name string) []Saved{
		"own file gone": func(st store.Store, name string) []Saved { must(t, st.Remove(t.Context(), name)); return nil },
		"own file replaced": func(st store.Store, name string) []Saved {
			must(t, store.ReplaceFile(t.Context(), st, name, random(100, 2)))
			return nil
		},
		"other's file gone": func(store.Store, string) []Saved { return []Saved{{Name: shard(1), Size: 7}} },
		"other's length": func(st store.Store, _ string) []Saved {
			storetest.Put(t, st, "/step/"+shard(1), random(8, 1))
			return []Saved{{Name: shard(1), Size: 7}}
		},
	} {
		st := newDir(t)
		w, err := Begin(t.Context(), st, "/step", dcpNow)
		must(t, err)
		put(t, w, shard(0), random(100, 1))
		if _, err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = w.Commit(t.Context(), ".metadata", nil, harm(st, "/step/"+shard(0))...)
		if class := store.ClassOf(err); class != store.IdentityChanged && class != store.NotFound {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := st.Stat(t.Context(), "/step/.metadata"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the marker is there: %v", what, err)
		}
		must(t, w.Abort(t.Context()))
	}
}

// TestLostClaims: who was thought dead does not commit.
func TestLostClaims(t *testing.T) {
	st := newDir(t)
	w, err := Begin(t.Context(), st, "/step", dcpNow)
	must(t, err)
	must(t, w.claim.Release())
	if err := w.Commit(t.Context(), ".metadata", nil); store.ClassOf(err) != store.Retryable {
		t.Errorf("Commit: %v", err)
	}
	must(t, w.Abort(t.Context()))
}

func TestBadCalls(t *testing.T) {
	st := newDir(t)
	for _, o := range []Options{{}, {Layout: Layout{Markers: []string{"["}}}, {Layout: TorchDCP(), Limits: Limits{Memory: 1}}, {Layout: TorchDCP(), Limits: Limits{Parts: -1}}, {Layout: TorchDCP(), Limits: Limits{PartSize: 1}}} {
		if _, err := Begin(t.Context(), st, "/step", o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	w, err := Begin(t.Context(), st, "/step", dcpNow)
	must(t, err)
	for _, name := range []string{"", ".", "..", "../x", "/x", "a//b", "a/"} {
		if _, err := w.Create(name); !errors.Is(err, store.ErrName) {
			t.Errorf("Create %q: %v", name, err)
		}
	}
	f, err := w.Create("below/" + shard(0))
	must(t, err)
	if _, err := w.Create("below/" + shard(0)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same name twice: %v", err)
	}
	if _, err := w.Wait(t.Context()); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Wait for a file without end: %v", err)
	}
	must(t, f.End())
	if err := f.End(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second End: %v", err)
	}
	if err := w.Commit(t.Context(), "other", nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a marker that is none: %v", err)
	}
	must(t, w.Commit(t.Context(), ".metadata", nil))
	if _, err := st.Stat(t.Context(), path.Join("/step/below", shard(0))); err != nil {
		t.Error(err)
	}
}

// TestCancelledSaves: the end of the context ends writes that wait for memory, and leaves nothing.
func TestCancelledSaves(t *testing.T) {
	faults, err := store.ParseFaults("delay(op=write, ms=3600000)")
	must(t, err)
	st := store.Faults(newDir(t), faults)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Begin(ctx, st, "/step", dcpNow)
	must(t, err)
	f, err := w.Create(shard(0))
	must(t, err)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := f.Write(random(5*chunk, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	if err := f.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	must(t, w.Abort(t.Context()))
	wantEmpty(t, st, "/step")
}
