package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// workerLife is the CPU time after which a worker is replaced between two jobs, so that what a decoder may leak stays
// bounded. The hard limit lies above it, for a worker whose parent can no longer watch it.
const workerLife = time.Hour

// maxFiles is the number of descriptors of a worker: six are used, and a few by its runtime.
const maxFiles = 32

// limitResources sets the limits of a process that has only just begun.
func limitResources(pid int, o Options) error {
	cpu := uint64((workerLife + 4*o.Deadline) / time.Second)
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"AS", unix.RLIMIT_AS, uint64(o.MemoryLimit)},
		{"CPU", unix.RLIMIT_CPU, cpu},
		{"CORE", unix.RLIMIT_CORE, 0},
		{"FSIZE", unix.RLIMIT_FSIZE, 0},
	} {
		if err := lower(pid, l.resource, l.value); err != nil {
			return fmt.Errorf("limiting RLIMIT_%s to %d: %w", l.name, l.value, err)
		}
	}
	// When memory runs out a worker is what the host can best do without. Not every container allows it.
	_ = os.WriteFile(procPath(pid, "oom_score_adj"), []byte("1000"), 0)
	return nil
}

// limitFiles sets the limit on descriptors. It comes after the worker has closed those that it inherited by mistake: a
// program whose lowest free descriptor lies above the limit cannot even load its libraries.
func limitFiles(pid int) error {
	if err := lower(pid, unix.RLIMIT_NOFILE, maxFiles); err != nil {
		return fmt.Errorf("limiting RLIMIT_NOFILE to %d: %w", maxFiles, err)
	}
	return nil
}

// lower sets a limit, or keeps one that is tighter already.
func lower(pid, resource int, value uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		return err
	}
	value = min(value, old.Max)
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
}

// makeIdle puts every thread of a process into SCHED_IDLE. Threads inherit the class from the one that starts
// them, so it looks again until it finds no new thread.
func makeIdle(pid int) error {
	done := map[int]bool{}
	for {
		tasks, err := os.ReadDir(procPath(pid, "task"))
		if err != nil {
			return err
		}
		fresh := false
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}
			if err := unix.SchedSetAttr(tid, &attr, 0); err != nil && err != unix.ESRCH {
				return fmt.Errorf("SCHED_IDLE for thread %d: %w", tid, err)
			}
			done[tid], fresh = true, true
		}
		if !fresh {
			return nil
		}
	}
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
