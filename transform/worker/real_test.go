package worker

import (
	"bytes"
	"errors"
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
		t.Skip("SKIPPED: no photographs found")
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

func BenchmarkCall(b *testing.B) {
	path := os.Args[0]
	for _, c := range []struct {
		name string
		size int
	}{{"empty", 3}, {"crop-224", 224 * 224 * 3}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := New(Options{Path: path, MemoryLimit: fakeMemory, Workers: 1, testing: testKnobs{args: []string{"fake=good"}}})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			job, in, out := Job{Plan: decodePlan(b, "")}, make([]byte, c.size), make([]byte, c.size)
			b.SetBytes(int64(c.size))
			for b.Loop() {
				if _, err := p.Run(b.Context(), job, Part{Data: in}, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStart(b *testing.B) {
	path, err := buildReal()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := New(Options{Path: path, Workers: 1})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Golden(b.Context()); err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
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
