package hdfstest

import (
	"maps"
	"time"
)

// Failover makes a NameNode of a pair the active one, in good order.
func (c *Cluster) Failover(nn int) {
	c.t.Helper()
	c.do("activate", args{"nn": nn}, nil)
}

// StopNameNode ends a NameNode. Of a pair the other one does not become active by itself: call Failover.
func (c *Cluster) StopNameNode(nn int) {
	c.t.Helper()
	c.do("stopNameNode", args{"nn": nn}, nil)
}

// RestartNameNode ends a NameNode, if it runs, and starts it again at its address; of a pair it comes back as standby.
func (c *Cluster) RestartNameNode(nn int) {
	c.t.Helper()
	c.do("restartNameNode", args{"nn": nn}, nil)
}

// SafeMode turns the NameNode's safe mode on or off: it refuses changes while it is on.
func (c *Cluster) SafeMode(on bool) {
	c.t.Helper()
	c.do("safeMode", args{"on": on}, nil)
}

// Calls returns how often a NameNode served each call of clients and DataNodes, such as "GetBlockLocations", since it
// started. It counts a call just after it has answered: the numbers returned are those that stood still for a while.
func (c *Cluster) Calls(nn int) map[string]int64 {
	c.t.Helper()
	const still, tries = 3, 100
	calls := c.counted(nn)
	for same, i := 0, 0; same < still && i < tries; i++ {
		time.Sleep(5 * time.Millisecond)
		before := calls
		if calls = c.counted(nn); maps.Equal(before, calls) {
			same++
		} else {
			same = 0
		}
	}
	return calls
}

func (c *Cluster) counted(nn int) map[string]int64 {
	c.t.Helper()
	var calls map[string]int64
	c.do("calls", args{"nn": nn}, &calls)
	return calls
}
