package ranges

import (
	"cmp"
	"slices"
)

// A Plan says which reads fill the memory of wants. It is a pure function of wants and limits.
type Plan struct {
	// Requests are in the order in which they are to be started: the offsets in a file rise, and all files are under way from
	// the first to the last read, so that reads near each other are of different blocks, and those on different nodes.
	Requests []Request
	// Copies fill what is wanted more than once, when all reads are done, in their order.
	Copies []Copy
	// Wanted is how many distinct bytes are wanted.
	Wanted int64
	// SmallAvoided is how many wanted ranges shorter than Small have no read of their own.
	SmallAvoided int
}

// A Request covers the bytes [Off, End) of a file, of which Wanted are wanted: those of its Pieces, which are sorted and do not
// overlap. The first begins at Off, the last ends at End.
type Request struct {
	File     int
	Off, End int64
	Wanted   int64
	Pieces   []Piece
}

// A Piece is n bytes at Off of a file, which go to the memory of a want from At on.
type Piece struct {
	Want int
	At   int64
	Off  int64
	N    int64
}

func (p Piece) end() int64 { return p.Off + p.N }

// cut returns the first n bytes of p, and the rest.
func (p Piece) cut(n int64) (first, rest Piece) {
	return Piece{p.Want, p.At, p.Off, n}, Piece{p.Want, p.At + n, p.Off + n, p.N - n}
}

// A Copy brings N bytes from the memory of one want to that of another.
type Copy struct {
	From, To     int
	FromAt, ToAt int64
	N            int64
}

// NewPlan plans the reads of wants. Limits must be valid.
func NewPlan(wants []Want, l Limits) Plan {
	l = l.withDefaults()
	var p Plan
	pieces := p.disjoint(wants)
	for _, of := range pieces {
		for _, piece := range of {
			p.Wanted += piece.N
		}
	}
	b := builder{limits: l, target: l.target(p.Wanted)}
	for file, of := range pieces {
		b.file(file, of)
	}
	p.Requests = interleave(b.reads)
	p.SmallAvoided = avoided(wants, p.Requests)
	return p
}

// disjoint returns, for each file, sorted pieces in which each wanted byte is once. What is wanted again becomes copies.
func (p *Plan) disjoint(wants []Want) [][]Piece {
	order := make([]int, 0, len(wants))
	files := 0
	for i, w := range wants {
		if len(w.Dst) > 0 {
			order = append(order, i)
			files = max(files, w.File+1)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(wants[a].File, wants[b].File), cmp.Compare(wants[a].Off, wants[b].Off))
	})
	pieces := make([][]Piece, files)
	last := -1 // the want that reaches furthest so far; it began no later than those that follow
	for _, i := range order {
		w := wants[i]
		piece := Piece{Want: i, Off: w.Off, N: int64(len(w.Dst))}
		if last >= 0 && wants[last].File == w.File && wants[last].end() > w.Off {
			n := min(wants[last].end()-w.Off, piece.N)
			p.Copies = append(p.Copies, Copy{From: last, FromAt: w.Off - wants[last].Off, To: i, N: n})
			_, piece = piece.cut(n)
		}
		if piece.N > 0 {
			pieces[w.File] = append(pieces[w.File], piece)
			last = i
		}
	}
	return pieces
}

// builder makes reads of the pieces of one file after the other.
type builder struct {
	limits Limits
	target int64
	reads  []Request
}

// file adds the reads of a file.
func (b *builder) file(file int, pieces []Piece) {
	first := len(b.reads)
	var cur Request
	for _, p := range pieces {
		for p.N > 0 {
			n := b.room(cur, p)
			if n == 0 {
				b.end(first, cur)
				cur = Request{File: file, Off: p.Off, End: p.Off}
				n = min(p.N, b.target)
			}
			var piece Piece
			piece, p = p.cut(n)
			cur.Pieces = append(cur.Pieces, piece)
			cur.Wanted += n
			cur.End = piece.end()
		}
	}
	b.end(first, cur)
}

// room is how many bytes of a piece become part of the read before it.
func (b *builder) room(r Request, p Piece) int64 {
	gap := p.Off - r.End
	if len(r.Pieces) == 0 || gap > max(b.limits.Gap, 0) {
		return 0
	}
	n := min(p.N, r.Off+b.target-p.Off)
	switch {
	case n <= 0, !b.limits.allows(p.Off+n-r.Off, r.Wanted+n):
		return 0
	case gap > 0 && n < p.N && n < gap: // the hole would cost more than the piece is worth
		return 0
	}
	return n
}

// end keeps a read that is full. A short one, or one after a short one, becomes part of the one before where that is
// allowed; those of this file begin at first.
func (b *builder) end(first int, r Request) {
	if len(r.Pieces) == 0 {
		return
	}
	if n := len(b.reads); n > first && b.joins(b.reads[n-1], r) {
		last := &b.reads[n-1]
		last.End, last.Wanted, last.Pieces = r.End, last.Wanted+r.Wanted, append(last.Pieces, r.Pieces...)
		return
	}
	b.reads = append(b.reads, r)
}

func (b *builder) joins(r, next Request) bool {
	l, span := b.limits, next.End-r.Off
	short := min(r.End-r.Off, next.End-next.Off) < l.MinRead
	return short && next.Off-r.End <= max(l.Gap, 0) && span <= l.most() && l.allows(span, r.Wanted+next.Wanted)
}

// interleave orders reads, sorted by file, so that each file's keep their order and are spread evenly over the whole.
func interleave(reads []Request) []Request {
	type spot struct {
		read    int
		at, all int64 // the at-th of all places that its file has, counted in halves
	}
	spots := make([]spot, 0, len(reads))
	for i := 0; i < len(reads); {
		n := 1
		for i+n < len(reads) && reads[i+n].File == reads[i].File {
			n++
		}
		for k := range n {
			spots = append(spots, spot{i + k, int64(2*k + 1), int64(2 * n)})
		}
		i += n
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(a.at*b.all, b.at*a.all) })
	out := make([]Request, len(reads))
	for i, s := range spots {
		out[i] = reads[s.read]
	}
	return out
}

// avoided counts the small wants that have no read of their own.
func avoided(wants []Want, reads []Request) int {
	n := 0
	for _, w := range wants {
		if len(w.Dst) > 0 && len(w.Dst) < Small {
			n++
		}
	}
	for _, r := range reads {
		if r.End-r.Off < Small && len(wants[r.Pieces[0].Want].Dst) < Small {
			n--
		}
	}
	return max(n, 0)
}
