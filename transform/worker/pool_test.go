package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
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

func TestLostWorkersAreNamedAndReplaced(t *testing.T) {
	for _, c := range []struct {
		order, reason string
		kind          transform.ErrorKind
		words         []string
	}{
		{"segv", reasonCrash, transform.KindCrash, []string{"cat.jpg", "sample 42"}},
		{"kill", reasonCrash, transform.KindCrash, []string{"cat.jpg", "SIGKILL"}},
		{"exit", reasonCrash, transform.KindCrash, []string{"exit status 3", "out of ideas"}},
		{"hang!!", reasonDeadline, transform.KindDeadline, []string{"cat.jpg", "1s"}},
	} {
		t.Run(c.order, func(t *testing.T) {
			p := fakePool(t, "good", Options{Deadline: time.Second})
			_, _, err := run(t.Context(), t, p, c.order, 6)
			wantKind(t, err, c.kind, c.words...)
			if s := p.Stats(); s.Killed[c.reason] != 1 || s.Running != 0 {
				t.Errorf("stats are %+v", s)
			}
			works(t, p)
		})
	}
}

func TestFailuresOfTheSampleKeepTheWorker(t *testing.T) {
	p := fakePool(t, "good", Options{MaxInput: 1000})
	_, _, err := run(t.Context(), t, p, "broken", 6)
	wantKind(t, err, transform.KindDecode, "cat.jpg", "no marker")
	if len(err.Error()) > 6000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	_, _, err = run(t.Context(), t, p, "bug...", 6)
	wantKind(t, err, transform.KindCrash, "index out of range")
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

func TestProgramsThatDoNotStartAreNamed(t *testing.T) {
	for mode, words := range map[string][]string{
		"exit":    {"exit status 7", "libjpeg.so.62", os.Args[0]},
		"garbage": {"message"},
		"version": {fmt.Sprintf("protocol version %d", protocol.Version+1), "install both from one release"},
	} {
		t.Run(mode, func(t *testing.T) {
			p := fakePool(t, mode, Options{})
			for range 3 { // the second and third wait for the pause first
				_, _, err := run(t.Context(), t, p, "abc", 3)
				wantKind(t, err, transform.KindIO, words...)
				if strings.ContainsRune(err.Error(), '\x1b') {
					t.Errorf("control characters in %q", err)
				}
			}
			if s := p.Stats(); s.Killed[reasonStart] != 3 {
				t.Errorf("stats are %+v", s)
			}
		})
	}
}

func TestAMissingProgramSaysWhereItWasLookedFor(t *testing.T) {
	p, err := New(Options{Path: "/nowhere/stepahead-worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Golden(t.Context())
	wantKind(t, err, transform.KindIO, "/nowhere/stepahead-worker")
	_, err = p.Golden(t.Context())
	wantKind(t, err, transform.KindIO)
}

func TestAStartThatHangsEndsWithTheContext(t *testing.T) {
	p := fakePool(t, "silent", Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := run(ctx, t, p, "abc", 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestAWorkerThatLeavesBetweenJobsIsReplaced(t *testing.T) {
	p := fakePool(t, "good", Options{})
	works(t, p)
	for w := range p.live {
		_ = syscall.Kill(w.cmd.Process.Pid, syscall.SIGKILL)
	}
	waitFor(t, func() bool { return p.Stats().Running == 0 })
	works(t, p)

	_, _, err := run(t.Context(), t, fakePool(t, "hangup", Options{}), "abc", 3)
	var e *transform.Error
	if !errors.As(err, &e) || (e.Kind != transform.KindIO && e.Kind != transform.KindCrash) {
		t.Errorf("workers that always leave give %v", err)
	}
}

// reply builds a reply packet, honest or not, for the fake that answers with its input.
func reply(status protocol.Status, shape [3]int64) string {
	return string(protocol.Reply{Status: status, Shape: shape}.Append(nil))
}

func TestLiesAreCaught(t *testing.T) {
	for name, packet := range map[string]string{
		"garbage":            "garbage",
		"empty tail":         reply(protocol.Done, [3]int64{1, 1, 3})[:20],
		"too long":           reply(protocol.Done, [3]int64{1, 1, 3}) + "x",
		"larger than buffer": reply(protocol.Done, [3]int64{1, 3, 3}),
		"huge":               reply(protocol.Done, [3]int64{1 << 20, 1 << 20, 3}),
		"overflowing":        reply(protocol.Done, [3]int64{1 << 62, 4, 4}),
		"negative":           reply(protocol.Done, [3]int64{-1, -1, 3}),
		"zero":               reply(protocol.Done, [3]int64{0, 1, 3}),
		"short, but fits":    reply(protocol.Short, [3]int64{1, 1, 3}),
		"short of too much":  reply(protocol.Short, [3]int64{1 << 14, 1 << 14, 300}),
		"unknown status":     reply(9, [3]int64{1, 1, 3}),
	} {
		t.Run(name, func(t *testing.T) {
			p := fakePool(t, "answer", Options{})
			_, _, err := run(t.Context(), t, p, packet, 6)
			wantKind(t, err, transform.KindCrash, "cat.jpg", "nonsense")
			if s := p.Stats(); s.Killed[reasonProtocol] != 1 {
				t.Errorf("stats are %+v", s)
			}
		})
	}
	t.Run("other shape than the plan fixes", func(t *testing.T) {
		p := fakePool(t, "answer", Options{})
		job := Job{Plan: decodePlan(t, `,{"op":"CenterCrop","size":2}`)}
		_, err := p.Run(t.Context(), job, Part{Data: []byte(reply(protocol.Done, [3]int64{1, 4, 3}))}, make([]byte, 100))
		wantKind(t, err, transform.KindCrash, "nonsense")
	})
}

func TestAReplacedProgramIsRefused(t *testing.T) {
	p := fakePool(t, "changing", Options{})
	works(t, p)
	_, _, err := run(t.Context(), t, p, "exit", 6)
	wantKind(t, err, transform.KindCrash)
	_, _, err = run(t.Context(), t, p, "abc", 3)
	wantKind(t, err, transform.KindIO, "golden digests differ")
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

func TestWorkersDieWithTheirParent(t *testing.T) {
	owner := exec.Command(os.Args[0], "fake=parent")
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(stdout, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("worker %d is not there: %v", pid, err)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	waitFor(t, func() bool { // it may stay a zombie where nobody reaps orphans
		stat, err := os.ReadFile(procPath(pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestLargeJobsGiveTheirMemoryBack(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 1})
	big := strings.Repeat("x", 3*keepBytes)
	if _, _, err := run(t.Context(), t, p, big, len(big)); err != nil {
		t.Fatal(err)
	}
	for w := range p.live {
		for _, m := range []*memory{w.in, w.out} {
			var st unix.Stat_t
			if err := unix.Fstat(int(m.file.Fd()), &st); err != nil || st.Blocks*512 > keepBytes {
				t.Errorf("%s holds %d bytes between jobs, %v", m.file.Name(), st.Blocks*512, err)
			}
		}
	}
	works(t, p)
}

// Whatever befalls workers, every job ends with its pixels or with the error of what befell its own.
func TestJobsDoNotSufferFromOthers(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 3, Deadline: 2 * time.Second})
	orders := []string{"segv", "kill", "exit", "hang!!", "broken", "cancel", "abcdef", "ghijkl", "mnopqr", "stuvwx", "yzabcd", "efghij", "klmnop"}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(g)))
			for range 15 {
				order := orders[random.IntN(len(orders))]
				ctx, cancel := context.WithCancel(t.Context())
				input := order
				if order == "cancel" {
					input = "hang!!"
					time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
				}
				got, _, err := run(ctx, t, p, input, 6)
				cancel()
				if !belongs(order, got, err) {
					t.Errorf("%s gives %q, %v", order, got, err)
				}
			}
		})
	}
	wg.Wait()
	works(t, p)
}

func belongs(order string, got []byte, err error) bool {
	var e *transform.Error
	kind := map[string]transform.ErrorKind{
		"segv": transform.KindCrash, "kill": transform.KindCrash, "exit": transform.KindCrash,
		"hang!!": transform.KindDeadline, "broken": transform.KindDecode,
	}[order]
	switch {
	case order == "cancel":
		return errors.Is(err, context.Canceled)
	case kind != "":
		return errors.As(err, &e) && e.Kind == kind
	}
	return err == nil && len(got) == 6 && got[0] == order[0]+1
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
