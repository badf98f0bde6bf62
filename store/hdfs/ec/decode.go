package ec

import (
	"context"

	"github.com/klauspost/reedsolomon"
)

// decoder is made when the first byte must be decoded.
type decoder struct {
	rs     reedsolomon.Encoder
	shards [][]byte // by unit, memory for one chunk each
}

// decode computes the wanted bytes of a span that their own units did not give.
func (r *reader) decode(ctx context.Context, s span) error {
	if err := r.prepare(); err != nil {
		return err
	}
	shards := make([][]byte, len(r.failed))
	if err := r.gather(ctx, s, shards); err != nil {
		return err
	}
	want := make([]bool, r.policy.Data)
	for unit := range want {
		want[unit] = r.lacks(unit, s)
		if want[unit] {
			shards[unit] = r.memory(unit, s)[:0] // room for the result
		}
	}
	if err := r.code.rs.ReconstructSome(shards, want); err != nil {
		return err
	}
	for unit, w := range r.wanted[:r.policy.Data] {
		if want[unit] {
			w.take(s, shards[unit])
		}
	}
	return nil
}

func (r *reader) prepare() (err error) {
	if r.code.rs == nil {
		r.code.shards = make([][]byte, len(r.failed))
		r.code.rs, err = newDecoder(r.policy)
	}
	return err
}

// memory returns a unit's buffer for a span. What it held before is of no use any more.
func (r *reader) memory(unit int, s span) []byte {
	n := s.end - s.off
	if int64(cap(r.code.shards[unit])) < n {
		r.code.shards[unit] = make([]byte, n)
	}
	return r.code.shards[unit][:n]
}

// gather fills Data shards with the units' bytes of a span: first what is known without a read, then what
// is read, from data units before parity units. A unit that fails is replaced by the next.
func (r *reader) gather(ctx context.Context, s span, shards [][]byte) error {
	have := 0
	for unit := range shards {
		if have < r.policy.Data && r.known(unit, s) {
			shards[unit] = r.recall(unit, s)
			have++
		}
	}
	for have < r.policy.Data {
		ask := r.choose(shards, r.policy.Data-have)
		if len(ask) == 0 {
			return r.tooFew(have)
		}
		err := r.each(ctx, ask, func(unit int) error {
			buf := r.memory(unit, s)
			n := min(int64(len(buf)), r.policy.UnitLen(r.group, unit)-s.off)
			clear(buf[n:]) // a unit that ends before the others counts as if zeros followed
			_, err := r.units.Read(ctx, unit, []Part{{Off: s.off, Buf: buf[:n:n]}})
			return err
		})
		if err != nil {
			return err
		}
		for _, unit := range ask {
			if r.failed[unit] == nil {
				shards[unit] = r.memory(unit, s)
				have++
			}
		}
	}
	return nil
}

// choose picks up to n units to read: none that has failed or that a shard was filled from.
func (r *reader) choose(shards [][]byte, n int) []int {
	var ask []int
	for unit := range shards {
		if len(ask) < n && shards[unit] == nil && r.failed[unit] == nil {
			ask = append(ask, unit)
		}
	}
	return ask
}

// known says whether a unit's bytes of a span need no read: it ended before, or the caller has them.
func (r *reader) known(unit int, s span) bool {
	end := r.policy.UnitLen(r.group, unit)
	return end <= s.off || r.wanted[unit].covers(span{s.off, min(s.end, end)})
}

func (r *reader) recall(unit int, s span) []byte {
	buf := r.memory(unit, s)
	clear(buf)
	for _, part := range r.wanted[unit].parts {
		if at := overlap(part, s); at.off < at.end {
			copy(buf[at.off-s.off:at.end-s.off], part.Buf[at.off-part.Off:])
		}
	}
	return buf
}

// lacks says whether wanted bytes of a unit in a span are not there.
func (r *reader) lacks(unit int, s span) bool {
	w := r.wanted[unit]
	for _, part := range w.parts {
		if at := overlap(part, s); max(at.off, w.until) < at.end {
			return true
		}
	}
	return false
}

// covers says whether every byte of a span is wanted and there.
func (w wanted) covers(s span) bool {
	if s.end > w.until {
		return false
	}
	at := s.off
	for _, part := range w.parts {
		if part.Off <= at {
			at = max(at, part.end())
		}
	}
	return at >= s.end
}

// take copies the bytes of a span, from s.off on, to where they are wanted and not there.
func (w wanted) take(s span, decoded []byte) {
	for _, part := range w.parts {
		at := overlap(part, s)
		if at.off = max(at.off, w.until); at.off < at.end {
			copy(part.Buf[at.off-part.Off:at.end-part.Off], decoded[at.off-s.off:])
		}
	}
}

func overlap(part Part, s span) span { return span{max(part.Off, s.off), min(part.end(), s.end)} }
