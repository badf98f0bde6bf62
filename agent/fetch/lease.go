package fetch

import (
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// lease calls a payload's Release when the last buffer that points into the payload is gone.
//
// gRPC frees every buffer it has sent or given up, with one exception: of a connection that breaks, it
// drops what its writer had taken up without freeing it. Such buffers become garbage, and a cleanup
// ends the lease when the collector has proved that nobody can read them any more.
type lease struct {
	refs    atomic.Int64
	release *onceFunc
}

type onceFunc struct {
	once sync.Once
	f    func()
}

func (o *onceFunc) call() { o.once.Do(o.f) }

// newLease returns a lease with one reference, the caller's; nil if there is nothing to release.
func newLease(release func()) *lease {
	if release == nil {
		return nil
	}
	l := &lease{release: &onceFunc{f: release}}
	l.refs.Store(1)
	runtime.AddCleanup(l, (*onceFunc).call, l.release)
	return l
}

// buffer returns a gRPC buffer over data, which must lie in the payload. gRPC does not count references
// to small buffers, so these are copies.
func (l *lease) buffer(data []byte) mem.Buffer {
	data = data[:len(data):len(data)]
	if mem.IsBelowBufferPoolingThreshold(len(data)) {
		return mem.SliceBuffer(append([]byte(nil), data...))
	}
	if l == nil {
		return mem.SliceBuffer(data)
	}
	l.refs.Add(1)
	return mem.NewBuffer(&data, l)
}

// drop gives the caller's reference up.
func (l *lease) drop() {
	if l != nil && l.refs.Add(-1) == 0 {
		l.release.call()
	}
}

// Put implements mem.BufferPool: gRPC hands a buffer back when its last reference is freed.
func (l *lease) Put(*[]byte) { l.drop() }

// Get implements mem.BufferPool. gRPC takes no buffers from a lease.
func (l *lease) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}
