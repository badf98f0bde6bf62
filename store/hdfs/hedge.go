package hdfs

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// hedgeShare is the part of the asked bytes that may be asked a second time: 1/20, 5 %.
	hedgeShare = 20
	// maxHedge bounds the reads that are asked twice. A larger one that is slow is handed over to another node from
	// where it stands instead, which costs no bytes.
	maxHedge = 1 << 20
	// maxHedgeMemory bounds the memory that second answers are read into.
	maxHedgeMemory = 16 << 20

	hedgeEarliest = 50 * time.Millisecond // below it, a pause of a garbage collector or one seek would look like a slow node
	hedgeLatest   = 2 * time.Second
	hedgeAtFirst  = 500 * time.Millisecond // while nothing is known of this size of read
	hedgeLearn    = 20                     // reads that make something known
)

// hedger decides when a slow read is asked of a second node. It is safe for concurrent use.
type hedger struct {
	mu      sync.Mutex
	sizes   [24]quantile // by the binary logarithm of the read's bytes
	asked   int64        // bytes of reads so far
	doubled int64        // bytes that were asked twice
	memory  int64        // in use
}

// quantile follows the 95th percentile of durations: a longer one raises it by 9.5 %, a shorter one lowers it by 0.5 %, which
// balances when one of twenty is longer.
type quantile struct {
	value float64
	seen  int
}

func (q *quantile) observe(d time.Duration) {
	q.seen++
	switch x := float64(d); {
	case q.seen == 1:
		q.value = x
	case x > q.value:
		q.value *= 1.095
	default:
		q.value *= 0.995
	}
}

func (h *hedger) size(n int64) *quantile { return &h.sizes[min(bits.Len64(uint64(n)), len(h.sizes)-1)] }

// observe notes how long a read of n bytes took, or had taken when it was given up as too slow.
func (h *hedger) observe(n int64, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked += n
	h.size(n).observe(took)
}

// delay is how long a read of n bytes may take before a second node is asked: twice what 95 % of such reads take.
func (h *hedger) delay(n int64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.size(n)
	if q.seen < hedgeLearn {
		return hedgeAtFirst
	}
	return min(max(2*time.Duration(q.value), hedgeEarliest), hedgeLatest)
}

// take books memory and bytes for asking n bytes a second time; false if there are none left. give returns the memory.
func (h *hedger) take(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > maxHedge || h.memory+n > maxHedgeMemory || (h.doubled+n)*hedgeShare > h.asked {
		return false
	}
	h.memory += n
	h.doubled += n
	return true
}

func (h *hedger) give(n int64) {
	h.mu.Lock()
	h.memory -= n
	h.mu.Unlock()
}
