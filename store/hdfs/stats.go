package hdfs

import (
	"sync/atomic"

	"github.com/stepahead-io/stepahead/store"
)

// stats counts what reading cost.
type stats struct {
	asked                 atomic.Int64
	retries               [causes]atomic.Int64
	hedgesWon, hedgesLost atomic.Int64
	hedgeBytes            atomic.Int64
	bytes                 [remote + 1]atomic.Int64 // by distance
}

func (s *stats) retried(c cause) { s.retries[c].Add(1) }

func (s *stats) delivered(distance int, n int64) { s.bytes[distance].Add(n) }

func (s *stats) hedged(won bool, n int64) {
	s.hedgeBytes.Add(n)
	if won {
		s.hedgesWon.Add(1)
	} else {
		s.hedgesLost.Add(1)
	}
}

// ReadStats implements store.ReadCounter. All causes are there, those at zero included.
func (s *Store) ReadStats() store.ReadStats {
	r := store.ReadStats{
		Asked: s.stats.asked.Load(), Retries: make(map[string]int64, causes),
		HedgesWon: s.stats.hedgesWon.Load(), HedgesLost: s.stats.hedgesLost.Load(), HedgeBytes: s.stats.hedgeBytes.Load(),
		SameNode: s.stats.bytes[sameNode].Load(), SameRack: s.stats.bytes[sameRack].Load(), Remote: s.stats.bytes[remote].Load(),
	}
	for c := range causes {
		r.Retries[c.String()] = s.stats.retries[c].Load()
	}
	s.rpcStats(&r)
	return r
}
