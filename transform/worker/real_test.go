package worker

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

var buildReal = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stepahead-worker")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, Program)
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/"+Program).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// realPool runs the worker program of this tree.
func realPool(t testing.TB, o Options) *Pool {
	t.Helper()
	path, err := buildReal()
	if err != nil {
		t.Fatalf("building the worker program: %v", err)
	}
	o.Path = path
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func photos(t testing.TB) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(testdata.Path(t, "photos"), "*", "*.jp*g"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths[:min(len(paths), 40)] {
		if found[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) == 0 {
		testdata.Missing(t, "photographs")
	}
	return found
}

const trainPlan = `,{"op":"RandomResizedCrop","size":224},{"op":"RandomHorizontalFlip"}`

func TestTheRealWorkerTransformsPhotographs(t *testing.T) {
	p := realPool(t, Options{Workers: 2, Idle: true})
	plan := decodePlan(t, trainPlan)
	golden, err := p.Golden(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Collect(maps.Keys(golden))
	for _, id := range plan.Identities() {
		if !slices.Contains(known, id) {
			t.Errorf("the worker has no golden digest for %s; it has %v", id, known)
		}
	}
	spec, _ := plan.Fixed()
	out, again := make([]byte, spec.Bytes()), make([]byte, spec.Bytes())
	for name, data := range photos(t) {
		job := Job{Plan: plan, Key: transform.Key{Seed: 7, Sample: uint64(len(data))}}
		res, err := p.Run(t.Context(), job, Part{Name: name, Data: data}, out)
		if err != nil {
			var e *transform.Error
			if errors.As(err, &e) && e.Content() {
				continue // a file that nobody can read
			}
			t.Fatal(err)
		}
		second, err := p.Run(t.Context(), job, Part{Name: name, Data: data}, again)
		if err != nil || second.CRC != res.CRC || !bytes.Equal(out, again) || !res.Spec.Equal(spec) {
			t.Errorf("%s: two runs differ: %+v, %+v, %v", name, res, second, err)
		}
	}
	if s := p.Stats(); s.Killed[reasonCrash]+s.Killed[reasonDeadline] != 0 {
		t.Errorf("stats are %+v", s)
	}
}

// Photographs, a file that nobody can read and plans of both kinds in one batch become what each becomes alone.
func TestTheRealWorkerRunsBatches(t *testing.T) {
	p := realPool(t, Options{Workers: 1})
	plans := []*transform.Plan{decodePlan(t, trainPlan), decodePlan(t, `,{"op":"Resize","size":64}`)}
	parts := []Part{{Name: "html", Data: []byte("<!DOCTYPE html><html>")}, {Name: "empty"}}
	for name, data := range photos(t) {
		parts = append(parts, Part{Name: name, Data: data})
	}
	var items []Item
	for i, in := range parts {
		for _, plan := range plans {
			items = append(items, Item{Job: Job{Plan: plan, Key: transform.Key{Sample: uint64(i)}}, In: in, Out: make([]byte, 224*224*3)})
		}
	}
	for i, o := range runBatch(t.Context(), p, items) {
		out := make([]byte, len(items[i].Out))
		want, err := p.Run(t.Context(), items[i].Job, items[i].In, out)
		if fmt.Sprint(o.Err) != fmt.Sprint(err) || o.Result.CRC != want.CRC || !bytes.Equal(items[i].Out[:want.Bytes], out[:want.Bytes]) {
			t.Errorf("%s: in a batch %+v, %v; alone %+v, %v", items[i].In.Name, o.Result, o.Err, want, err)
		}
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestTheRealWorkerNamesBadContent(t *testing.T) {
	p := realPool(t, Options{Workers: 1})
	out := make([]byte, 1<<20)
	for name, data := range map[string]string{"empty": "", "html": "<!DOCTYPE html><html>", "stub": "\x89PNG\r\n\x1a"} {
		_, err := p.Run(t.Context(), Job{Plan: decodePlan(t, "")}, Part{Name: name, Data: []byte(data)}, out)
		var e *transform.Error
		if !errors.As(err, &e) || !e.Content() || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("stats are %+v", s)
	}
}

// Whatever this machine offers is in force on every thread, and on one that offers all of it nothing is missing.
func TestTheRealWorkerIsConfined(t *testing.T) {
	all := []string{"process", "rlimits", "no_new_privs", "landlock", "landlock_net", "landlock_scope", "seccomp", "sched_idle"}
	p := realPool(t, Options{Workers: 1, Idle: true, RequireIsolation: all})
	if _, err := p.Golden(t.Context()); err != nil {
		testdata.Missing(t, "a kernel and a container that offer seccomp filters and Landlock version 6: %v", err)
	}
	if got := p.Stats().Isolation; got != strings.Join(all, "+") {
		t.Errorf("isolation is %s", got)
	}
	for w := range p.live {
		threads, err := filepath.Glob(procPath(w.cmd.Process.Pid, "task/*/status"))
		if err != nil || len(threads) == 0 {
			t.Fatal(threads, err)
		}
		for _, path := range threads {
			status, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
				t.Errorf("%s: %v, %s", path, err, status)
			}
		}
	}
}

// A large picture whose intermediate results lie in the heap leaves a worker about as small as it was.
func TestTheRealWorkerGivesMemoryBack(t *testing.T) {
	p := realPool(t, Options{Workers: 1})
	var large bytes.Buffer
	if err := jpeg.Encode(&large, image.NewGray(image.Rect(0, 0, 4000, 3000)), nil); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 300*300*3)
	job := Job{Plan: decodePlan(t, `,{"op":"Resize","size":3500},{"op":"RandomHorizontalFlip","p":1},{"op":"Resize","size":200}`)}
	res, err := p.Run(t.Context(), job, Part{Data: large.Bytes()}, out)
	if err != nil || res.PeakRSS < 40<<20 {
		t.Fatalf("the peak is %d bytes, %v", res.PeakRSS, err)
	}
	var now int
	for w := range p.live {
		waitFor(t, func() bool { // it is given back after the answer
			now = anonymous(t, w.cmd.Process.Pid)
			return now < 24<<20
		})
	}
	t.Logf("peak %d MiB, then %d MiB of its own", res.PeakRSS>>20, now>>20)
}

// anonymous returns the bytes of a process's own memory.
func anonymous(t *testing.T, pid int) (bytes int) {
	t.Helper()
	status, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscanf(after, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// A training process holds many descriptors that its libraries forgot to mark close-on-exec.
func TestTheRealWorkerStartsWithManyLeakedDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for range 3 * maxFiles {
		fd, err := unix.Dup(int(null.Fd())) // without close-on-exec
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	p := realPool(t, Options{Workers: 1})
	if _, err := p.Golden(t.Context()); err != nil {
		t.Fatal(err)
	}
	for w := range p.live {
		fds, err := os.ReadDir(procPath(w.cmd.Process.Pid, "fd"))
		if err != nil || len(fds) > maxFiles/2 {
			t.Errorf("the worker holds %d descriptors, %v", len(fds), err)
		}
	}
}

// BenchmarkCall measures what a job costs beside its pixels, per item, one at a time and in batches.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name  string
		size  int
		items int
	}{{"empty", 3, 1}, {"crop-224", 224 * 224 * 3, 1}, {"crop-224-batch-16", 224 * 224 * 3, 16}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := New(Options{Path: os.Args[0], MemoryLimit: fakeMemory, Workers: 1, testing: testKnobs{args: []string{"fake=good"}}})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			in := strings.Repeat("x", c.size)
			items, outcomes := batchOf(b, slices.Repeat([]string{in}, c.items)...), make([]Outcome, c.items)
			b.SetBytes(int64(c.size))
			for n := 0; b.Loop(); n++ {
				if n%c.items != 0 {
					continue // of the batch that was run just before
				}
				p.RunBatch(b.Context(), items, outcomes)
				if err := outcomes[0].Err; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStart measures a worker from fork to Welcome: loading, lock-down, golden digests.
func BenchmarkStart(b *testing.B) {
	path, err := buildReal()
	if err != nil {
		b.Fatal(err)
	}
	var cpu time.Duration
	for b.Loop() {
		p, err := New(Options{Path: path, Workers: 1})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Golden(b.Context()); err != nil {
			b.Fatal(err)
		}
		p.Close()
		cpu += p.CPU()
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "worker-cpu-ns/op")
}

func BenchmarkPhotographs(b *testing.B) {
	p := realPool(b, Options{Workers: 1})
	plan := decodePlan(b, trainPlan)
	spec, _ := plan.Fixed()
	out := make([]byte, spec.Bytes())
	all := photos(b)
	var parts []Part
	for name, data := range all {
		parts = append(parts, Part{Name: name, Data: data})
	}
	before, n := p.CPU(), 0
	start := time.Now()
	for b.Loop() {
		if _, err := p.Run(b.Context(), Job{Plan: plan, Key: transform.Key{Sample: uint64(n)}}, parts[n%len(parts)], out); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(p.CPU()-before)/float64(time.Since(start)), "worker-cpu/wall")
}
