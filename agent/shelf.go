package agent

import (
	"sync"
	"time"

	"github.com/stepahead-io/stepahead/transform"
)

// tensor is a prepared sample and the record of how it was made.
type tensor struct {
	data []byte // len is the tensor's size
	spec transform.TensorSpec
	crc  uint32
	plan [32]byte
	cpu  time.Duration
	rss  int64 // peak memory of the worker
}

// buffers recycles the memory of tensors: sizes repeat, and fresh memory must be cleared first and
// collected later. What it keeps and what is handed out stay within limit bytes together, as long as
// the planner hands out no more.
type buffers struct {
	limit int64

	mu   sync.Mutex
	out  int64 // bytes handed out
	kept int64
	free map[int][][]byte // by capacity
}

// get returns n bytes of any content.
func (b *buffers) get(n int64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out += n
	if list := b.free[int(n)]; len(list) > 0 {
		buf := list[len(list)-1]
		b.free[int(n)] = list[:len(list)-1]
		b.kept -= n
		return buf[:n]
	}
	if b.out+b.kept > b.limit {
		b.kept, b.free = 0, nil
	}
	return make([]byte, n)
}

// put takes back what get returned, however it was cut.
func (b *buffers) put(buf []byte) {
	n := cap(buf)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= int64(n)
	if b.out+b.kept+int64(n) > b.limit {
		return
	}
	if b.free == nil {
		b.free = make(map[int][][]byte)
	}
	b.free[n] = append(b.free[n], buf[:0])
	b.kept += int64(n)
}
