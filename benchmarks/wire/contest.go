package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// contest is every wire in a process of its own, and what was measured on each. In one process the garbage
// of one wire would be collected on the time of the next.
type contest struct {
	racers  []*racer
	samples [][]sample
}

// racer is the process of one wire: it measures once for every line that it reads.
type racer struct {
	name string
	cmd  *exec.Cmd
	ask  io.WriteCloser
	tell *bufio.Reader
}

func newContest(size int) (*contest, error) {
	c := &contest{samples: make([][]sample, len(wires))}
	for _, w := range wires {
		r, err := start(w.name, size)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.racers = append(c.racers, r)
	}
	return c, nil
}

func start(name string, size int) (*racer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	cmd := exec.Command(program, "-wire", name, "-part", strconv.Itoa(size))
	cmd.Stderr = os.Stderr
	ask, err1 := cmd.StdinPipe()
	tell, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, fmt.Errorf("wire: start %s: %w", name, err)
	}
	return &racer{name, cmd, ask, bufio.NewReader(tell)}, nil
}

// stop ends the processes, which end when nobody can ask them any more.
func (c *contest) stop() error {
	var errs []error
	for _, r := range c.racers {
		errs = append(errs, r.ask.Close(), r.cmd.Wait())
	}
	return errors.Join(errs...)
}

// round measures each wire once, in turn, and forgets what it measured unless keep is set.
func (c *contest) round(keep bool) error {
	for i, r := range c.racers {
		s, err := r.measure()
		if err != nil {
			return fmt.Errorf("wire %s: %w", r.name, err)
		}
		if keep {
			c.samples[i] = append(c.samples[i], s)
		}
	}
	return nil
}

func (r *racer) measure() (s sample, err error) {
	if _, err := fmt.Fprintln(r.ask); err != nil {
		return s, err
	}
	line, err := r.tell.ReadBytes('\n')
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(line, &s)
}

// race is what the process of one wire does.
func race(name string, size int, in io.Reader, out io.Writer) error {
	open := opener(name)
	if open == nil {
		return fmt.Errorf("no wire %q", name)
	}
	w, err := open(pattern(size))
	if err != nil {
		return err
	}
	defer w.stop()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		s, err := w.measure(max(1, roundBytes/size))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(s); err != nil {
			return err
		}
	}
	return lines.Err()
}

// inFront asks the system to run the processes that this thread starts before all others, because whatever
// holds up one end of a connection holds up both; it says whether the system does.
func inFront() bool {
	runtime.LockOSThread()
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 10}, 0) == nil
}
