package namenode

import (
	"maps"
	"sync"
)

// Stats counts what a Client has done since New.
type Stats struct {
	// Calls by method, each counted once whatever it took.
	Calls map[string]int64
	// Failures by method: calls that ended with an error.
	Failures map[string]int64
	// Retries by cause: unreachable, standby, busy, stale, broken, silent. All are present.
	Retries map[string]int64
	// Connections opened, and changes of the NameNode that is called first.
	Connections, Failovers int64
	// BytesSent and BytesReceived count what went over connections, protection included.
	BytesSent, BytesReceived int64
}

type counters struct {
	mu sync.Mutex
	s  Stats
}

func newCounters() *counters {
	c := &counters{s: Stats{Calls: map[string]int64{}, Failures: map[string]int64{}, Retries: map[string]int64{}}}
	for k := causeUnreachable; k < causes; k++ {
		c.s.Retries[k.String()] = 0
	}
	return c
}

func (c *counters) count(f func(s *Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.s)
}

// Stats returns what was counted so far.
func (c *Client) Stats() Stats {
	c.counters.mu.Lock()
	defer c.counters.mu.Unlock()
	s := c.counters.s
	s.Calls, s.Failures, s.Retries = maps.Clone(s.Calls), maps.Clone(s.Failures), maps.Clone(s.Retries)
	return s
}
