package hdfstest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// DataNodes returns the DataNodes as they are now.
func (c *Cluster) DataNodes() []DataNode {
	c.t.Helper()
	var nodes []DataNode
	c.do("nodes", nil, &nodes)
	return nodes
}

// Kill ends a DataNode, by kill -9 where it is a process of its own. The NameNode goes on to name it as a location
// (see Bury).
func (c *Cluster) Kill(dn int) {
	c.t.Helper()
	c.do("kill", args{"dn": dn}, nil)
}

// Leave ends a DataNode as administrators do before an upgrade (hdfs dfsadmin -shutdownDatanode ADDR upgrade): it tells
// writers that it restarts, and takes up the blocks that they write when it does. Not with OneJVMEach.
func (c *Cluster) Leave(dn int) {
	c.t.Helper()
	c.do("leave", args{"dn": dn}, nil)
}

// Bury makes the NameNodes notice at once that a killed DataNode is dead; by themselves they take ten minutes.
func (c *Cluster) Bury(dn int) {
	c.t.Helper()
	c.do("bury", args{"dn": dn}, nil)
}

// Restart starts a DataNode again that was killed or has left, on its port or on another one, and waits until the NameNodes know its blocks.
func (c *Cluster) Restart(dn int, samePort bool) {
	c.t.Helper()
	c.do("restart", args{"dn": dn, "samePort": samePort}, nil)
}

// Pause stops the process of a DataNode by SIGSTOP: its connections stay and nothing answers. It needs OneJVMEach.
func (c *Cluster) Pause(dn int) {
	c.t.Helper()
	c.signal(dn, syscall.SIGSTOP)
}

// Resume lets a paused DataNode go on.
func (c *Cluster) Resume(dn int) {
	c.t.Helper()
	c.signal(dn, syscall.SIGCONT)
}

func (c *Cluster) signal(dn int, signal syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.process(dn), signal); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) process(dn int) int {
	c.t.Helper()
	if !c.options.OneJVMEach {
		c.t.Fatal("hdfstest: this needs a process for each DataNode: set Options.OneJVMEach")
	}
	return c.DataNodes()[dn].PID
}

// CPU returns the processor time that a DataNode has used. It needs OneJVMEach.
func (c *Cluster) CPU(dn int) time.Duration {
	c.t.Helper()
	used, err := processTime(c.process(dn))
	if err != nil {
		c.t.Fatal(err)
	}
	return used
}

// processTime reads the fields utime and stime of /proc/PID/stat, which count hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it may hold blanks
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Decommission takes the DataNodes named out of service and all others back, and waits until their blocks have been
// copied to others.
func (c *Cluster) Decommission(dns ...int) {
	c.t.Helper()
	if dns == nil {
		dns = []int{}
	}
	c.do("decommission", args{"dns": dns}, nil)
}
