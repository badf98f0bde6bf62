package dir_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/store/storetest"
)

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func read(ctx context.Context, f store.File, off int64, n int) ([]byte, error) {
	buf := make([]byte, n)
	return buf, f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}})
}

// holders are the nodes of a file's block, the nearest first.
func holders(t testing.TB, s store.Store, name string, off int64) []string {
	t.Helper()
	rows, err := s.Locate(t.Context(), name, off, 1)
	must(t, err)
	var nodes []string
	for _, r := range rows {
		nodes = append(nodes, r.Node)
	}
	return nodes
}

func setDown(t testing.TB, s *dir.Store, node string) {
	t.Helper()
	write(t, s.Root(), ".stepahead/down", node, "")
}

func TestLocateBlocks(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{Node: "dn5"})
	storetest.Put(t, s, "/f", random(150_000))
	rows, err := s.Locate(t.Context(), "/f", 70_000, 80_000)
	must(t, err)
	if len(rows) != 6 {
		t.Fatalf("%d rows, want 2 blocks x 3 replicas: %+v", len(rows), rows)
	}
	for i, r := range rows {
		want := [2]int64{65536, 65536}
		if i >= 3 {
			want = [2]int64{131072, 150_000 - 131072}
		}
		if r.Off != want[0] || r.Len != want[1] {
			t.Errorf("row %d: %+v, want [%d, +%d)", i, r, want[0], want[1])
		}
	}
	for i := 0; i < len(rows); i += 3 {
		if slices.ContainsFunc(rows[i+1:i+3], func(r store.Replica) bool { return r.Node == "dn5" }) {
			t.Errorf("the reader's own node is not first: %+v", rows[i:i+3])
		}
	}
}

func TestDeadNodes(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	data := random(200_000)
	storetest.Put(t, s, "/f", data)
	f := storetest.Open(t, s, "/f")
	nodes := holders(t, s, "/f", 0)
	for _, node := range nodes {
		got, err := read(t.Context(), f, 0, 60_000)
		if err != nil || !bytes.Equal(got, data[:60_000]) {
			t.Fatalf("before %s is down: %v", node, err)
		}
		setDown(t, s, node)
		err = f.(store.ReplicaReader).ReadReplica(t.Context(), node, []store.Range{{Buf: make([]byte, 10)}})
		if store.ClassOf(err) != store.Retryable || !strings.Contains(err.Error(), node) {
			t.Fatalf("reading from %s, which is down: %v", node, err)
		}
	}
	_, err := read(t.Context(), f, 100, 10)
	if store.ClassOf(err) != store.Retryable {
		t.Fatalf("all replicas down: %v has class %s, want retryable", err, store.ClassOf(err))
	}
	for _, part := range append(nodes, "/f", "block 0", "offset 100", "all 3 replicas") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not name %q", err, part)
		}
	}
	must(t, os.Remove(filepath.Join(s.Root(), ".stepahead/down", nodes[1])))
	if got, err := read(t.Context(), f, 0, 60_000); err != nil || !bytes.Equal(got, data[:60_000]) {
		t.Fatalf("one node is back: %v", err)
	}
}

// A byte is wrong in one replica, then in all. Each replica has bytes of its own, so a reader that
// checks sums finds the good one, and finds none when there is none.
func TestCorruptReplica(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	data := random(100_000)
	storetest.Put(t, s, "/d/f", data)
	bad := slices.Clone(data)
	bad[777] ^= 1
	nodes := holders(t, s, "/d/f", 777)
	for i, node := range nodes {
		write(t, s.Root(), ".stepahead/replicas", node, "d/f", string(bad))
		f := storetest.Open(t, s, "/d/f")
		got, err := read(t.Context(), f, 700, 100)
		if err != nil || !bytes.Equal(got, bad[700:800]) {
			t.Fatalf("the nearest replica is damaged, and the read shows it not: %v", err)
		}
		for k, other := range nodes {
			want := data
			if k <= i {
				want = bad
			}
			buf := make([]byte, 100)
			err := f.(store.ReplicaReader).ReadReplica(t.Context(), other, []store.Range{{Off: 700, Buf: buf}})
			if err != nil || !bytes.Equal(buf, want[700:800]) {
				t.Fatalf("%d replicas damaged: %s has the wrong bytes, %v", i+1, other, err)
			}
		}
	}
}

func TestShortReplica(t *testing.T) {
	s := newCluster(t, cluster(), dir.Options{})
	data := random(60_000)
	storetest.Put(t, s, "/f", data)
	nodes := holders(t, s, "/f", 0)
	write(t, s.Root(), ".stepahead/replicas", nodes[0], "f", string(data[:1000]))
	f := storetest.Open(t, s, "/f")
	if got, err := read(t.Context(), f, 500, 1000); err != nil || !bytes.Equal(got, data[500:1500]) {
		t.Fatalf("one short replica: %v", err)
	}
	for _, node := range nodes[1:] {
		write(t, s.Root(), ".stepahead/replicas", node, "f", string(data[:1000]))
	}
	if _, err := read(t.Context(), f, 500, 1000); store.ClassOf(err) != store.Corrupt {
		t.Fatalf("all replicas short: %v has class %s", err, store.ClassOf(err))
	}
	// A node that is down may hold the good bytes: then the file must not count as corrupt, or a reader
	// would replace a sample because of an outage.
	setDown(t, s, nodes[2])
	if _, err := read(t.Context(), f, 500, 1000); store.ClassOf(err) != store.Retryable {
		t.Fatalf("two short, one down: %v has class %s", err, store.ClassOf(err))
	}
}

