package loader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/hints"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// workerFolder holds the worker program, once it was built.
var workerFolder string

func removeWorker() {
	if workerFolder != "" {
		os.RemoveAll(workerFolder)
	}
}

// buildWorker builds the worker program of this tree, once.
var buildWorker = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "stepahead-loader-test")
	if err != nil {
		return "", err
	}
	workerFolder = folder
	path := filepath.Join(folder, worker.Program)
	out, err := exec.Command("go", "build", "-o", path, "../cmd/"+worker.Program).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// realCluster is photographs on simulated nodes, with real agents and real workers.
type realCluster struct {
	root, worker string
	store        *dir.Store
	stop         map[string]func() // ends an agent and waits for it
}

func newRealCluster(t *testing.T) *realCluster { return realClusterOf(t, "photos") }

// realClusterOf packs a folder of the test data.
func realClusterOf(t *testing.T, folder string) *realCluster {
	t.Helper()
	path, err := buildWorker()
	must(t, err)
	c := &realCluster{root: t.TempDir(), worker: path, stop: map[string]func(){}}
	top := dir.Topology{BlockSize: 1 << 20, Replication: 2}
	for _, n := range kitNodes {
		top.Nodes = append(top.Nodes, dir.Node{Name: n, Rack: "/r/" + n})
	}
	must(t, dir.Init(c.root, top))
	c.store, _, err = dir.Open(c.root, dir.Options{})
	must(t, err)
	src := pack.Folder{Root: testdata.Path(t, folder)}
	_, err = pack.Pack(t.Context(), src, c.store, "/photos", pack.Options{BinSize: 4 << 20, SkipBad: true})
	must(t, err)
	return c
}

// start starts the agent of a node, which registers.
func (c *realCluster) start(t *testing.T, node string) {
	st, _, err := dir.Open(c.root, dir.Options{Node: node})
	must(t, err)
	pool, err := worker.New(worker.Options{Path: c.worker, Workers: 1})
	must(t, err)
	a, err := agent.New(agent.Options{
		Node: node, Store: st, CacheDir: filepath.Join(c.root, "cache-"+node), Pool: pool, Load: agent.Steady(0.25),
		Registry: "/.stepahead/agents", Keys: auth.Insecure(), Workers: 1, Dwell: time.Second,
	})
	must(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, lis) }()
	c.stop[node] = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent %s: %v", node, err)
		}
		must(t, pool.Close())
	})
	t.Cleanup(func() { c.stop[node]() })
}

func (c *realCluster) options(t *testing.T) Options {
	return Options{
		Store: c.store, Dir: "/photos", URL: "/photos", CacheDir: filepath.Join(c.root, "cache"), GlobalBatch: 8, Seed: 11,
		Plans: map[string]*transform.Plan{"image": plan(t, `{"op":"DecodeImage","mode":"RGB"},{"op":"RandomResizedCrop","size":[64,64]},
			{"op":"RandomHorizontalFlip"},{"op":"Normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}`)},
		Workers: 2, WorkerPath: c.worker,
	}
}

// registered waits until n agents have registered.
func (c *realCluster) registered(t *testing.T, n int) {
	t.Helper()
	reg := hints.NewRegistry(store.Files{Store: c.store}, "/.stepahead/agents")
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		l, err := reg.List(t.Context(), 0)
		must(t, err)
		if len(l.Live) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d agents registered: %v", len(l.Live), n, l.Ignored)
		}
	}
}

// Real photographs, workers and agents: the same bytes with and without agents, one of which stops.
func TestRealAgentsSameBytes(t *testing.T) {
	c := newRealCluster(t)
	for _, n := range kitNodes {
		c.start(t, n)
	}
	c.registered(t, len(kitNodes))
	o := c.options(t)
	o.Agents, o.Job, o.CanaryEvery = []string{AgentsAuto}, "photos", 10
	o.testing.minWait = time.Minute // agents are never too late, however busy the machine
	l := mustOpen(t, o)
	const steps = 10
	got, taken := "", 0
	for end := time.Now().Add(time.Minute); l.Stats().Canaries == 0; taken += steps { // agents may hear of the job late
		if s := l.Stats(); time.Now().After(end) {
			t.Fatalf("%d prepared in %d steps: %v, hints %v, failed %d", s.Prepared, taken, s.ByReason, s.Hints, s.HintsFailed)
		}
		got += contents(t, l, steps)
	}
	c.stop["dn2"]()
	got += contents(t, l, steps)
	plain := mustOpen(t, c.options(t))
	if got != contents(t, plain, taken+steps) {
		t.Fatal("other bytes than without agents")
	}
	s := l.Stats()
	if s.CanaryMismatches != 0 {
		t.Fatalf("%d canaries, %d mismatches", s.Canaries, s.CanaryMismatches)
	}
	t.Logf("prepared %.0f %%, reasons %v, nodes %v, worker CPU %.2f s against %.2f s without agents",
		100*s.PreparedShare, s.ByReason, fmt.Sprint(s.ByNode), s.WorkerCPU, plain.Stats().WorkerCPU)
}

// Nine pictures that look alike are stored upright, mirrored and lying. The index has the sizes as stored, of which only the
// pictures' EXIF data tells how they are turned.
func TestTurnedPicturesHaveOneShape(t *testing.T) {
	c := realClusterOf(t, "jpeg/exif-orientation")
	o := c.options(t)
	o.GlobalBatch = 9
	o.Plans["image"] = plan(t, `{"op":"DecodeImage","orientation":"apply"},{"op":"Resize","size":60}`)
	l := mustOpen(t, o)
	b, err := l.Next(t.Context())
	must(t, err)
	defer b.Release()
	if f := field0(b, "image"); fmt.Sprint(f.Shape) != "[9 3 60 90]" {
		t.Errorf("shape %v", f.Shape)
	}
	o = c.options(t)
	o.Plans["image"] = plan(t, `{"op":"DecodeImage"},{"op":"Resize","size":60}`)
	o.GlobalBatch = 9
	var shape *ShapeError
	if _, err := mustOpen(t, o).Next(t.Context()); !errors.As(err, &shape) {
		t.Errorf("as stored they have two shapes, but %v", err)
	}
}
