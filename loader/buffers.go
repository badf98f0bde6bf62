package loader

import (
	"math/bits"
	"sync"
)

// buffers lends byte slices for encoded parts and intermediate pixels, by powers of two. The zero
// value is ready. Safe for concurrent use.
type buffers struct {
	pools [48]sync.Pool
}

// get returns a slice of length n with undefined content.
func (b *buffers) get(n int) []byte {
	class := bits.Len(uint(max(n, 1) - 1))
	if p, ok := b.pools[class].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, 1<<class)
}

// put takes a slice that get returned and nothing refers to any more.
func (b *buffers) put(s []byte) {
	s = s[:cap(s)]
	b.pools[bits.Len(uint(max(cap(s), 1)-1))].Put(&s)
}
