package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// TestMain turns this binary into a worker program when a pool started it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "fake=") {
		fakeWorker(strings.TrimPrefix(os.Args[1], "fake="))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fakeWorker behaves as its mode says; the input of a job may order more.
func fakeWorker(mode string) {
	switch mode {
	case "parent": // not a worker, but the owner of a pool whose worker hangs
		ownerOfHangingWorker()
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot open\x1b shared object libjpeg.so.62")
		os.Exit(7)
	case "silent":
		time.Sleep(time.Hour)
	case "garbage":
		speak(nil, []byte("Q\xff\xff"))
	case "version":
		speak(nil, protocol.Welcome{Protocol: protocol.Version + 1}.Append(nil))
	case "hangup": // greets, then leaves before any job
		speak(nil, protocol.Welcome{Protocol: protocol.Version}.Append(nil))
		os.Exit(0)
	case "answer": // greets, then gives the input of each job as its reply
		in, _ := unix.Mmap(protocol.InputFD, 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
		speak(nil, protocol.Welcome{Protocol: protocol.Version}.Append(nil))
		for {
			req := listen()
			speak(req, in[:mustRequest(req)[0].Input])
		}
	default:
		golden := map[string]string{"fake@1": mode}
		if mode == "changing" {
			golden["fake@1"] = fmt.Sprint(os.Getpid())
		}
		err := protocol.Serve(protocol.Server{
			Golden: func() map[string]string { return golden }, Isolation: []string{"no_new_privs"},
			Refused: map[string]string{"landlock": "the kernel is too old"}, Run: fakeRunAll,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// ownerOfHangingWorker prints its worker's process id once the worker is up, then waits for a job that never ends. Another
// program than this one has no such job: it waits all the same.
func ownerOfHangingWorker() {
	o := Options{Path: os.Args[0], MemoryLimit: fakeMemory, Workers: 1, Deadline: time.Hour, testing: testKnobs{args: []string{"fake=good"}}}
	if len(os.Args) > 2 {
		o = Options{Path: os.Args[2], Workers: 1}
	}
	p, err := New(o)
	if err != nil {
		panic(err)
	}
	if _, err := p.Golden(context.Background()); err != nil {
		panic(err)
	}
	for w := range p.live {
		fmt.Println(w.cmd.Process.Pid)
	}
	if len(os.Args) > 2 {
		time.Sleep(time.Hour)
	}
	plan, _ := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"}]}`))
	_, _ = p.Run(context.Background(), Job{Plan: plan}, Part{Data: []byte("hang!!")}, make([]byte, 6))
}

func mustRequest(b []byte) protocol.Request {
	r, err := protocol.ParseRequest(b)
	if err != nil {
		os.Exit(9)
	}
	return r
}

func listen() []byte {
	buf := make([]byte, protocol.MaxPacket)
	n, err := unix.Read(protocol.ControlFD, buf)
	if n <= 0 || err != nil {
		os.Exit(0)
	}
	return buf[:n]
}

func speak(heard, packet []byte) {
	if heard == nil {
		listen()
	}
	_, _ = unix.Write(protocol.ControlFD, packet)
}

// fakeRunAll knows the orders about whole batches, and gives each of all others to fakeRun.
func fakeRunAll(samples []protocol.Sample, lim protocol.Limits, results []protocol.Result) {
	for i, s := range samples {
		switch string(s.In[:min(6, len(s.In))]) {
		case "gang!!": // harmless alone
			if len(samples) > 1 {
				select {}
			}
		case "count!":
			s.Out[0] = byte(len(samples))
			results[i] = protocol.Result{Spec: transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{1, 1, 1}}}
			continue
		}
		results[i].Spec, results[i].Err = fakeRun(s.Plan, s.Key, s.In, s.Out, lim)
	}
}

// fakeRun obeys its input: an order, or bytes of which it makes a 1 x n/3 x 3 picture, each plus one.
func fakeRun(plan *transform.Plan, key transform.Key, in, out []byte, lim protocol.Limits) (transform.TensorSpec, error) {
	spec := transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{1, len(in) / 3, 3}}
	switch order := string(in); {
	case len(in)/3*3 > len(out):
		return spec, &transform.Error{Kind: transform.KindLimit, Op: "fake", Detail: fmt.Sprintf("%d bytes, there is room for %d", len(in), len(out))}
	case order == "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		select {}
	case order == "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case order == "exit":
		fmt.Fprintln(os.Stderr, "out of ideas")
		os.Exit(3)
	case order == "breach":
		breach()
	case order == "hang!!":
		select {}
	case order == "slow!!":
		time.Sleep(slow)
	case order == "zero!!":
		spec.Shape[0] = 0
		return spec, nil
	case order == "broken":
		return spec, &transform.Error{Kind: transform.KindDecode, Op: "DecodeImage", Detail: strings.Repeat("no marker ", 1000)}
	case order == "bug...":
		return spec, errors.New("index out of range")
	case order == "burn!!":
		for end := burn() + 50*time.Millisecond; burn() < end; {
		}
	case order == "limits":
		return transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{1, 2, 3}}, reportLimits(out)
	}
	for i, v := range in[:len(in)/3*3] {
		out[i] = v + 1
	}
	return spec, nil
}

// breach makes a system call that a filter forbids.
func breach() {
	err := seccomp.LoadFilter(seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls:      []seccomp.SyscallGroup{{Action: seccomp.ActionKillProcess, Names: []string{"socket"}}},
	}})
	if err != nil {
		panic(err)
	}
	_, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
}

