package sasl

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// checkCache walks through a ticket cache, as the MIT Kerberos documentation describes file format versions 3 and 4, and
// returns an error if a count or a length in it reaches beyond the data. The library's parser takes memory for whatever
// number it reads. What comes back is for that parser: without the header's fields, which it steps over by their own lengths
// and not by the header's, so that it would read other numbers than were looked at here.
func checkCache(data []byte) ([]byte, error) {
	if len(data) < 2 || data[0] != 5 || data[1] != 3 && data[1] != 4 {
		return nil, fmt.Errorf("it does not begin as a ticket cache of version 3 or 4: %x", data[:min(2, len(data))])
	}
	checked := data
	w := cacheWalk{rest: data[2:]}
	if data[1] == 4 {
		w.skip(int64(w.number(2)))
		checked = slices.Concat([]byte{5, 4, 0, 0}, w.rest)
	}
	w.principal()
	for w.err == nil && len(w.rest) > 0 {
		w.credential(data[1])
	}
	if w.err != nil {
		return nil, fmt.Errorf("at byte %d: %w", len(data)-len(w.rest), w.err)
	}
	return checked, nil
}

// cacheWalk is a place in a ticket cache. After an error it stays where it is.
type cacheWalk struct {
	rest []byte
	err  error
}

func (w *cacheWalk) skip(n int64) {
	if w.err == nil && n > int64(len(w.rest)) {
		w.err = fmt.Errorf("%d bytes are announced, %d follow", n, len(w.rest))
	}
	if w.err == nil {
		w.rest = w.rest[n:]
	}
}

// number is a big-endian number of 1, 2 or 4 bytes.
func (w *cacheWalk) number(size int) uint32 {
	var b [4]byte
	copy(b[4-size:], w.rest)
	w.skip(int64(size))
	if w.err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(b[:])
}

func (w *cacheWalk) data() { w.skip(int64(w.number(4))) }

// list walks over a count and as many items, each of which takes at least least bytes.
func (w *cacheWalk) list(least int64, item func()) {
	n := int64(w.number(4))
	if w.err == nil && n*least > int64(len(w.rest)) {
		w.err = fmt.Errorf("%d items are announced, which %d bytes cannot hold", n, len(w.rest))
	}
	for ; n > 0 && w.err == nil; n-- {
		item()
	}
}

func (w *cacheWalk) principal() {
	w.skip(4) // kind of name
	n := int64(w.number(4))
	w.data() // realm
	if w.err == nil && 4*n > int64(len(w.rest)) {
		w.err = fmt.Errorf("a name of %d parts is announced, %d bytes follow", n, len(w.rest))
	}
	for ; n > 0 && w.err == nil; n-- {
		w.data()
	}
}

func (w *cacheWalk) credential(version byte) {
	w.principal() // whose
	w.principal() // for what
	w.skip(2)     // kind of key
	if version == 3 {
		w.skip(2) // once more
	}
	w.data()            // key
	w.skip(4*4 + 1 + 4) // times, is it a session key, flags
	typed := func() { w.skip(2); w.data() }
	w.list(6, typed) // addresses
	w.list(6, typed) // authorisation
	w.data()         // ticket
	w.data()         // second ticket
}
