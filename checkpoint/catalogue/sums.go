package catalogue

import (
	"cmp"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/stepahead-io/stepahead/store"
)

// maxPieces bounds what is remembered of a file that is read in many places: of one that is read in more, no sum is made.
const maxPieces = 1 << 12

// piece is a run of a file's bytes that was handed out, and the CRC32C of it.
type piece struct {
	off, len int64
	crc      uint32
}

func (p piece) end() int64 { return p.off + p.len }

// sum makes the CRC32C of a file of what its readers read of it, in any order: it costs no reading, and tells at the last piece. It is safe for concurrent use.
type sum struct {
	size  int64
	want  uint32
	table *crc32.Table

	mu     sync.Mutex
	pieces []piece // sorted, not touching each other
	done   bool    // compared, or given up
}

func newSum(size int64, want uint32) *sum {
	return &sum{size: size, want: want, table: crc32.MakeTable(crc32.Castagnoli)}
}

// add takes in what was read. If it is the last of the file and the sum is not the one that is wanted, it returns false and what was taken in before.
func (s *sum) add(ranges []store.Range) (before []piece, ok bool) {
	crcs := make([]uint32, len(ranges)) // made before the lock is taken: readers of one file must not wait for each other
	for i, r := range ranges {
		crcs[i] = crc32.Checksum(r.Buf, s.table)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil, true
	}
	now := s.pieces
	for i, r := range ranges {
		now = s.with(now, r, crcs[i])
	}
	if len(now) > maxPieces {
		s.done, s.pieces = true, nil
		return nil, true
	}
	if len(now) != 1 || now[0].len != s.size {
		s.pieces = now
		return nil, true
	}
	s.done = true
	return s.pieces, now[0].crc == s.want
}

// with returns pieces and those bytes of a range, with its CRC, that are in none of them.
func (s *sum) with(pieces []piece, r store.Range, crc uint32) []piece {
	var found []piece
	at, end := r.Off, r.Off+int64(len(r.Buf))
	take := func(to int64) {
		if to = min(to, end); to <= at {
			return
		}
		if at != r.Off || to != end {
			crc = crc32.Checksum(r.Buf[at-r.Off:to-r.Off], s.table)
		}
		found = append(found, piece{at, to - at, crc})
	}
	for _, p := range pieces {
		take(p.off)
		at = max(at, p.end())
	}
	take(end)
	if found == nil {
		return pieces
	}
	return joined(append(found, pieces...))
}

// joined sorts pieces and makes one of those that touch each other.
func joined(pieces []piece) []piece {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
	out := pieces[:1]
	for _, p := range pieces[1:] {
		last := &out[len(out)-1]
		if last.end() == p.off {
			*last = piece{last.off, last.len + p.len, store.JoinCRC32C(last.crc, p.crc, p.len)}
			continue
		}
		out = append(out, p)
	}
	return out
}
