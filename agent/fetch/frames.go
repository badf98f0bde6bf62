package fetch

import "sync"

const (
	// frameSize is gRPC's largest HTTP/2 frame.
	frameSize = 16 << 10
	// maxIdle is how many frames wait for use at most: 2 MiB.
	maxIdle = 128
	// socketBuffer is what one system call of a connection moves, in bytes. gRPC's default of 32 KiB
	// costs up to 40 % more CPU time (benchmarks/wire), and 1 MiB is slower again.
	// The buffers are pooled: a connection that is idle has none.
	socketBuffer = 256 << 10
)

// frames is the pool of the buffers that a client's connections receive frames into. gRPC's own pool
// clears every buffer before each use, which at this rate is a tenth of the CPU time of receiving; here
// a buffer still holds the bytes of the frame before, and is overwritten whole. The last buffer that came
// back goes out first, because the cache still has it: a sync.Pool would give the oldest one to another
// processor. It implements mem.BufferPool.
type frames struct {
	mu   sync.Mutex
	idle []*[]byte
}

// Get returns a buffer of n bytes with any content.
func (f *frames) Get(n int) *[]byte {
	if n <= frameSize {
		if b := f.last(); b != nil {
			*b = (*b)[:n]
			return b
		}
	}
	b := make([]byte, n, max(n, frameSize))
	return &b
}

// last takes the buffer that came back last, or returns nil.
func (f *frames) last() *[]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.idle)
	if n == 0 {
		return nil
	}
	b := f.idle[n-1]
	f.idle = f.idle[:n-1]
	return b
}

// Put takes a buffer back.
func (f *frames) Put(b *[]byte) {
	if cap(*b) != frameSize {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idle) < maxIdle {
		f.idle = append(f.idle, b)
	}
}
