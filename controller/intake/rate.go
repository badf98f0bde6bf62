package intake

import "time"

// What one job, and one agent for all its jobs, may say: so much at once, and so much a second. A job that says more is not heard, an agent is heard later.
const (
	jobBurst, jobRate     = 2_000, 20
	agentBurst, agentRate = 100_000, 500
)

// bucket holds tokens, at most size of them, that come back at a rate a second. The zero value is full.
type bucket struct {
	size, rate float64
	used       float64
	at         time.Duration
}

// take takes one; if there is none, it says how long it is until there is.
func (b *bucket) take(now time.Duration) (wait time.Duration) {
	b.used = max(0, b.used-max(0, (now-b.at).Seconds())*b.rate)
	b.at = now
	if b.used+1 > b.size {
		return max(time.Duration((b.used+1-b.size)/b.rate*float64(time.Second)), 1)
	}
	b.used++
	return 0
}
