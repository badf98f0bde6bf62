package worker

import (
	"context"
	"errors"
	"fmt"
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

func TestLostWorkersAreNamedAndReplaced(t *testing.T) {
	for _, c := range []struct {
		order, reason string
		kind          transform.ErrorKind
		words         []string
	}{
		{"segv", reasonCrash, transform.KindCrash, []string{"cat.jpg", "sample 42"}},
		{"kill", reasonCrash, transform.KindCrash, []string{"cat.jpg", "SIGKILL"}},
		{"exit", reasonCrash, transform.KindCrash, []string{"exit status 3", "out of ideas"}},
		{"breach", reasonCrash, transform.KindCrash, []string{"cat.jpg", "SIGSYS", "system call"}},
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

// A program that is gone before its limits are set is limited like any other: how it ended is what its caller is told.
func TestAProgramThatEndsAtOnceCanBeLimited(t *testing.T) {
	o := fakePool(t, "exit", Options{}).o
	p := &process{path: os.Args[0], ready: make(chan struct{}), dead: make(chan struct{}), stderr: &tail{}}
	defer p.free()
	if err := p.launch(o); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Error(err)
	}
	if err := limitResources(p.cmd.Process.Pid, o); err != nil {
		t.Error(err)
	}
	close(p.ready)
	<-p.dead
	if got := p.obituary(); !strings.Contains(got, "exit status 7") {
		t.Errorf("it ended: %s", got)
	}
}

func TestRequiredIsolationIsInForceOrNothingRuns(t *testing.T) {
	works(t, fakePool(t, "good", Options{RequireIsolation: []string{"process", "no_new_privs"}}))

	p := fakePool(t, "good", Options{RequireIsolation: []string{"process", "landlock", "seccomp"}})
	_, _, err := run(t.Context(), t, p, "abc", 3)
	wantKind(t, err, transform.KindIO, "landlock (the kernel is too old)", "seccomp (the program does not offer it", "no_new_privs")
	if s := p.Stats(); s.Killed[reasonStart] != 1 || s.Running != 0 || s.Isolation != "" {
		t.Errorf("stats are %+v", s)
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
	return string(protocol.Reply{{Status: status, Shape: shape}}.Append(nil))
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
		"two for one":        string(make(protocol.Reply, 2).Append(nil)),
		"none for one":       string(protocol.Reply{}.Append(nil)),
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

// Whatever befalls workers, every job ends with its pixels or with the error of what befell its own.
func TestJobsDoNotSufferFromOthers(t *testing.T) {
	p := fakePool(t, "good", Options{Workers: 3, Deadline: 2 * time.Second})
	orders := []string{"segv", "kill", "exit", "broken", "cancel", "abcdef", "ghijkl", "mnopqr", "stuvwx"}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(g)))
			for i := range 15 {
				order := orders[random.IntN(len(orders))]
				if g == 0 && i%8 == 3 {
					order = "hang!!"
				}
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
