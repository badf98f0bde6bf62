package lockdown

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/internal/testdata"
)

// TestMain turns this binary into a confined process that does as its last argument says.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "confined" {
		fmt.Println(confined(os.Args[2], os.Args[3]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// confined enters the protections that how names and then tries to do what it should not.
func confined(how, what string) error {
	runtime.LockOSThread() // the thread that has the flag is the one that installs the filters
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	orders, done := make(chan func() error), make(chan error)
	go obey(orders, done) // on a thread that is there before
	var i Isolation
	switch how {
	case "all":
		i = Enter()
	case "landlock":
		restrictAccess(&i)
	case "seccomp":
		i.note(Calls, filterCalls())
	}
	if len(i.Refused) > 0 {
		return fmt.Errorf("refused: %v", i.Refused)
	}
	if old, ok := strings.CutPrefix(what, "old thread: "); ok {
		orders <- deeds[old]
		return <-done
	}
	if fresh, ok := strings.CutPrefix(what, "new thread: "); ok {
		orders <- func() error { return nil }
		<-done
		go obey(orders, done)
		orders <- deeds[fresh]
		return <-done
	}
	return deeds[what]()
}

// obey runs one order on a thread of its own.
func obey(orders chan func() error, done chan error) {
	runtime.LockOSThread()
	done <- (<-orders)()
}

// deeds are what a decoder has no business with.
var deeds = map[string]func() error{
	"nothing": func() error { return nil },
	"open a file": func() error {
		_, err := os.Open("/proc/self/cmdline")
		return err
	},
	"make a file": func() error {
		_, err := os.Create(filepath.Join(os.TempDir(), "stepahead-escaped"))
		return err
	},
	"remove a file": func() error { return unix.Unlink("/nowhere") },
	"list a folder": func() error {
		_, err := os.ReadDir("/")
		return err
	},
	"connect":       connect,
	"socket":        func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
	"fork":          func() error { return raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0) },
	"execute":       func() error { return unix.Exec("/bin/true", []string{"true"}, nil) },
	"trace":         func() error { return unix.PtraceAttach(os.Getppid()) },
	"read memory":   func() error { return raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0) },
	"io_uring":      func() error { return raw(unix.SYS_IO_URING_SETUP, 1, 0, 0) },
	"unshare":       func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"signal":        func() error { return unix.Kill(os.Getppid(), 0) },
	"code":          func() error { return raw(unix.SYS_MMAP, 0, 4096, unix.PROT_EXEC) },
	"raise a limit": func() error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_CPU, &unix.Rlimit{}, nil) },
	"change owner":  func() error { return unix.Chown("/tmp", 1, 1) },
}

func connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}})
}

func raw(call, a, b, c uintptr) error {
	pid, _, errno := unix.RawSyscall(call, a, b, c)
	if errno != 0 {
		return errno
	}
	if call == unix.SYS_CLONE && pid == 0 { // a child that should not be
		unix.Exit(0)
	}
	return nil
}

// inConfinement runs a deed in a process of its own, and returns what it said and how it ended.
func inConfinement(t *testing.T, how, what string) (string, *os.ProcessState) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "confined", how, what)
	cmd.Env = []string{"GOTRACEBACK=single"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if errs.Len() > 0 {
		t.Logf("%s: %s", what, errs.String()[:min(errs.Len(), 600)])
	}
	return strings.TrimSpace(out.String()), cmd.ProcessState
}

func signalOf(s *os.ProcessState) syscall.Signal {
	ws := s.Sys().(syscall.WaitStatus)
	if !ws.Signaled() {
		return 0
	}
	return ws.Signal()
}

const killed = "killed"

func TestWhatADecoderHasNoBusinessWith(t *testing.T) {
	requireLockdown(t)
	denied, refused := syscall.EPERM.Error(), syscall.EACCES.Error()
	for what, want := range map[string]map[string]string{ // protections -> end
		"open a file":             {"all": denied, "seccomp": denied, "landlock": refused},
		"make a file":             {"all": denied, "seccomp": denied, "landlock": refused},
		"remove a file":           {"all": denied, "seccomp": denied},
		"list a folder":           {"all": denied, "seccomp": denied, "landlock": refused},
		"connect":                 {"all": killed, "seccomp": killed, "landlock": refused},
		"socket":                  {"all": killed, "seccomp": killed},
		"fork":                    {"all": killed, "seccomp": killed},
		"execute":                 {"all": killed, "seccomp": killed, "landlock": refused},
		"trace":                   {"all": killed, "seccomp": killed, "landlock": denied},
		"read memory":             {"all": killed, "seccomp": killed},
		"io_uring":                {"all": killed, "seccomp": killed},
		"unshare":                 {"all": killed, "seccomp": killed},
		"signal":                  {"all": denied, "seccomp": denied, "landlock": denied},
		"code":                    {"all": denied, "seccomp": denied},
		"raise a limit":           {"all": denied, "seccomp": denied},
		"change owner":            {"all": denied, "seccomp": denied},
		"old thread: open a file": {"all": denied, "seccomp": denied, "landlock": refused},
		"new thread: open a file": {"all": denied, "seccomp": denied, "landlock": refused},
		"old thread: socket":      {"all": killed, "seccomp": killed},
		"new thread: socket":      {"all": killed, "seccomp": killed},
	} {
		for how, end := range want {
			t.Run(what+" under "+how, func(t *testing.T) {
				said, state := inConfinement(t, how, what)
				if end == killed && (signalOf(state) != syscall.SIGSYS || said != "") || end != killed && !strings.HasSuffix(said, end) {
					t.Errorf("it ends with %v and %q, want %s", state, said, end)
				}
			})
		}
	}
}

// requireLockdown skips where the kernel, or the container, does not offer what is to be tested.
func requireLockdown(t *testing.T) {
	t.Helper()
	if said, _ := inConfinement(t, "all", "nothing"); said != "<nil>" {
		testdata.Missing(t, "a kernel and a container that offer seccomp filters and Landlock version 6: %s", said)
	}
}

func TestWhatIsNotOfferedIsReported(t *testing.T) {
	var i Isolation
	i.note("a", nil)
	i.note("b", errors.New("no such thing"))
	if !slices.Equal(i.InForce, []string{"a"}) || !maps.Equal(i.Refused, map[string]string{"b": "no such thing"}) {
		t.Errorf("got %+v", i)
	}
}

func BenchmarkConfine(b *testing.B) {
	for _, how := range []string{"none", "landlock", "seccomp", "all"} {
		b.Run(how, func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				cmd := exec.Command(os.Args[0], "confined", how, "nothing")
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}
