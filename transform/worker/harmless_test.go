package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// everyFile returns the names of all files of the test data: images, and everything that is none.
func everyFile(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(testdata.Path(t, "."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 100 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	return names
}

// answer is what a pool says of one file, for comparing: the pixels' shape and sum, or the error.
func answer(o Outcome) string {
	if o.Err != nil {
		return o.Err.Error()
	}
	return fmt.Sprintf("%v %08x", o.Result.Spec.Shape, o.Result.CRC)
}

// harmless says what is wrong with an outcome, whatever its input was.
func harmless(name string, err error) string {
	var e *transform.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e) || !e.Content():
		return "the error is not about the content"
	case e.Op == "" || e.Detail == "" || !strings.Contains(err.Error(), filepath.Base(name)):
		return "the error names no operator, no facts or not the file"
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }):
		return "the error cannot be shown"
	}
	return ""
}

// Any file at all, from photographs to videos and archives, becomes an image or a named error about its content, the same from one
// worker and from several, alone and in batches, in any order; no worker is lost, and memory stays bounded.
func TestAnyFileIsHarmless(t *testing.T) {
	names := everyFile(t)
	plan := decodePlan(t, trainPlan)
	spec, _ := plan.Fixed()
	item := func(i int) Item {
		data, err := os.ReadFile(names[i])
		if err != nil {
			t.Fatal(err)
		}
		return Item{Job{plan, transform.Key{Seed: 3, Sample: uint64(i)}}, Part{filepath.Base(names[i]), data}, make([]byte, spec.Bytes())}
	}
	one := realPool(t, Options{Workers: 1, Deadline: 30 * time.Second})
	before := residentBytes(t)
	want, images, peak := make([]string, len(names)), 0, int64(0)
	for i := range names {
		it := item(i)
		res, err := one.Run(t.Context(), it.Job, it.In, it.Out)
		if bad := harmless(names[i], err); bad != "" {
			t.Errorf("%s: %s: %v", names[i], bad, err)
		}
		if err == nil {
			images++
		}
		want[i], peak = answer(Outcome{res, err}), max(peak, res.PeakRSS)
	}
	several := realPool(t, Options{Workers: 3, Deadline: 30 * time.Second})
	for _, batch := range shuffled(len(names), 40) {
		items := make([]Item, len(batch))
		for k, i := range batch {
			items[k] = item(i)
		}
		for k, o := range runBatch(t.Context(), several, items) {
			if got := answer(o); got != want[batch[k]] {
				t.Errorf("%s: in a batch of several workers %s, alone %s", items[k].In.Name, got, want[batch[k]])
			}
		}
	}
	t.Logf("%d of %d files are images; a worker's peak is %d MiB", images, len(names), peak>>20)
	if images < 400 || peak > 512<<20 {
		t.Errorf("%d of %d files are images; the worker's memory reached %d bytes", images, len(names), peak)
	}
	if grown := residentBytes(t) - before; grown > 256<<20 {
		t.Errorf("this process grew by %d bytes", grown)
	}
	for _, s := range []Stats{one.Stats(), several.Stats()} {
		if len(s.Killed) != 0 && s.Killed[reasonCrash]+s.Killed[reasonDeadline]+s.Killed[reasonProtocol] != 0 {
			t.Errorf("stats are %+v", s)
		}
	}
}

// shuffled deals the numbers below n into hands of at most size.
func shuffled(n, size int) (hands [][]int) {
	all := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for len(all) > 0 {
		k := min(size, len(all))
		hands, all = append(hands, all[:k]), all[k:]
	}
	return hands
}

// residentBytes returns the memory of this process, after giving back what is free.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s*(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10
}

