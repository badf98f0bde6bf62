package hdfs

import (
	"context"
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

// reportWithin bounds how long a read waits for the NameNode to hear about a corrupt replica.
const reportWithin = 2 * time.Second

// reportCorrupt tells the NameNode which replicas of a block are wrong, so that it replaces them; each once in a while. When all
// of several replicas look wrong the fault is probably ours, and nothing is reported. A report that fails is left to the
// next reader.
func (s *Store) reportCorrupt(ctx context.Context, b *block, bad []place) {
	if len(bad) == 0 || len(bad) >= len(b.places) && len(b.places) > 1 {
		return
	}
	news := bad[:0]
	for _, p := range bad {
		if s.reports.first(replicaKey{b.id, p.node}, time.Now()) {
			news = append(news, p)
		}
	}
	if len(news) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	_ = s.names.ReportBadBlocks(ctx, []*hproto.LocatedBlock{badBlock(b, news)})
}

// reports remembers what was reported. It is safe for concurrent use.
type reports struct {
	mu   sync.Mutex
	done map[replicaKey]badMark
}

// first tells whether a replica was not reported lately, and notes that it is now.
func (r *reports) first(key replicaKey, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.done[key].until) {
		return false
	}
	if r.done == nil {
		r.done = map[replicaKey]badMark{}
	}
	makeRoom(r.done, now)
	r.done[key] = badMark{until: now.Add(badReplica)}
	return true
}

// badBlock describes replicas of a block for a report: the nodes, and their storages if all are known.
func badBlock(b *block, bad []place) *hproto.LocatedBlock {
	off, corrupt, empty := uint64(b.off), true, ""
	l := &hproto.LocatedBlock{
		B: b.ext, Offset: &off, Corrupt: &corrupt,
		BlockToken: &hproto.Token{Identifier: []byte{}, Password: []byte{}, Kind: &empty, Service: &empty},
	}
	for _, p := range bad {
		l.Locs = append(l.Locs, p.node.describe())
		if p.sid != "" {
			l.StorageIds = append(l.StorageIds, p.sid)
		}
	}
	if len(l.StorageIds) != len(l.Locs) {
		l.StorageIds = nil
	}
	return l
}