func TestChangedInPlace(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"grown":     func(p string) error { return os.Truncate(p, 200_000) },
		"cut":       func(p string) error { return os.Truncate(p, 500) },
		"emptied":   func(p string) error { return os.Truncate(p, 0) },
		"rewritten": func(p string) error { return os.WriteFile(p, make([]byte, 100_000), 0o644) },
		"dated":     func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1e9, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, cluster(), dir.Options{})
			storetest.Put(t, s, "/f", random(100_000))
			// The clock of a file system may have ticks of some milliseconds.
			must(t, os.Chtimes(filepath.Join(s.Root(), "f"), time.Time{}, time.Unix(1e9, 0)))
			f := storetest.Open(t, s, "/f")
			must(t, change(filepath.Join(s.Root(), "f")))
			_, err := read(t.Context(), f, 100, 90_000)
			if store.ClassOf(err) != store.IdentityChanged {
				t.Fatalf("%v has class %s, want identity-changed", err, store.ClassOf(err))
			}
			now, statErr := s.Stat(t.Context(), "/f")
			must(t, statErr)
			for _, id := range []store.Identity{f.Identity(), now.Identity} {
				if !strings.Contains(err.Error(), string(id)) {
					t.Errorf("%v does not name %s", err, id)
				}
			}
			if f.Size() != 100_000 {
				t.Errorf("the pinned size is now %d", f.Size())
			}
		})
	}
}

// fakeClock lets time pass by sleeping only.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.slept = append(c.slept, d)
	return ctx.Err()
}

func slow(latencyUS, bandwidth int64) dir.Topology {
	return dir.Topology{
		Nodes:     []dir.Node{{Name: "dn1", LatencyUS: latencyUS, BandwidthBytesPerS: bandwidth}},
		BlockSize: 1 << 20, Replication: 1,
	}
}

func elapsed(t *testing.T, topology dir.Topology, o dir.Options, do func(f store.File)) time.Duration {
	t.Helper()
	clock := &fakeClock{now: time.Unix(1e9, 0)}
	o.Clock = clock
	s := newCluster(t, topology, o)
	storetest.Put(t, s, "/f", make([]byte, 1<<20))
	f := storetest.Open(t, s, "/f")
	before := clock.Now()
	do(f)
	return clock.Now().Sub(before)
}

func TestTimeOfANode(t *testing.T) {
	ranges := func(n, size int) (r []store.Range) {
		for i := range n {
			r = append(r, store.Range{Off: int64(i) * 1000, Buf: make([]byte, size)})
		}
		return r
	}
	for _, c := range []struct {
		name               string
		latency, bandwidth int64
		node               string
		ranges             []store.Range
		want               time.Duration
	}{
		{"free", 0, 0, "", ranges(10, 1000), 0},
		{"one latency a request", 300, 0, "", ranges(1, 10), 300 * time.Microsecond},
		{"ranges of a block share it", 300, 0, "", ranges(100, 10), 300 * time.Microsecond},
		{"nothing to read, no request", 300, 1000, "", ranges(3, 0), 0},
		{"bandwidth", 0, 1 << 20, "", ranges(1, 1<<19), 500 * time.Millisecond},
		{"both", 1000, 1 << 20, "", ranges(1, 1<<20), time.Second + time.Millisecond},
		{"one's own node has a disk but no network", 1000, 1 << 20, "dn1", ranges(1, 1<<20), time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := elapsed(t, slow(c.latency, c.bandwidth), dir.Options{Node: c.node}, func(f store.File) {
				must(t, f.ReadRanges(t.Context(), c.ranges))
			})
			if diff := got - c.want; diff.Abs() > time.Microsecond { // rounding of pieces
				t.Errorf("took %v, want %v", got, c.want)
			}
		})
	}
}

func TestReadersShareANodesLink(t *testing.T) {
	got := elapsed(t, slow(0, 1<<20), dir.Options{}, func(f store.File) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := read(t.Context(), f, 0, 1<<20); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	// The fake clock adds up what concurrent sleepers sleep, so it shows at least the time of the link.
	if got < 4*time.Second-time.Millisecond {
		t.Errorf("4 MiB over a link of 1 MiB/s took %v", got)
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	for _, topology := range []dir.Topology{slow(3600e6, 0), slow(0, 1024)} {
		s := newCluster(t, topology, dir.Options{}) // with the machine's clock: a failure hangs
		storetest.Put(t, s, "/f", make([]byte, 1<<20))
		f := storetest.Open(t, s, "/f")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := read(ctx, f, 0, 1<<20)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || store.ClassOf(err) != store.ClassUnknown {
			t.Errorf("%v, want the end of the context", err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name     string
		topology dir.Topology
	}{{"one", dir.Topology{Nodes: []dir.Node{{Name: "dn1"}}}}, {"cluster", cluster()}} {
		b.Run(c.name, func(b *testing.B) {
			s := newCluster(b, c.topology, dir.Options{})
			storetest.Put(b, s, "/f", random(1<<20))
			f := storetest.Open(b, s, "/f")
			r := []store.Range{{Off: 1000, Buf: make([]byte, 50_000)}}
			b.SetBytes(50_000)
			b.ReportAllocs()
			for b.Loop() {
				if err := f.ReadRanges(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
