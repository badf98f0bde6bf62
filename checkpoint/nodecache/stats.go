package nodecache

import "sync/atomic"

// Reason is why a process read for itself alone. The set is closed: metrics are labelled by it.
type Reason int

const (
	ByIdentity Reason = iota // the file's version has no identity
	BySize                   // more than MaxBytes, or not as many bytes as the key says
	ByRoom                   // what was read before found no room in the shared files
	ByWait                   // the one who reads for all took longer than Options.Wait
	ByFailure                // those who read for all failed
	ByError                  // the shared files could not be used
	reasons                  // how many there are
)

var reasonNames = [reasons]string{"identity", "size", "room", "wait", "failure", "error"}

func (r Reason) String() string { return reasonNames[r] }

// Stats count what a Cache did since it was opened, in bytes.
type Stats struct {
	// Shared were copied from what another had read, Read were read for all.
	Shared, Read int64
	// Unshared are those of Read that found no room in the shared files.
	Unshared int64
	// Alone were read for this process alone, by reason; all reasons are there.
	Alone map[string]int64
}

type counts struct {
	shared, read, unshared atomic.Int64
	alone                  [reasons]atomic.Int64
}

// Stats returns the counts now. The caller owns the map.
func (c *Cache) Stats() Stats {
	s := Stats{Shared: c.counts.shared.Load(), Read: c.counts.read.Load(), Unshared: c.counts.unshared.Load(), Alone: map[string]int64{}}
	for r := range reasons {
		s.Alone[r.String()] = c.counts.alone[r].Load()
	}
	return s
}
