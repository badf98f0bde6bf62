package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/agent"
	"github.com/stepahead-io/stepahead/binfmt/pack"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/store/dir"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is photographs on three simulated nodes, with agents and workers as they really are.
type site struct {
	root, worker string
	stop         map[string]func()
}

var siteNodes = []string{"dn1", "dn2", "dn3"}

func newSite(t *testing.T, photographs int) *site {
	t.Helper()
	s := &site{root: t.TempDir(), stop: map[string]func(){}}
	s.worker = filepath.Join(t.TempDir(), worker.Program)
	if text, err := exec.Command("go", "build", "-o", s.worker, "../cmd/stepahead-worker").CombinedOutput(); err != nil {
		t.Fatalf("building the worker: %v\n%s", err, text)
	}
	top := dir.Topology{BlockSize: 1 << 20, Replication: 2}
	for _, n := range siteNodes {
		top.Nodes = append(top.Nodes, dir.Node{Name: n})
	}
	must(t, dir.Init(s.root, top))
	photos := filepath.Join(t.TempDir(), "class")
	must(t, os.Mkdir(photos, 0o755))
	for i := range photographs {
		img := image.NewRGBA(image.Rect(0, 0, 500, 375))
		for p := range 500 * 375 {
			x, y := p%500, p/500
			img.SetRGBA(x, y, color.RGBA{uint8(x*y>>7 + i), uint8(x ^ y), uint8(x + i*y>>3), 255})
		}
		var b bytes.Buffer
		must(t, jpeg.Encode(&b, img, nil))
		must(t, os.WriteFile(filepath.Join(photos, fmt.Sprintf("%04d.jpg", i)), b.Bytes(), 0o644))
	}
	st, _, err := dir.Open(s.root, dir.Options{})
	must(t, err)
	defer st.Close()
	_, err = pack.Pack(t.Context(), pack.Folder{Root: filepath.Dir(photos)}, st, "/photos", pack.Options{BinSize: 8 << 20})
	must(t, err)
	return s
}

func (s *site) start(t *testing.T, node string) {
	t.Helper()
	st, _, err := dir.Open(s.root, dir.Options{Node: node})
	must(t, err)
	pool, err := worker.New(worker.Options{Path: s.worker, Workers: 1, Idle: true})
	must(t, err)
	a, err := agent.New(agent.Options{
		Node: node, Store: st, CacheDir: filepath.Join(s.root, "cache-"+node), Pool: pool, Load: agent.Steady(0.25),
		Registry: "/.stepahead/agents", Keys: auth.Insecure(), Dwell: time.Second,
	})
	must(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, lis) }()
	s.stop[node] = sync.OnceFunc(func() {
		cancel()
		must(t, <-done)
		must(t, pool.Close())
		must(t, st.Close())
	})
	t.Cleanup(s.stop[node])
	entry := filepath.Join(s.root, ".stepahead/agents", node+".json")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(entry); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("agent %s is not in the registry", node)
		}
	}
}

func (s *site) open(t *testing.T, rank, world int) *loader.Loader {
	t.Helper()
	st, _, err := dir.Open(s.root, dir.Options{})
	must(t, err)
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":[224,224]},{"op":"RandomHorizontalFlip"}]}`))
	must(t, err)
	l, err := loader.Open(t.Context(), loader.Options{
		Store: st, Dir: "/photos", URL: "/photos", CacheDir: filepath.Join(s.root, "cache"), GlobalBatch: 32, Seed: 11,
		Rank: rank, World: world, Plans: map[string]*transform.Plan{"image": plan}, Workers: 1, WorkerPath: s.worker,
		Agents: []string{loader.AgentsAuto}, Job: "paced", Run: "1",
	})
	must(t, err)
	t.Cleanup(func() {
		must(t, l.Close())
		must(t, st.Close())
	})
	return l
}

// share trains steps steps of 250 ms on all ranks in lockstep, and returns the prepared share of them.
func share(t *testing.T, ranks []*loader.Loader, steps int) float64 {
	t.Helper()
	var before, after, parts int64
	for _, l := range ranks {
		before += l.Stats().Prepared
	}
	for range steps {
		var group sync.WaitGroup
		for _, l := range ranks {
			group.Go(func() {
				b, err := l.Next(t.Context())
				if errors.Is(err, io.EOF) { // the epoch's end
					b, err = l.Next(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				b.Release()
			})
		}
		group.Wait()
		time.Sleep(250 * time.Millisecond) // the step's work on the accelerator
	}
	for _, l := range ranks {
		s := l.Stats()
		after += s.Prepared
		t.Logf("rank: %d steps, by reason %v, nodes %v", s.Steps, s.ByReason, s.ByNode)
		parts += int64(32/len(ranks)) * int64(steps)
	}
	return float64(after-before) / float64(parts)
}

// TestPreparedShareOfAPacedJob: two ranks at 250 ms a step find 90 % of their samples prepared after the
// first window; so they do again after an agent was lost and came back.
func TestPreparedShareOfAPacedJob(t *testing.T) {
	testdata.Soak(t)
	s := newSite(t, 1024)
	for _, n := range siteNodes {
		s.start(t, n)
	}
	ranks := []*loader.Loader{s.open(t, 0, 2), s.open(t, 1, 2)}
	t.Logf("first window: %.3f", share(t, ranks, 16))
	if got := share(t, ranks, 40); got < 0.9 {
		t.Errorf("prepared share %.3f after the first window, want 0.9", got)
	}
	s.stop["dn2"]()
	if got := share(t, ranks, 8); got < 0.3 || got > 0.99 {
		t.Errorf("prepared share %.3f while an agent is gone", got)
	}
	s.start(t, "dn2")
	best := 0.0
	for end := time.Now().Add(90 * time.Second); best < 0.9 && time.Now().Before(end); { // ranks look for agents once a minute
		best = max(best, share(t, ranks, 16))
	}
	if best < 0.9 {
		t.Errorf("prepared share %.3f after the agent came back, want 0.9", best)
	}
}
