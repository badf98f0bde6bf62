package datanode

import "bytes"

// Bounds of a flight. A system call and the wake-up before it cost about as much as copying 20 KiB, and more than the
// second-level cache holds is no gain; unix.Readv needs no memory for 8 pieces: 4 packets, 256 KiB of data.
const (
	maxPieces   = 8
	maxLegs     = 4
	enough      = 256 << 10 // bytes of a flight; a packet may be larger
	scratchSize = 64 << 10
)

// flight is the packets that are expected next, with a place for each byte: data lies in the caller's memory, the rest in
// scratch. One system call then receives several packets without a copy. Whether they are what was expected is seen
// when they are there; if not, nothing is lost: the pieces in order are what was received.
type flight struct {
	legs    [maxLegs]leg
	n       int
	pieces  [][]byte
	size    int // bytes in all pieces
	got     int // bytes received
	ahead   [][]byte
	memory  [2 * maxPieces][]byte
	scratch []byte
	used    int // of scratch
}

// leg is one packet of a flight.
type leg struct {
	packet
	start, stop int // in the flight's bytes
	from, to    int // its pieces; the first is head, the others its data
}

// plan expects the packets that follow: up to typical bytes of data each, and where replica says how long the replica is
// not beyond that. It plans none if the first does not fit.
func (f *flight) plan(c course, l *landing, typical int, replica int64) {
	f.n, f.size, f.got, f.used = 0, 0, 0, 0
	f.pieces = f.memory[:0:maxPieces]
	for f.n < maxLegs && f.size < enough {
		p := c.expect(typical, replica)
		if !f.add(p, c.size(p.data), l) {
			return
		}
		if c.pass(p); p.last {
			return
		}
	}
}

// add gives a packet its pieces, unless there is no room for them.
func (f *flight) add(p packet, sums int, l *landing) bool {
	pieces, used := len(f.pieces), f.used
	if !f.grow(f.take(lengths + headerLen + sums)) {
		f.pieces, f.used = f.pieces[:pieces], used
		return false
	}
	for at := 0; at < p.data; {
		dst, n := l.next(p.off+int64(at), p.data-at)
		if dst == nil {
			dst = f.take(n)
		}
		if !f.grow(dst) {
			f.pieces, f.used = f.pieces[:pieces], used
			return false
		}
		at += n
	}
	f.legs[f.n] = leg{p, f.size, f.size + p.size(), pieces, len(f.pieces)}
	f.size += p.size()
	f.n++
	return true
}

func (f *flight) grow(piece []byte) bool {
	if piece == nil || len(f.pieces) == maxPieces {
		return false
	}
	f.pieces = append(f.pieces, piece)
	return true
}

// take returns n bytes of scratch, or nil.
func (f *flight) take(n int) []byte {
	if f.scratch == nil {
		f.scratch = make([]byte, scratchSize)
	}
	if n > len(f.scratch)-f.used {
		return nil
	}
	f.used += n
	return f.scratch[f.used-n : f.used : f.used]
}

// rest is the pieces that are not filled yet. It is valid until the next call.
func (f *flight) rest() [][]byte {
	f.ahead = f.memory[maxPieces:maxPieces]
	skip := f.got
	for _, piece := range f.pieces {
		if skip < len(piece) {
			f.ahead = append(f.ahead, piece[skip:])
		}
		skip = max(0, skip-len(piece))
	}
	return f.ahead
}

// fill takes bytes that were received elsewhere and says how many.
func (f *flight) fill(data []byte) int {
	took := 0
	for _, piece := range f.rest() {
		took += copy(piece, data[took:])
	}
	f.got += took
	return took
}

// state says how leg i stands.
func (f *flight) state(i int) legState {
	s := &f.legs[i]
	head := f.pieces[s.from]
	if n := min(f.got-s.start, lengths+headerLen); n > 0 {
		var b [lengths + headerLen]byte
		if !bytes.Equal(head[:n], s.appendHeader(b[:0])[:n]) {
			return unexpected
		}
	}
	if f.got < s.stop {
		return flying
	}
	return landed
}

type legState int

const (
	flying     legState = iota // not all of it is here
	landed                     // all is here, and it is the packet that was expected
	unexpected                 // it is another packet: see unfold
)

// sums and data are what leg i received.
func (f *flight) sums(i int) []byte   { return f.pieces[f.legs[i].from][lengths+headerLen:] }
func (f *flight) data(i int) [][]byte { return f.pieces[f.legs[i].from+1 : f.legs[i].to] }

// unfold returns the bytes received from leg i on, followed by more, in memory of their own.
func (f *flight) unfold(i int, more []byte) []byte {
	n := f.got - f.legs[i].start
	b := make([]byte, 0, max(bufferSize, n+len(more)))
	for _, piece := range f.pieces[f.legs[i].from:] {
		piece = piece[:min(len(piece), n)]
		b = append(b, piece...)
		n -= len(piece)
	}
	return append(b, more...)
}
