package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(cacherEnv); args != "" {
		os.Exit(runCacher(args))
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newDir(t testing.TB) *dir.Store {
	t.Helper()
	s, _, err := dir.Open(t.TempDir(), dir.Options{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func newCluster(t testing.TB) *dir.Store {
	t.Helper()
	return newTopology(t, dir.Topology{Nodes: []dir.Node{{Name: "dn1"}, {Name: "dn2"}}, BlockSize: 32 << 10})
}

// newTyped is what storetest.RunTyped wants.
func newTyped(t testing.TB) *dir.Store {
	t.Helper()
	topology := dir.Topology{BlockSize: 1 << 20}
	for i := range 9 {
		topology.Nodes = append(topology.Nodes, dir.Node{Name: fmt.Sprint("dn", i), Types: []string{"ARCHIVE", "DISK"}})
	}
	return newTopology(t, topology)
}

func newTopology(t testing.TB, topology dir.Topology) *dir.Store {
	t.Helper()
	root := t.TempDir()
	must(t, dir.Init(root, topology))
	s, _, err := dir.Open(root, dir.Options{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// bare hides all optional interfaces, of the store and of its files.
type bare struct{ store.Store }

func (b bare) Open(ctx context.Context, name string) (store.File, error) {
	f, err := b.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return struct{ store.File }{f}, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{9}).Read(b)
	return b
}

func read(ctx context.Context, f store.File, off int64, n int) ([]byte, error) {
	buf := make([]byte, n)
	return buf, f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}})
}

func TestConformance(t *testing.T) {
	none, err := store.ParseFaults("fail(path=/never)")
	must(t, err)
	decorators := map[string]func(store.Store) store.Store{
		"retry": func(s store.Store) store.Store { return store.Retry(s, store.RetryOptions{}) },
		"limit": func(s store.Store) store.Store {
			return store.Limit(s, store.LimitOptions{Concurrency: 3, BytesPerSecond: 1 << 40})
		},
		"measure": func(s store.Store) store.Store { return store.Measure(s, new(store.Metrics)) },
		"faults":  func(s store.Store) store.Store { return store.Faults(s, none) },
		"stack": func(s store.Store) store.Store {
			s = store.Measure(store.Faults(s, none), new(store.Metrics))
			return store.Retry(store.Limit(s, store.LimitOptions{Concurrency: 2}), store.RetryOptions{})
		},
	}
	for name, wrap := range decorators {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store { return wrap(newCluster(t)) })
		})
	}
	t.Run("typed", func(t *testing.T) {
		storetest.RunTyped(t, func(t *testing.T) storetest.TypedStore {
			return decorators["stack"](newTyped(t)).(storetest.TypedStore)
		})
	})
	t.Run("bare", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return decorators["stack"](bare{newCluster(t)}) })
	})
}

// A read that fails twice and a byte that is flipped must not get past a stack in the usual order.
func TestRetryOverFaults(t *testing.T) {
	faults, err := store.ParseFaults("short(op=read, nth=1, count=2); fail(op=open, nth=1)")
	must(t, err)
	inner := newDir(t)
	data := random(10_000)
	storetest.Put(t, inner, "/f", data)
	var m store.Metrics
	s := store.Retry(store.Measure(store.Faults(inner, faults), &m), store.RetryOptions{Delay: 1})
	if got := storetest.Get(t, s, "/f"); !bytes.Equal(got, data) {
		t.Fatal("wrong bytes")
	}
	if c := counted(&m, "read"); c.Calls != 3 || c.Failures != 2 || c.Bytes != 10_000 {
		t.Errorf("reads: %+v, want 3 calls with 2 failures", c)
	}
	if c := counted(&m, "open"); c.Calls != 2 || c.Failures != 1 {
		t.Errorf("opens: %+v, want 2 calls with 1 failure", c)
	}
}

func counted(m *store.Metrics, operation string) store.OperationMetrics {
	for _, o := range m.Snapshot() {
		if o.Operation == operation {
			return o
		}
	}
	return store.OperationMetrics{}
}

