package agent

import "time"

// bucket is the egress budget: rate bytes a second, of which one second may be saved up. The last
// entry may overdraw it, so that an entry larger than the bucket can pass at all.
type bucket struct {
	rate, level int64
	at          time.Duration
}

func (b *bucket) fill(now time.Duration) {
	b.level = min(b.rate, b.level+int64(float64(b.rate)*(now-b.at).Seconds()))
	b.at = now
}

func (b *bucket) open() bool { return b.rate == 0 || b.level > 0 }

func (b *bucket) take(n int64) { b.level -= n }

// opens returns when the level is above 0 again.
func (b *bucket) opens() time.Duration {
	return b.at + time.Duration(float64(1-b.level)/float64(b.rate)*float64(time.Second)) + 1
}