// A bomb is refused by its header or stopped on the way: the error names the limit, and memory is not taken.
func TestBombsAreHarmless(t *testing.T) {
	p := realPool(t, Options{Workers: 1, Deadline: 30 * time.Second})
	plan := decodePlan(t, `,{"op":"Resize","size":[8,8]}`)
	out := make([]byte, 8*8*3)
	run := func(in []byte) (Result, error) {
		return p.Run(context.Background(), Job{Plan: plan}, Part{Name: "bomb", Data: in}, out)
	}
	res, err := run(pngOf(8, 8, 0, bytes.Repeat([]byte{0}, 8*25)))
	if err != nil {
		t.Fatal(err)
	}
	calm := res.PeakRSS
	for _, b := range bombs() {
		start := time.Now()
		res, err := run(b.in)
		if bad := harmless("bomb", err); bad != "" || b.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), b.says) {
			t.Errorf("%s: %v, want an error that says %q; %s", b.name, err, b.says, bad)
		}
		took := time.Since(start)
		if res.PeakRSS > calm+b.memory+int64(len(b.in)) || took > 20*time.Second {
			t.Errorf("%s (%d bytes): %d MiB more, allowed are %d and the file; after %v: %v", b.name, len(b.in), (res.PeakRSS-calm)>>20, b.memory>>20, took, err)
		}
		t.Logf("%s: %d KiB, %v: %v", b.name, (res.PeakRSS-calm)>>10, took, err)
		calm = max(calm, res.PeakRSS)
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("stats are %+v", s)
	}
}

// A picture that takes too long costs its worker, and the next one is served by another.
func TestTheRealWorkerIsKilledAtItsDeadline(t *testing.T) {
	p := realPool(t, Options{Workers: 1, Deadline: time.Second})
	job, out := Job{Plan: decodePlan(t, `,{"op":"Resize","size":[8,8]}`)}, make([]byte, 8*8*3)
	slow := jpegOf(0xC2, 13000, 13000, scan(0, 0, 1), bytes.Repeat(scan(0, 0, 0x10), 90), []byte("\xff\xd9"))
	start := time.Now()
	_, err := p.Run(t.Context(), job, Part{Name: "slow", Data: slow}, out)
	var e *transform.Error
	if !errors.As(err, &e) || e.Kind != transform.KindDeadline || !strings.Contains(err.Error(), "slow") {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	small := pngOf(8, 8, 0, make([]byte, 8*25))
	if _, err := p.Run(t.Context(), job, Part{Name: "small", Data: small}, out); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Started != 2 || s.Killed[reasonDeadline] != 1 {
		t.Errorf("stats are %+v", s)
	}
}

// sharedMemories counts the memories that this process shares with workers.
func sharedMemories(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "memfd:stepahead") {
			n++
		}
	}
	return n
}

// A worker that the kernel kills in the middle of a picture, as when memory runs out, is named within 5 s; its memory is freed
// and the next one serves.
func TestTheRealWorkerKilledByTheKernel(t *testing.T) {
	before := sharedMemories(t)
	p := realPool(t, Options{Workers: 1, Deadline: 2 * time.Minute})
	job, out := Job{Plan: decodePlan(t, `,{"op":"Resize","size":[8,8]}`)}, make([]byte, 8*8*3)
	small := pngOf(8, 8, 0, make([]byte, 8*25))
	if _, err := p.Run(t.Context(), job, Part{Name: "small", Data: small}, out); err != nil {
		t.Fatal(err)
	}
	var killed time.Time
	time.AfterFunc(300*time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		killed = time.Now()
		for w := range p.live {
			_ = w.cmd.Process.Kill()
		}
	})
	slow := jpegOf(0xC2, 13000, 13000, scan(0, 0, 1), bytes.Repeat(scan(0, 0, 0x10), 90), []byte("\xff\xd9"))
	_, err := p.Run(t.Context(), job, Part{Name: "slow", Data: slow}, out)
	p.mu.Lock()
	took := time.Since(killed)
	p.mu.Unlock()
	var e *transform.Error
	if !errors.As(err, &e) || e.Kind != transform.KindCrash || !strings.Contains(err.Error(), "slow") || !strings.Contains(err.Error(), "killed") || took > 5*time.Second {
		t.Errorf("%v, %v after it was killed", err, took)
	}
	if _, err := p.Run(t.Context(), job, Part{Name: "small", Data: small}, out); err != nil {
		t.Error(err)
	}
	p.Close()
	if after := sharedMemories(t); after > before {
		t.Errorf("%d shared memories are left, %d were there", after, before)
	}
}
