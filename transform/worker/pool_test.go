package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

func TestRunReturnsPixelsShapeAndSum(t *testing.T) {
	p := fakePool(t, "good", Options{})
	big := strings.Repeat("xyz", 100_000)
	got, res, err := run(t.Context(), t, p, big, len(big)+5)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("yz{", 100_000)
	if string(got) != want || res.Spec.Shape[1] != 100_000 {
		t.Errorf("got %d bytes of shape %v", len(got), res.Spec.Shape)
	}
	if sum := crc32.Checksum([]byte(want), crc32.MakeTable(crc32.Castagnoli)); res.CRC != sum {
		t.Errorf("CRC is %08x, want %08x", res.CRC, sum)
	}
	if res.PeakRSS < 1<<20 || res.CPU <= 0 {
		t.Errorf("peak memory %d, CPU %v", res.PeakRSS, res.CPU)
	}
	if s := p.Stats(); s.Running != 1 || s.Started != 1 || s.Isolation != "process+rlimits+no_new_privs" {
		t.Errorf("stats are %+v", s)
	}
}

func TestWorkersAreConfined(t *testing.T) {
	t.Setenv("STEPAHEAD_TOKEN", "secret")
	p := fakePool(t, "good", Options{Idle: true})
	if _, _, err := run(t.Context(), t, p, "limits", 6); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats().Isolation; !strings.HasSuffix(s, "+sched_idle") {
		t.Errorf("isolation is %q", s)
	}
	for w := range p.live {
		tasks, err := os.ReadDir(procPath(w.cmd.Process.Pid, "task"))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			stat, err := os.ReadFile(procPath(w.cmd.Process.Pid, "task/"+task.Name()+"/stat"))
			if err != nil {
				t.Fatal(err)
			}
			// policy is field 41; field 3 is the first after the name in brackets
			fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			if fields[41-3] != "5" {
				t.Errorf("thread %s has scheduling policy %s, want 5 (SCHED_IDLE)", task.Name(), fields[41-3])
			}
		}
	}
}

func TestFailuresOfTheSampleKeepTheWorker(t *testing.T) {
	p := fakePool(t, "good", Options{MaxInput: 1000})
	_, _, err := run(t.Context(), t, p, "broken", 6)
	wantKind(t, err, transform.KindDecode, "cat.jpg", "no marker")
	if len(err.Error()) > 6000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	_, _, err = run(t.Context(), t, p, strings.Repeat("x", 1001), 6)
	wantKind(t, err, transform.KindLimit, "1001", "1000")
	works(t, p)
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestBufferTooSmallNamesTheSize(t *testing.T) {
	p := fakePool(t, "good", Options{MaxOutput: 300})
	_, _, err := run(t.Context(), t, p, "abcdef", 5)
	var short *ShortBufferError
	if !errors.As(err, &short) || short.Need != 6 {
		t.Errorf("error is %v", err)
	}
	_, _, err = run(t.Context(), t, p, strings.Repeat("x", 303), 1000)
	wantKind(t, err, transform.KindLimit, "303", "300")
	works(t, p)
}

func TestCancelEndsTheJobAtOnce(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1, Deadline: time.Hour})
	works(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, err := run(ctx, t, p, "hang!!", 6)
		done <- err
	}()
	waitFor(t, func() bool { return p.Stats().Busy == 1 })
	waiting, stopWaiting := context.WithCancel(t.Context())
	stopWaiting()
	if _, _, err := run(waiting, t, p, "abc", 3); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait for a place gives %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled job gives %v", err)
	}
	works(t, p)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 10 s")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestGoldenComesFromTheProgram(t *testing.T) {
	p := fakePool(t, "good", Options{})
	for range 2 {
		got, err := p.Golden(t.Context())
		if err != nil || got["fake@1"] != "good" || len(got) != 1 {
			t.Errorf("golden is %v, %v", got, err)
		}
		clear(got) // ours to change
	}
	works(t, p)
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("digests and jobs took %d workers", s.Started)
	}
}

