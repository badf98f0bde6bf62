package nodecache

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Processes that want the same bytes read them once, and the last one leaves nothing.
func TestProcessesReadOnce(t *testing.T) {
	f := newFamily(t)
	f.Takes = 200 * time.Millisecond
	keeper := f.keep()
	var all []*process
	for range 6 {
		all = append(all, f.start(nil))
	}
	for _, p := range all {
		p.mustEnd()
	}
	if n := f.fills(); n != 1 {
		t.Errorf("%d of 6 processes read, want 1", n)
	}
	if left := f.left(); len(left) != 1 {
		t.Errorf("in the folder: %q, want one entry", left)
	}
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("after the last one: %q", left)
	}
}

// The one who reads for all is killed: another one takes over at once.
func TestReaderIsKilled(t *testing.T) {
	f := newFamily(t)
	f.Options.Stale = time.Hour // its end is to be noticed, not its silence
	f.keep()
	reader := f.start(func(c *child) { c.Takes = time.Hour })
	until(t, func() bool { return f.fills() == 1 })
	var others []*process
	for range 3 {
		others = append(others, f.start(nil))
	}
	for _, p := range others {
		p.waitBegun()
	}
	reader.kill()
	for _, p := range others {
		p.mustEnd()
	}
	if n := f.fills(); n != 2 {
		t.Errorf("%d fills, want the killed one's and one more", n)
	}
}

// The one who reads for all is killed, and a process that it had forked lives on with the kernel's lock.
func TestForkedProcessKeepsTheLock(t *testing.T) {
	f := newFamily(t)
	reader := f.start(func(c *child) { c.Takes, c.Forks = time.Hour, true })
	pid, err := strconv.Atoi(reader.waitBegun())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	other := f.start(nil)
	other.waitBegun()
	reader.kill()
	start := time.Now()
	other.mustEnd()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took over after %v, it may be silent for %v", took, f.Options.Stale)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Error("the forked process has ended: nothing was tested")
	}
}

// The one who reads for all stands still: another one takes over, and when it goes on it harms nothing.
func TestReaderIsStopped(t *testing.T) {
	f := newFamily(t)
	reader := f.start(func(c *child) { c.Takes = 100 * time.Millisecond })
	until(t, func() bool { return f.fills() == 1 })
	if err := reader.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	other := f.start(nil)
	other.mustEnd()
	if err := reader.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	reader.mustEnd()
}

// Ctrl-C ends a read for all and a wait for it; others go on.
func TestInterrupt(t *testing.T) {
	f := newFamily(t)
	f.Options.Stale = time.Hour
	reader := f.start(func(c *child) { c.Takes = time.Hour })
	until(t, func() bool { return f.fills() == 1 })
	waiter, other := f.start(nil), f.start(nil)
	waiter.waitBegun()
	other.waitBegun()
	for _, p := range []*process{waiter, reader} {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("interrupted: %v, %s", err, p.stderr.String())
		}
	}
	other.mustEnd()
}

// What a killed process had begun to write, and its locks, are gone with the next one.
func TestKilledWriterLeavesNothing(t *testing.T) {
	f := newFamily(t)
	f.Options.Stale = time.Nanosecond
	writer := f.start(func(c *child) { c.Draft = true })
	writer.waitBegun()
	reader := f.start(func(c *child) { c.Takes, c.Options.Stale = time.Hour, time.Hour })
	until(t, func() bool { return f.fills() == 1 })
	if left := f.left(); len(left) != 2 {
		t.Errorf("in the folder: %q, want a draft and a lock", left)
	}
	c := f.keep()
	if left := f.left(); len(left) != 2 {
		t.Errorf("while both live: %q", left)
	}
	writer.kill()
	reader.kill()
	if err := c.Sweep(); err != nil {
		t.Fatal(err)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	got := make([]byte, f.Key.Len)
	err := c.Read(t.Context(), f.Key, [][]byte{got}, func(context.Context) error { copy(got, contentOf(f.Key)); return nil })
	if err != nil || !bytes.Equal(got, contentOf(f.Key)) {
		t.Errorf("%v", err)
	}
}
