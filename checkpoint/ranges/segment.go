package ranges

import "github.com/stepahead-io/stepahead/store"

// direct is the length in bytes from which a piece is read into its own memory where each range costs a system call: copying
// less is cheaper than asking for it apart.
const direct = 256 << 10

// segment is a stretch of a read that is read into one piece of memory: that of a want, or bounce memory, from which its
// pieces are copied.
type segment struct {
	off, n  int64
	pieces  []Piece
	bounced bool
}

// segments cuts a read of a file that bridges holes of so many bytes. Over those it takes no segment: the others together
// cover the read.
func segments(r Request, bridges int64) []segment {
	if span := r.End - r.Off; bridges > 0 && widest(r) <= bridges && span > Small {
		return apart(r)
	}
	var out []segment
	var cur segment // small pieces and holes
	end := func() {
		cur.bounced = len(cur.pieces) != 1 || cur.pieces[0].N != cur.n
		if cur.n > 0 {
			out = append(out, cur)
		}
	}
	cur.off = r.Off
	for i, p := range r.Pieces {
		if p.N < direct {
			cur.pieces = append(cur.pieces, r.Pieces[i])
			cur.n = p.end() - cur.off
			continue
		}
		cur.n = p.Off - cur.off
		end()
		out = append(out, segment{off: p.Off, n: p.N, pieces: r.Pieces[i : i+1]})
		cur = segment{off: p.end()}
	}
	end()
	return out
}

// apart makes each piece a segment.
func apart(r Request) []segment {
	out := make([]segment, len(r.Pieces))
	for i, p := range r.Pieces {
		out[i] = segment{off: p.Off, n: p.N, pieces: r.Pieces[i : i+1]}
	}
	return out
}

// widest is the length of the largest hole in a read.
func widest(r Request) (n int64) {
	for i, p := range r.Pieces[1:] {
		n = max(n, p.Off-r.Pieces[i].end())
	}
	return n
}

// bouncing is how much bounce memory segments take.
func bouncing(all []segment) (n int64) {
	for _, s := range all {
		if s.bounced {
			n += s.n
		}
	}
	return n
}

// place gives memory to segments: to each its want's, or a part of bounce.
func place(all []segment, wants []Want, bounce []byte) []store.Range {
	out := make([]store.Range, len(all))
	for i, s := range all {
		if s.bounced {
			out[i], bounce = store.Range{Off: s.off, Buf: bounce[:s.n]}, bounce[s.n:]
		} else {
			out[i] = store.Range{Off: s.off, Buf: memory(wants, s.pieces[0])}
		}
	}
	return out
}

// deal copies what was bounced to where it is wanted.
func deal(all []segment, from []store.Range, wants []Want) {
	for i, s := range all {
		for _, p := range s.pieces {
			if s.bounced {
				copy(memory(wants, p), from[i].Buf[p.Off-s.off:])
			}
		}
	}
}

// memory is that of a piece.
func memory(wants []Want, p Piece) []byte { return wants[p.Want].Dst[p.At : p.At+p.N] }