// Optional interfaces pass through every decorator, except that a local path must not lead around limits and faults.
func TestOptionalInterfaces(t *testing.T) {
	inner := summing{newDir(t)}
	storetest.Put(t, inner, "/f", random(100))
	wantPath, _ := inner.LocalPath("/f")
	for name, c := range map[string]struct {
		s     store.Store
		local bool
	}{
		"retry":   {store.Retry(inner, store.RetryOptions{}), true},
		"measure": {store.Measure(inner, new(store.Metrics)), true},
		"limit":   {store.Limit(inner, store.LimitOptions{}), false},
		"faults":  {store.Faults(inner, nil), false},
		"retry over faults": {
			store.Retry(store.Faults(inner, nil), store.RetryOptions{}), false},
	} {
		if path, ok := c.s.(store.Localizer).LocalPath("/f"); ok != c.local || ok && path != wantPath {
			t.Errorf("%s: LocalPath %q, %v", name, path, ok)
		}
		if n := c.s.(store.BlockSizer).BlockSize(); n != inner.BlockSize() {
			t.Errorf("%s: BlockSize %d", name, n)
		}
		if err := c.s.(store.Replicator).SetReplication(t.Context(), "/f", 2); err != nil {
			t.Errorf("%s: SetReplication: %v", name, err)
		}
		if err := c.s.(store.FolderMaker).MakeFolder(t.Context(), "/folder"); err != nil {
			t.Errorf("%s: MakeFolder: %v", name, err)
		}
		f := storetest.Open(t, c.s, "/f")
		if sum, err := f.(store.Checksummer).CRC32C(t.Context()); err != nil || sum != theSum {
			t.Errorf("%s: CRC32C: %08x, %v", name, sum, err)
		}
		if err := f.(store.ReplicaReader).ReadReplica(t.Context(), "local", []store.Range{{Buf: make([]byte, 10)}}); err != nil {
			t.Errorf("%s: ReadReplica: %v", name, err)
		}
	}
	s := store.Retry(bare{inner}, store.RetryOptions{})
	f := storetest.Open(t, s, "/f")
	_, sum := f.(store.Checksummer).CRC32C(t.Context())
	_, parts := s.(store.PartsCreator).CreateParts(t.Context(), "/g")
	_, claim := s.(store.Claimer).Claim(t.Context(), "/g")
	for what, err := range map[string]error{
		"SetReplication": s.(store.Replicator).SetReplication(t.Context(), "/f", 2),
		"ReadReplica":    f.(store.ReplicaReader).ReadReplica(t.Context(), "local", nil),
		"CRC32C":         sum,
		"CreateParts":    parts,
		"Claim":          claim,
		"MakeFolder":     s.(store.FolderMaker).MakeFolder(t.Context(), "/folder"),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s of a store that cannot: %v", what, err)
		}
	}
	if n := s.(store.BlockSizer).BlockSize(); n != 0 {
		t.Errorf("BlockSize of a store without blocks: %d", n)
	}
}

// theSum is the CRC32C of every file of a summing store.
const theSum = 0x12345678

// summing is a folder whose files have a sum.
type summing struct{ *dir.Store }

func (s summing) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return summed{f, f.(store.ReplicaReader)}, nil
}

type summed struct {
	store.File
	store.ReplicaReader
}

func (summed) CRC32C(context.Context) (uint32, error) { return theSum, nil }

// counting counts opened and closed files.
type counting struct {
	store.Store
	opened, closed atomic.Int32
	largest        atomic.Int64 // bytes of one read
	opening        func()       // before each Open returns
}

func (c *counting) Open(ctx context.Context, name string) (store.File, error) {
	f, err := c.Store.Open(ctx, name)
	if c.opening != nil {
		c.opening()
	}
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	return &countingFile{f, c}, nil
}

type countingFile struct {
	store.File
	c *counting
}

func (f *countingFile) ReadRanges(ctx context.Context, r []store.Range) error {
	n := int64(0)
	for _, one := range r {
		n += int64(len(one.Buf))
	}
	for {
		old := f.c.largest.Load()
		if n <= old || f.c.largest.CompareAndSwap(old, n) {
			return f.File.ReadRanges(ctx, r)
		}
	}
}

func (f *countingFile) Close() error {
	f.c.closed.Add(1)
	return f.File.Close()
}

// The context may end while a successful Open is on its way back: the file must not stay open.
func TestRetryClosesWhatItDoesNotReturn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &counting{Store: newDir(t), opening: cancel}
	storetest.Put(t, c, "/f", nil)
	f, err := store.Retry(c, store.RetryOptions{}).Open(ctx, "/f")
	if err == nil {
		f.Close()
	}
	if c.opened.Load() != 1 || c.closed.Load() != 1 {
		t.Fatalf("%d opened, %d closed, error %v", c.opened.Load(), c.closed.Load(), err)
	}
}

func ExampleParseFaults() {
	faults, err := store.ParseFaults(`
# the third read of any .bin fails, and one replica has a wrong byte
fail(op=read, path=*.bin, nth=3)
corrupt(offset=4096, path="/a, b/*", node=dn1)`)
	fmt.Println(faults, err)
	// Output: [fail(op=read, path=*.bin, nth=3) corrupt(path="/a, b/*", node=dn1, offset=4096)] <nil>
}
