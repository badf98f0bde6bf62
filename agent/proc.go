package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Proc is the load of a real node, read from /proc:
//
//   - CPU: what all processes used, without this process and its workers. System-wide numbers would
//     count our own idle-class work, which yields to everybody else, as load.
//   - Delay: of the time in which the DataNode's threads wanted a CPU, the share in which they had
//     none.
//   - Memory and IO: the pressure of the whole system (PSI, 10 s average); 0 where the kernel does
//     not tell.
//
// It tells something from the second sample on.
type Proc struct {
	// Root is where proc is mounted. Default "/proc".
	Root string
	// Workers is the CPU time of the agent's worker processes so far. Default: there are none.
	Workers func() time.Duration
	// DataNode is the process id of the DataNode now, 0 if it does not run. Default: there is none.
	DataNode func() int

	self    func() time.Duration // tests replace it; default: this process
	last    reading
	threads map[int]procfs.ProcSchedstat // of the DataNode, at the last sample
	primed  bool
}

// reading is the CPU time, in seconds, that all CPUs had, that was used, and that we used.
type reading struct{ total, busy, own float64 }

// Sample implements [Load].
func (p *Proc) Sample(time.Duration) (LoadSample, error) {
	root := p.Root
	if root == "" {
		root = procfs.DefaultMountPoint
	}
	proc, err := procfs.NewFS(root)
	if err != nil {
		return LoadSample{}, fmt.Errorf("agent.Proc: %w", err)
	}
	now, err := p.read(proc)
	if err != nil {
		return LoadSample{}, fmt.Errorf("agent.Proc: %w", err)
	}
	last, primed := p.last, p.primed
	p.last, p.primed = now, true
	delay := p.delay(proc)
	total := now.total - last.total
	if !primed || total <= 0 {
		return LoadSample{}, ErrNoSample
	}
	others := (now.busy - last.busy) - (now.own - last.own)
	return LoadSample{
		CPU:    min(1, max(0, others/total)),
		Delay:  delay,
		Memory: pressure(proc, "memory"),
		IO:     pressure(proc, "io"),
	}, nil
}

func (p *Proc) read(proc procfs.FS) (reading, error) {
	// Our own time first: what is used between the two readings then counts as load, never as negative.
	own, err := p.own()
	if err != nil {
		return reading{}, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return reading{}, err
	}
	c := stat.CPUTotal // guest time is part of user and nice
	busy := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return reading{total: busy + c.Idle + c.Iowait, busy: busy, own: own.Seconds()}, nil
}

func (p *Proc) own() (time.Duration, error) {
	var sum time.Duration
	if p.Workers != nil {
		sum = p.Workers()
	}
	if p.self != nil {
		return sum + p.self(), nil
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return sum + time.Duration(usage.Utime.Nano()+usage.Stime.Nano()), nil
}

// delay returns the DataNode's run delay since the last sample. Threads that it had then and has not
// now are left out.
func (p *Proc) delay(proc procfs.FS) float64 {
	before := p.threads
	p.threads = nil
	if p.DataNode == nil || p.DataNode() == 0 {
		return 0
	}
	tasks, err := proc.AllThreads(p.DataNode())
	if err != nil {
		return 0 // it ended: nobody is delayed
	}
	p.threads = make(map[int]procfs.ProcSchedstat, len(tasks))
	var waited, ran float64
	for _, task := range tasks {
		s, err := task.Schedstat()
		if err != nil {
			continue
		}
		p.threads[task.PID] = s
		old := before[task.PID]
		if before == nil || s.RunningNanoseconds < old.RunningNanoseconds || s.WaitingNanoseconds < old.WaitingNanoseconds {
			continue
		}
		waited += float64(s.WaitingNanoseconds - old.WaitingNanoseconds)
		ran += float64(s.RunningNanoseconds - old.RunningNanoseconds)
	}
	if waited+ran < float64(quiet) {
		return 0
	}
	return waited / (waited + ran)
}

// quiet is how much a DataNode must have wanted the CPU between two samples for its delay to mean
// anything.
const quiet = 5 * time.Millisecond

func pressure(proc procfs.FS, resource string) float64 {
	s, err := proc.PSIStatsForResource(resource)
	if err != nil || s.Some == nil {
		return 0 // the kernel was built or started without it
	}
	return s.Some.Avg10 / 100
}

// Check tells whether the load can be read here at all.
func (p *Proc) Check() error {
	_, err := (&Proc{Root: p.Root, DataNode: p.DataNode}).Sample(0)
	if errors.Is(err, ErrNoSample) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: a simulated node needs a scripted load", err)
	}
	return err
}
