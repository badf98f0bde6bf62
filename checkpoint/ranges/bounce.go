package ranges

import "slices"

// bounce is memory for what nobody wants and for what is copied, most bytes of it in all. It is used by one goroutine.
type bounce struct {
	most, taken int64 // what is free counts as taken until it is dropped
	free        [][]byte
}

// take returns n bytes, nil if they have to wait until others are given back.
func (b *bounce) take(n int64) []byte {
	if i := slices.IndexFunc(b.free, func(m []byte) bool { return int64(cap(m)) >= n }); i >= 0 {
		m := b.free[i]
		b.free = slices.Delete(b.free, i, i+1)
		return m[:n]
	}
	for b.taken+n > b.most && len(b.free) > 0 {
		last := len(b.free) - 1
		b.taken -= int64(cap(b.free[last]))
		b.free[last] = nil
		b.free = b.free[:last]
	}
	if b.taken+n > b.most {
		return nil
	}
	m := make([]byte, n)
	b.taken += int64(cap(m))
	return m
}

// give takes memory back.
func (b *bounce) give(m []byte) {
	if cap(m) > 0 {
		b.free = append(b.free, m)
	}
}