func TestCPUCountsLiveAndDeadWorkersAndNeverFalls(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1})
	_, res, err := run(t.Context(), t, p, "burn!!", 6)
	if err != nil || res.CPU < 50*time.Millisecond || res.CPU > 5*time.Second {
		t.Fatalf("a job that burns 50 ms is charged %v, %v", res.CPU, err)
	}
	before := p.CPU()
	if before < res.CPU {
		t.Errorf("the pool has used %v, one job %v", before, res.CPU)
	}
	if _, _, err := run(t.Context(), t, p, "kill", 6); err == nil {
		t.Fatal("killed, and no error")
	}
	if after := p.CPU(); after < before {
		t.Errorf("CPU fell from %v to %v when the worker died", before, after)
	}
}

func TestManyPlansAndCallersAtOnce(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 3})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			out := make([]byte, 6)
			for i := range 60 {
				plan := decodePlan(t, fmt.Sprintf(`,{"op":"RandomHorizontalFlip","p":%g}`, float64((g+i)%40)/40))
				if _, err := p.Run(t.Context(), Job{Plan: plan}, Part{Data: []byte("abcdef")}, out); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Started > 3 || s.Busy != 0 {
		t.Errorf("stats are %+v", s)
	}
}

func TestLargeJobsGiveTheirMemoryBack(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1})
	big := strings.Repeat("x", 3*keepBytes)
	if _, _, err := run(t.Context(), t, p, big, len(big)); err != nil {
		t.Fatal(err)
	}
	checkKept(t, p)
	works(t, p)
}

// checkKept checks that the shared memories keep little between jobs.
func checkKept(t *testing.T, p *Pool) {
	t.Helper()
	for w := range p.live {
		for _, m := range []*memory{w.in, w.out} {
			var st unix.Stat_t
			if err := unix.Fstat(int(m.file.Fd()), &st); err != nil || st.Blocks*512 > keepBytes {
				t.Errorf("%s holds %d bytes between jobs, %v", m.file.Name(), st.Blocks*512, err)
			}
		}
	}
}

func TestCloseEndsRunningJobs(t *testing.T) {
	p := fakePool(t, "good", Options{Deadline: time.Hour})
	done := make(chan error)
	go func() {
		_, _, err := run(t.Context(), t, p, "hang!!", 6)
		done <- err
	}()
	waitFor(t, func() bool { return p.Stats().Running == 1 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("a job during Close gives %v", err)
	}
	if _, _, err := run(t.Context(), t, p, "abc", 3); !errors.Is(err, ErrClosed) {
		t.Errorf("a job after Close gives %v", err)
	}
}

func TestJobsThatNoWorkerTakesAreRefused(t *testing.T) {
	p := fakePool(t, "good", Options{})
	_, err := p.Run(t.Context(), Job{}, Part{}, nil)
	wantKind(t, err, transform.KindPlan, "no plan")
	long := transform.Key{Source: strings.Repeat("x", protocol.MaxSource+1)}
	_, err = p.Run(t.Context(), Job{Plan: decodePlan(t, ""), Key: long}, Part{}, nil)
	wantKind(t, err, transform.KindPlan, "16385")
	_, err = p.Run(t.Context(), Job{Plan: decodePlan(t, `,{"op":"ToDtype","dtype":"float32"}`)}, Part{}, nil)
	wantKind(t, err, transform.KindPlan, "Cut")
}

func TestOptionsReportEveryProblem(t *testing.T) {
	err := Options{Workers: -1, MaxPixels: -1, MaxInput: -1, MaxOutput: -1, Deadline: -1, MemoryLimit: -1}.Validate()
	for _, f := range []string{"Workers", "MaxPixels", "MaxInput", "MaxOutput", "Deadline", "MemoryLimit"} {
		if err == nil || !strings.Contains(err.Error(), f) {
			t.Errorf("%v does not name %s", err, f)
		}
	}
	if err := (Options{MemoryLimit: 1 << 30}).Validate(); err == nil {
		t.Error("a memory limit below input and output passes")
	}
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}
