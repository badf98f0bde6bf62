package hints

import (
	"maps"
	"time"
)

// LedgerSnapshot is an account at one moment. Snapshots of several ranks, agents or stretches of time
// add up ([LedgerSnapshot.Merge]). The zero value is an empty account.
type LedgerSnapshot struct {
	// Hits were ready when asked for, Late were waited for, Misses were not prepared.
	Hits   uint64 `json:"hits"`
	Late   uint64 `json:"late"`
	Misses uint64 `json:"misses"`
	// Lead is how long the hits had lain ready.
	Lead LeadTimes `json:"lead"`
	// Prepared is the work done ahead, Unused the part of it that nobody asked for in time.
	Prepared Work `json:"prepared"`
	Unused   Work `json:"unused"`
	// Fallbacks are the misses by reason, Nodes everything by node.
	Fallbacks map[string]uint64       `json:"fallbacks,omitempty"`
	Nodes     map[string]*NodeAccount `json:"nodes,omitempty"`
}

// NodeAccount is what one node gave.
type NodeAccount struct {
	Hits      uint64            `json:"hits"`
	Late      uint64            `json:"late"`
	Fallbacks map[string]uint64 `json:"fallbacks,omitempty"`
}

// Work is an amount of preparation.
type Work struct {
	Count      uint64  `json:"count"`
	Bytes      int64   `json:"bytes"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

func (w *Work) add(o Work) {
	w.Count += o.Count
	w.Bytes += o.Bytes
	w.CPUSeconds += o.CPUSeconds
}

// leadBuckets are those of [LeadTimes]: up to 1 ms, 2 ms, 4 ms ... 2^20 ms (17 minutes), and more.
const leadBuckets = 22

// LeadTimes is a histogram of lead times. Bucket i counts those up to [LeadBound](i).
type LeadTimes struct {
	Buckets [leadBuckets]uint64 `json:"buckets"`
	// Seconds is their sum.
	Seconds float64 `json:"seconds"`
}

// LeadBound is the largest lead time of a bucket of [LeadTimes]; the last bucket's has no meaning.
func LeadBound(bucket int) time.Duration { return time.Millisecond << bucket }

func (t *LeadTimes) observe(lead time.Duration) {
	lead = max(lead, 0)
	i := 0
	for i < leadBuckets-1 && lead > LeadBound(i) {
		i++
	}
	t.Buckets[i]++
	t.Seconds += lead.Seconds()
}

// Quantile returns an upper bound of the q-quantile, 0 <= q <= 1, exact to a factor of two; 0 if nothing
// was observed.
func (t LeadTimes) Quantile(q float64) time.Duration {
	var total uint64
	for _, n := range t.Buckets {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(total)+0.5), 1)
	var sum uint64
	for i, n := range t.Buckets {
		if sum += n; sum >= rank {
			return LeadBound(i)
		}
	}
	return LeadBound(leadBuckets - 1)
}

// HitRate is the share of answers that were prepared, late ones included; 0 if there were none.
func (s LedgerSnapshot) HitRate() float64 {
	total := s.Hits + s.Late + s.Misses
	if total == 0 {
		return 0
	}
	return float64(s.Hits+s.Late) / float64(total)
}

// Merge returns the sum of two accounts. It changes neither and shares nothing with them.
func (s LedgerSnapshot) Merge(o LedgerSnapshot) LedgerSnapshot {
	s.Hits += o.Hits
	s.Late += o.Late
	s.Misses += o.Misses
	for i, n := range o.Lead.Buckets {
		s.Lead.Buckets[i] += n
	}
	s.Lead.Seconds += o.Lead.Seconds
	s.Prepared.add(o.Prepared)
	s.Unused.add(o.Unused)
	s.Fallbacks = countAll(maps.Clone(s.Fallbacks), o.Fallbacks)
	s.Nodes = mergeNodes(s.Nodes, o.Nodes)
	return s
}

func mergeNodes(a, b map[string]*NodeAccount) map[string]*NodeAccount {
	if len(a)+len(b) == 0 {
		return nil
	}
	sum := make(map[string]*NodeAccount, len(a)+len(b))
	for _, part := range []map[string]*NodeAccount{a, b} {
		for name, n := range part {
			if sum[name] == nil {
				sum[name] = &NodeAccount{}
			}
			row := sum[name]
			row.Hits += n.Hits
			row.Late += n.Late
			row.Fallbacks = countAll(row.Fallbacks, n.Fallbacks)
		}
	}
	return sum
}

func countAll(m, more map[string]uint64) map[string]uint64 {
	for k, n := range more {
		m = count(m, k, n)
	}
	return m
}

func count(m map[string]uint64, key string, n uint64) map[string]uint64 {
	if m == nil {
		m = make(map[string]uint64)
	}
	m[key] += n
	return m
}
