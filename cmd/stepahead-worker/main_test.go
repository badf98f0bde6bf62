package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/image"
	"github.com/stepahead-io/stepahead/transform/worker"
)

func TestRunByHandItExplainsItself(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--version"}, exitOK, "stepahead-worker version "},
		{[]string{"--help"}, exitOK, "stepahead transform"},
		{nil, exitUsage, "not run by hand"},
		{[]string{"--serve"}, exitUsage, "not run by hand"}, // nobody gave it descriptors
		{[]string{"--frobnicate"}, exitUsage, "frobnicate"},
		{[]string{"cat.jpg"}, exitUsage, "cat.jpg"},
	} {
		var out bytes.Buffer
		if code := run(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q gives %d and %q", c.args, code, &out)
		}
	}
}

func TestGoldenDigestsCoverEveryIdentity(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"--golden"}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1", "2"} {
		for _, id := range plan(t, version).Identities() {
			if len(got[id]) != 64 {
				t.Errorf("%s has the digest %q", id, got[id])
			}
		}
	}
}

func plan(t testing.TB, version string) *transform.Plan {
	t.Helper()
	p, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"},{"op":"RandomResizedCrop","size":224,"version":` + version + `},{"op":"RandomHorizontalFlip"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInheritedDescriptorsAreClosed(t *testing.T) {
	leak, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	// A folder of links as in /proc, so that the test does not close the test runner's own.
	dir := t.TempDir()
	name := filepath.Join(dir, jsonInt(int(leak.Fd())))
	if err := os.Symlink(os.DevNull, name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("anon_inode:[eventpoll]", filepath.Join(dir, "1000000")); err != nil {
		t.Fatal(err)
	}
	if err := closeInherited(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := leak.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "EOF") {
		t.Errorf("the leaked descriptor is still open: %v", err)
	}
}

func jsonInt(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// photograph returns a JPEG of the size that ImageNet's have, with detail everywhere.
func photograph(b *testing.B) []byte {
	img := stdimage.NewRGBA(stdimage.Rect(0, 0, 500, 375))
	seed := uint32(1)
	for i := range 500 * 375 {
		seed = seed*1664525 + 1013904223
		x, y := i%500, i/500
		img.Set(x, y, color.RGBA{uint8(x/2 + int(seed>>28)), uint8(y/2 + int(seed>>27)), uint8(x ^ y), 255})
	}
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// ownCPU returns the user and system time of this process: on a busy machine it says more than the clock.
func ownCPU() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkPhotograph compares the kernels called in this process with the same through a worker process; the difference is
// what isolation costs.
func BenchmarkPhotograph(b *testing.B) {
	data, p := photograph(b), plan(b, "2")
	spec, _ := p.Fixed()
	out := make([]byte, spec.Bytes())
	b.Run("in-process", func(b *testing.B) {
		var n uint64
		before := ownCPU()
		for b.Loop() {
			n++
			if _, err := image.Run(p, transform.Key{Sample: n % 64}, data, out, image.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(ownCPU()-before)/float64(n), "cpu-ns/op")
	})
	path := filepath.Join(b.TempDir(), "stepahead-worker")
	if text, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	pool, err := worker.New(worker.Options{Path: path, Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for _, n := range []int{1, worker.MaxBatch} {
		b.Run(fmt.Sprintf("worker-%d", n), func(b *testing.B) { benchmarkPool(b, pool, p, data, n) })
	}
}

// benchmarkPool runs n items a message.
func benchmarkPool(b *testing.B, pool *worker.Pool, p *transform.Plan, data []byte, n int) {
	spec, _ := p.Fixed()
	items, outcomes := make([]worker.Item, n), make([]worker.Outcome, n)
	for i := range items {
		items[i] = worker.Item{In: worker.Part{Data: data}, Out: make([]byte, spec.Bytes())}
	}
	var done uint64
	before, own := pool.CPU(), ownCPU()
	for b.Loop() {
		if done++; done%uint64(n) != 0 {
			continue // until a message is full
		}
		for i := range items {
			items[i].Job = worker.Job{Plan: p, Key: transform.Key{Sample: (done + uint64(i)) % 64}}
		}
		pool.RunBatch(b.Context(), items, outcomes)
		if err := outcomes[0].Err; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(pool.CPU()-before+ownCPU()-own)/float64(done), "cpu-ns/op")
	b.ReportMetric(float64(ownCPU()-own)/float64(done), "parent-cpu-ns/op")
}
