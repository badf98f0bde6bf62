package worker

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepahead-io/stepahead/transform"
)

// scriptOf is a program that runs another one as its child, as people write them who forget exec.
func scriptOf(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n'"+program+"' \"$@\"\nexit $?\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// members lists the processes of a group that are alive.
func members(t *testing.T, group int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, _ := os.ReadFile(path) // it may be gone
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 3 || fields[0] == "Z" || fields[2] != strconv.Itoa(group) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// scriptPool runs a fake worker behind a script, and returns the process group of its first one.
func scriptPool(t *testing.T) (*Pool, int) {
	t.Helper()
	p, err := New(Options{Path: scriptOf(t, os.Args[0]), MemoryLimit: fakeMemory, Workers: 1, Deadline: time.Second, testing: testKnobs{args: []string{"fake=good"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	works(t, p)
	for w := range p.live {
		if n := len(members(t, w.cmd.Process.Pid)); n != 2 {
			t.Fatalf("%d processes, want the script and its child", n)
		}
		return p, w.cmd.Process.Pid
	}
	t.Fatal("no worker")
	return nil, 0
}

// Whatever a pool does to a script happens to the worker behind it.
func TestNothingIsLeftOfAScript(t *testing.T) {
	for name, end := range map[string]func(p *Pool, group int){
		"deadline": func(p *Pool, _ int) {
			_, _, err := run(t.Context(), t, p, "hang!!", 6)
			wantKind(t, err, transform.KindDeadline)
		},
		"close":            func(p *Pool, _ int) { p.Close() },
		"the script's own": func(_ *Pool, group int) { _ = unix.Kill(group, unix.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			p, group := scriptPool(t)
			for _, pid := range members(t, group) {
				if pid != group && name != "deadline" {
					_ = unix.Kill(pid, unix.SIGSTOP) // so that it cannot end by itself when its socket closes
				}
			}
			end(p, group)
			waitFor(t, func() bool { return len(members(t, group)) == 0 })
		})
	}
}

// The worker behind a script ends with the pool's process, also when it is too busy to see its socket close.
func TestWorkersBehindAScriptEndWithTheirParent(t *testing.T) {
	program, err := buildReal()
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0], "fake=parent", scriptOf(t, program))
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer owner.Wait()
	defer owner.Process.Kill()
	var group int
	if _, err := fmt.Fscan(bufio.NewReader(stdout), &group); err != nil {
		t.Fatal(err)
	}
	behind := members(t, group)
	if len(behind) != 2 {
		t.Fatalf("processes %v, want the script and its child", behind)
	}
	for _, pid := range behind {
		if pid != group {
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
	}
	_ = owner.Process.Kill()
	waitFor(t, func() bool { return len(members(t, group)) == 0 })
}