// slow is how long a slow sample takes.
const slow = 250 * time.Millisecond

func burn() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// reportLimits fails unless the process is confined as the pool promises; then it writes ones.
func reportLimits(out []byte) error {
	complain := func(format string, args ...any) error {
		return &transform.Error{Kind: transform.KindUnsupported, Op: "limits", Detail: fmt.Sprintf(format, args...)}
	}
	for resource, want := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_AS: fakeMemory, unix.RLIMIT_CPU: 3620} {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil || l.Cur != want || l.Max != want {
			return complain("rlimit %d is %+v, %v; want %d", resource, l, err, want)
		}
	}
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); nnp != 1 {
		return complain("no_new_privs is %d, %v", nnp, err)
	}
	if sid, _ := unix.Getsid(0); sid != os.Getpid() {
		return complain("not a session of its own")
	}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "LANG=") && !strings.HasPrefix(e, "GO") && e != allocator {
			return complain("environment has %s", e)
		}
	}
	if unix.Ftruncate(protocol.OutputFD, 10) == nil {
		return complain("the output memory can be cut")
	}
	copy(out, []byte{1, 1, 1, 1, 1, 1})
	return nil
}

// fakeMemory is a limit that even the race detector's shadow memory stays below.
const fakeMemory = 1 << 50

func fakePool(t *testing.T, mode string, o Options) *Pool {
	t.Helper()
	o.Path, o.MemoryLimit, o.testing.args = os.Args[0], fakeMemory, []string{"fake=" + mode}
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Second
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := p.Stats().Running; n != 0 {
			t.Errorf("%d workers outlive Close", n)
		}
	})
	return p
}

func decodePlan(t testing.TB, ops string) *transform.Plan {
	t.Helper()
	plan, err := transform.ParsePlan([]byte(`{"plan":1,"ops":[{"op":"DecodeImage"}` + ops + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func run(ctx context.Context, t *testing.T, p *Pool, input string, room int) ([]byte, Result, error) {
	t.Helper()
	out := make([]byte, room)
	res, err := p.Run(ctx, Job{Plan: decodePlan(t, ""), Key: transform.Key{Sample: 42}}, Part{Name: "cat.jpg", Data: []byte(input)}, out)
	return out[:res.Bytes], res, err
}

// works checks that the pool still does its job.
func works(t *testing.T, p *Pool) {
	t.Helper()
	got, _, err := run(t.Context(), t, p, "abcdef", 6)
	if err != nil || !bytes.Equal(got, []byte("bcdefg")) {
		t.Errorf("after that the pool gives %q, %v", got, err)
	}
}

func wantKind(t *testing.T, err error, kind transform.ErrorKind, words ...string) {
	t.Helper()
	var e *transform.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error is %v, want kind %s", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
