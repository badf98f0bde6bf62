package worker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform/worker/protocol"
)

// process is one worker. One goroutine at a time owns it and its memory; kill, cpu and dead may be used by any.
type process struct {
	path   string
	conn   *net.UnixConn
	in     *memory
	out    *memory
	cmd    *exec.Cmd
	stderr *tail
	ready  chan struct{} // closed when the process is set up: until then it is not reaped, so that its id stays its own
	dead   chan struct{} // closed when the process is gone and reaped
	buf    []byte
	sent   planSlots
	peak   *peak
	unfit  bool // for another job: it holds memory that it does not need, or is at fault in a way of its own

	mu     sync.Mutex
	reason string        // why we killed it, "" if we did not
	reaped bool          // its id may be another's
	job    uint64        // counts jobs, so that a late timer of one job cannot kill the next
	used   time.Duration // CPU time last seen
}

// startTimeout bounds the time from fork to Welcome. A start takes milliseconds; on a starved host in the idle class it
// may take seconds.
const startTimeout = 30 * time.Second

// spawn starts the program and sets its limits; the conversation has not begun.
func spawn(path string, o Options) (*process, error) {
	p := &process{path: path, ready: make(chan struct{}), dead: make(chan struct{}), stderr: &tail{}, buf: make([]byte, protocol.MaxPacket+1)}
	err := p.launch(o)
	if err == nil {
		p.peak = watchPeak(p.cmd.Process.Pid)
		err = limitResources(p.cmd.Process.Pid, o)
		close(p.ready)
		if err != nil {
			p.kill(reasonStart)
			<-p.dead
			err = fmt.Errorf("%w; it ended: %s", err, p.obituary())
		}
	}
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// launch starts the program with everything that it inherits.
func (p *process) launch(o Options) error {
	theirs, err := p.open(o)
	if err == nil {
		p.cmd = command(p.path, o, p.stderr, theirs, p)
		err = p.run()
	}
	if theirs != nil {
		theirs.Close()
	}
	return err
}

// open makes the socket and the shared memory; the returned file is the worker's end.
func (p *process) open(o Options) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return theirs, err
	}
	p.conn = conn.(*net.UnixConn)
	if p.in, err = newMemory("stepahead-input", o.MaxInput, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return theirs, err
	}
	p.out, err = newMemory("stepahead-output", o.MaxOutput, unix.PROT_READ)
	return theirs, err
}

// allocator tells glibc how to hold memory: in one arena, because calls into C come from one thread after another, one at a
// time, and each thread would keep the memory of the largest picture it ever saw; up to 32 MiB, so that pictures
// up to some megapixels find their pages warm; and larger ones in mappings that end with them. Other C libraries ignore it.
const allocator = "GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=16777216:glibc.malloc.trim_threshold=33554432"

func command(path string, o Options, stderr *tail, control *os.File, p *process) *exec.Cmd {
	cmd := exec.Command(path, append(o.testing.args, protocol.ServeFlag)...)
	// Nothing of the parent's environment: it may hold secrets, and must not change pixels.
	cmd.Env = []string{"LANG=C", "GOMAXPROCS=1", "GOTRACEBACK=single", allocator}
	cmd.Dir = "/"
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{control, p.in.file, p.out.file}
	// Setsid: a Ctrl-C in the terminal is for the parent to handle, not for its workers. It makes a process group too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

// run forks on an operating system thread of its own and keeps that thread until the child is gone. Two
// things need it: the kernel sends the parent-death signal when the *thread* that forked ends, and the
// no_new_privs flag, which the child inherits, is the thread's.
func (p *process) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, whose flags we changed, ends with the goroutine
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err != nil {
			close(p.dead)
			return
		}
		<-p.ready
		p.reap()
		close(p.dead)
	}()
	return <-started
}

// reap waits for the end of the process, and ends what it has left behind: the program may be a script, whose children
// would outlive it.
func (p *process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	p.strike()
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // the outcome is in cmd.ProcessState
}

// strike sends SIGKILL to the process and all of its group, unless it is reaped.
func (p *process) strike() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
}

// kill ends the process, once, for reason; a later reason is ignored. It does not wait.
func (p *process) kill(reason string) {
	p.mu.Lock()
	if p.reason == "" {
		p.reason = reason
	}
	p.mu.Unlock()
	p.strike()
	_ = p.conn.Close() // should anything else hold the worker's end open
}

// begin opens a job and returns the function by which only this job may kill the process.
func (p *process) begin() (kill func(reason string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job++
	mine := p.job
	return func(reason string) {
		p.mu.Lock()
		stale := p.job != mine
		if !stale && p.reason == "" {
			p.reason = reason
		}
		p.mu.Unlock()
		if !stale {
			p.kill(reason)
		}
	}
}

// end closes the job.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job++
}

func (p *process) killedFor() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

func (p *process) gone() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// free releases memory and descriptors. The process must be dead or never have started.
func (p *process) free() {
	if p.conn != nil {
		p.conn.Close()
	}
	if p.peak != nil {
		p.peak.close()
	}
	for _, m := range []*memory{p.in, p.out} {
		if m != nil {
			m.free()
		}
	}
}

// cpu returns the user and system time of the process so far; it never falls.
func (p *process) cpu() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var now time.Duration
	if p.gone() {
		now = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	} else {
		// The CPU clock of another process: see clock_getcpuclockid(3).
		var ts unix.Timespec
		if unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|2), &ts) == nil {
			now = time.Duration(ts.Nano())
		}
	}
	p.used = max(p.used, now)
	return p.used
}

// spent returns the CPU time that cpu last saw.
func (p *process) spent() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// obituary says how the process ended. It must be dead.
func (p *process) obituary() string {
	how := p.cmd.ProcessState.String()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		how = "killed by " + unix.SignalName(ws.Signal())
		switch ws.Signal() {
		case syscall.SIGKILL:
			if p.killedFor() == "" {
				how += " (the kernel does that when memory or CPU time runs out)"
			}
		case syscall.SIGSYS:
			how += " (it made a system call that no decoder needs: the input may have taken it over)"
		}
	}
	if said := p.stderr.String(); said != "" {
		how += "; it said: " + said
	}
	return how
}
