package agent

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// fakeProc writes a proc file system. Times are in clock ticks of 10 ms.
type fakeProc struct {
	user, nice, idle int
	memory, io       float64
	threads          map[int][2]int64 // DataNode 77: thread -> nanoseconds run, waited
}

func (f fakeProc) write(t *testing.T, root string) {
	t.Helper()
	files := map[string]string{
		"stat": fmt.Sprintf("cpu  %d %d 0 %d 0 0 0 0 0 0\ncpu0 %d %d 0 %d 0 0 0 0 0 0\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n",
			f.user, f.nice, f.idle, f.user, f.nice, f.idle),
		"pressure/memory": fmt.Sprintf("some avg10=%.2f avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", f.memory),
		"pressure/io":     fmt.Sprintf("some avg10=%.2f avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", f.io),
	}
	for thread, s := range f.threads {
		files[fmt.Sprintf("77/task/%d/schedstat", thread)] = fmt.Sprintf("%d %d 9\n", s[0], s[1])
	}
	if err := os.RemoveAll(filepath.Join(root, "77")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestProcIsExact: the numbers, from a proc file system of known content.
func TestProcIsExact(t *testing.T) {
	root := t.TempDir()
	self, workers := 10*time.Second, 5*time.Second
	p := &Proc{
		Root: root, Workers: func() time.Duration { return workers }, DataNode: func() int { return 77 },
		self: func() time.Duration { return self },
	}
	f := fakeProc{user: 1000, nice: 500, idle: 1000, memory: 3, io: 20, threads: map[int][2]int64{77: {1e9, 1e9}, 78: {0, 0}}}
	f.write(t, root)
	if _, err := p.Sample(0); !errors.Is(err, ErrNoSample) {
		t.Fatalf("first sample: %v, want ErrNoSample", err)
	}

	// In 2 CPU seconds: 0.5 s by others, 0.1 s by us, 1 s by our workers, 0.4 s idle. The DataNode's
	// threads ran 30 ms and waited 10 ms; one is new, one is gone.
	f = fakeProc{user: 1060, nice: 600, idle: 1040, memory: 12.5, io: 40, threads: map[int][2]int64{77: {1020e6, 1005e6}, 79: {10e6, 5e6}}}
	f.write(t, root)
	self, workers = self+100*time.Millisecond, workers+time.Second
	s, err := p.Sample(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !near(s.CPU, 0.25) || !near(s.Delay, 0.25) || !near(s.Memory, 0.125) || !near(s.IO, 0.4) {
		t.Errorf("sample %+v, want CPU 0.25, delay 0.25, memory 0.125, I/O 0.4", s)
	}

	// We used more than the kernel has counted so far: not negative. The DataNode has ended.
	f.threads, f.idle = nil, f.idle+100
	f.write(t, root)
	self += time.Second
	if s, err = p.Sample(2 * time.Second); err != nil || s.CPU != 0 || s.Delay != 0 {
		t.Errorf("sample %+v, %v, want no load", s, err)
	}

	// A kernel without pressure information.
	if err := os.RemoveAll(filepath.Join(root, "pressure")); err != nil {
		t.Fatal(err)
	}
	f.user += 100
	f.write(t, root)
	if err := os.RemoveAll(filepath.Join(root, "pressure")); err != nil {
		t.Fatal(err)
	}
	if s, err = p.Sample(3 * time.Second); err != nil || s.Memory != 0 || !near(s.CPU, 1) {
		t.Errorf("sample %+v, %v, want CPU 1 and no pressure", s, err)
	}
	if err := (&Proc{Root: filepath.Join(root, "none")}).Check(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("Check of a missing proc: %v", err)
	}
	if err := p.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// TestSpinner is not a test: it is the program of the spinners below.
func TestSpinner(t *testing.T) {
	if os.Getenv("STEPAHEAD_TEST_SPIN") == "" {
		t.Skip("runs as a child process only")
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
	}
}

// spinners are processes that want all the CPU they can get.
type spinners []*exec.Cmd

func startSpinners(t *testing.T, n int, idle bool) spinners {
	t.Helper()
	var s spinners
	for range n {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSpinner$", "-test.count=1")
		cmd.Env = append(os.Environ(), "STEPAHEAD_TEST_SPIN=1", "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s = append(s, cmd)
		if idle {
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
			for _, task := range threadsOf(t, cmd.Process.Pid) {
				if err := unix.SchedSetAttr(task, &attr, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Cleanup(s.stop)
	return s
}

func (s spinners) stop() {
	for _, cmd := range s {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
}

func threadsOf(t *testing.T, pid int) []int {
	t.Helper()
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := proc.AllThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int, 0, len(tasks))
	for _, task := range tasks {
		ids = append(ids, task.PID)
	}
	return ids
}

// cpu is what the spinners have used so far.
func (s spinners) cpu() time.Duration {
	var sum time.Duration
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	for _, cmd := range s {
		tasks, _ := proc.AllThreads(cmd.Process.Pid) // none: it has ended
		for _, task := range tasks {
			if stat, err := task.Schedstat(); err == nil {
				sum += time.Duration(stat.RunningNanoseconds)
			}
		}
	}
	return sum
}

// TestOwnLoadDoesNotCloseTheGate drives the real signal: our own idle-class workers, 8 or more, take
// every CPU and leave the gate open, and 2 foreign spinners close it. Others may be busy on the machine
// meanwhile, which closes the gate rightly; then that our own work is not counted is all that is shown.
func TestOwnLoadDoesNotCloseTheGate(t *testing.T) {
	const interval = 500 * time.Millisecond
	cpus := runtime.NumCPU()
	own := startSpinners(t, max(8, 4*cpus), true)
	subtracting, naive := &Proc{Workers: own.cpu}, &Proc{}
	g := gate{high: 0.8, low: 0.7, dwell: interval, max: 4}
	began := time.Now()
	var before time.Duration
	sample := func() (others, all, ours float64) {
		time.Sleep(interval) // the interval that is measured, not a wait for something
		s, errS := subtracting.Sample(0)
		n, errN := naive.Sample(0)
		now := own.cpu()
		ours = (now - before).Seconds() / interval.Seconds() / float64(cpus)
		before = now
		if errS != nil || errN != nil {
			return 0, 0, 0
		}
		g.observe(LoadSample{CPU: s.CPU}, false, true, time.Since(began))
		return s.CPU, n.CPU, ours
	}
	sample() // of the two readings that a sample needs, the first
	quiet := 0
	for quiet < 3 && time.Since(began) < 10*time.Second {
		others, all, ours := sample()
		if all-others < ours-0.15 {
			t.Errorf("all %.2f, others %.2f: our own %.2f is counted as theirs", all, others, ours)
		}
		quiet++
		if !g.open || all < 0.8 {
			quiet = 0
		}
	}
	t.Logf("quiet %v: open beside %d own workers: %v", quiet == 3, len(own), g.open)
	startSpinners(t, max(2, cpus), false)
	for end := time.Now().Add(20 * time.Second); g.open; {
		others, all, _ := sample()
		if time.Now().After(end) {
			t.Fatalf("foreign spinners do not close the gate: others %.2f, all %.2f", others, all)
		}
	}
}
