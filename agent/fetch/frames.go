package fetch

import "sync"

const (
	// frameSize is gRPC's largest HTTP/2 frame.
	frameSize = 16 << 10
	// socketBuffer is what one system call of a connection moves, in bytes. gRPC's default of 32 KiB
	// costs 40 % more CPU time (benchmarks/wire), and 1 MiB is slower again.
	// The buffers are pooled: a connection that is idle has none.
	socketBuffer = 256 << 10
	// streamWindow and connWindow are what an agent may send of one fetch, and of all, before the loader has taken
	// it. With gRPC's own estimate, which ends at 16 MiB, a loader that trains between its fetches spends a quarter
	// more CPU time on them: it says far more often how much it has taken (benchmarks/loader).
	streamWindow = 4 << 20
	connWindow   = 16 << 20
)

// frames is the pool of the buffers that a client's connections receive frames into. gRPC's own pool
// clears every buffer before each use, which at this rate is a tenth of the CPU time of receiving; here
// a buffer still holds the bytes of the frame before, and is overwritten whole. It implements
// mem.BufferPool.
type frames struct{ pool sync.Pool }

// Get returns a buffer of n bytes with any content.
func (f *frames) Get(n int) *[]byte {
	if n > frameSize {
		b := make([]byte, n)
		return &b
	}
	b, ok := f.pool.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, n, frameSize)
		return &fresh
	}
	*b = (*b)[:n]
	return b
}

// Put takes a buffer back.
func (f *frames) Put(b *[]byte) {
	if cap(*b) == frameSize {
		f.pool.Put(b)
	}
}
