package tokens

import "math/bits"

// rooms are the packs that are being filled, by the room that each has left.
type rooms struct {
	length int64
	packs  uint32
	// latest is the pack that got a room last, below the one before it; none ends the list.
	latest []uint32 // by room
	below  []uint32 // by pack
	filled roomSet  // the rooms that some pack has
}

const none = ^uint32(0)

func newRooms(length int64) *rooms {
	r := &rooms{length: length, latest: make([]uint32, length), filled: newRoomSet(length)}
	for i := range r.latest {
		r.latest[i] = none
	}
	return r
}

// put finds the pack with the least room that holds n tokens, 1 to length-1, or begins one, and returns
// its number. Of several the one that got its room last is taken.
func (r *rooms) put(n int64) uint32 {
	room := r.filled.atLeast(n)
	pack := r.packs
	if room < 0 {
		room = r.length
		r.packs++
		r.below = append(r.below, none)
	} else {
		pack = r.latest[room]
		if r.latest[room] = r.below[pack]; r.latest[room] == none {
			r.filled.remove(room)
		}
	}
	if room -= n; room > 0 {
		if r.latest[room] == none {
			r.filled.add(room)
		}
		r.below[pack], r.latest[room] = r.latest[room], pack
	}
	return pack
}

// A roomSet is a set of small numbers with a fast search upwards: a bit for each number, above it a bit
// for each word that is not empty, and so on up to one word.
type roomSet [][]uint64

func newRoomSet(size int64) roomSet {
	var s roomSet
	for {
		size = (size + 63) / 64
		s = append(s, make([]uint64, size))
		if size == 1 {
			return s
		}
	}
}

func (s roomSet) add(i int64) {
	for _, words := range s {
		was := words[i/64]
		words[i/64] = was | 1<<(i%64)
		if was != 0 {
			return
		}
		i /= 64
	}
}

func (s roomSet) remove(i int64) {
	for _, words := range s {
		words[i/64] &^= 1 << (i % 64)
		if words[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// atLeast returns the smallest number of the set that is i or more, -1 if there is none.
func (s roomSet) atLeast(i int64) int64 {
	for level, words := range s {
		at := i / 64
		if at >= int64(len(words)) {
			return -1
		}
		if w := words[at] >> (i % 64) << (i % 64); w != 0 {
			return s.down(level, at*64+int64(bits.TrailingZeros64(w)))
		}
		i = at + 1 // words of this level further on: their bits are the level above
	}
	return -1
}

// down follows the first bits from a bit of a level to a number.
func (s roomSet) down(level int, i int64) int64 {
	for level--; level >= 0; level-- {
		i = i*64 + int64(bits.TrailingZeros64(s[level][i]))
	}
	return i
}
