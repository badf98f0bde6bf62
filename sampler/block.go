package sampler

// The uses of permutations in a block shuffle; those of substitutes are below 2^63.
const (
	useRest   = 1<<64 - 1 // where the samples that fill no chunk go
	useChunks = 1 << 63   // the order of chunks; 1 + window more, the order within a window
)

// A blockOrder is the block shuffle of one epoch. The chunks of the source are laid out in random
// order, the rest that fills no chunk at a random place among them; every window of this line is
// shuffled on its own. So reading in order touches few chunks at a time.
type blockOrder struct {
	src    *source
	epoch  uint64
	chunks uint64 // whole ones
	rest   uint64 // samples after them
	at     uint64 // the slot of the rest in the line; chunks if there is none
	line   permutation
}

func (s *source) blockOrder(epoch uint64) blockOrder {
	b := blockOrder{src: s, epoch: epoch, chunks: s.samples / s.chunk, rest: s.samples % s.chunk}
	b.at = b.chunks
	if b.rest > 0 {
		var p permutation
		s.key.permutation(&p, epoch, useRest, b.chunks+1)
		b.at = p.at(0)
	}
	if b.chunks > 0 {
		s.key.permutation(&b.line, epoch, useChunks, b.chunks)
	}
	return b
}

// start returns how many places come before slot of the line.
func (b *blockOrder) start(slot uint64) uint64 {
	if slot > b.at {
		return (slot-1)*b.src.chunk + b.rest
	}
	return slot * b.src.chunk
}

// slot returns the slot of the line that place is in.
func (b *blockOrder) slot(place uint64) uint64 {
	switch before := b.at * b.src.chunk; {
	case place < before:
		return place / b.src.chunk
	case place < before+b.rest:
		return b.at
	default:
		return (place-b.rest)/b.src.chunk + slots(b.rest)
	}
}

// slots returns how many slots the rest takes.
func slots(rest uint64) uint64 { return min(rest, 1) }

// sample returns the sample at place of the line.
func (b *blockOrder) sample(place uint64) uint64 {
	slot := b.slot(place)
	offset := place - b.start(slot)
	switch {
	case slot == b.at && b.rest > 0:
		return b.chunks*b.src.chunk + offset
	case slot > b.at:
		slot -= slots(b.rest)
	}
	return b.line.at(slot)*b.src.chunk + offset
}

// window returns the places of the window of place: its number, the first place and how many.
func (b *blockOrder) window(place uint64) (number, first, count uint64) {
	width := b.src.window
	number = b.slot(place) / width
	from := number * width
	to := from + min(width, b.chunks+slots(b.rest)-from)
	first = b.start(from)
	return number, first, b.start(to) - first
}

// apply replaces the Sample of every ref, a place in the epoch, by the sample there. Refs in rising
// order are cheapest.
func (b *blockOrder) apply(refs []SampleRef) {
	var within permutation
	var first, count uint64
	for i := range refs {
		place := refs[i].Sample
		if place-first >= count { // wraps where place is before
			var number uint64
			number, first, count = b.window(place)
			b.src.key.permutation(&within, b.epoch, useChunks+1+number, count)
		}
		refs[i].Sample = b.sample(first + within.at(place-first))
	}
}
