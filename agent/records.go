package agent

import "sync"

// maxRecords bounds the records kept.
const maxRecords = 1024

// records keeps how the latest entries came about. The zero value is ready.
type records struct {
	mu   sync.Mutex
	ring []record
	next int
}

func (r *records) add(x record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < maxRecords {
		r.ring = append(r.ring, x)
		return
	}
	r.ring[r.next] = x
	r.next = (r.next + 1) % maxRecords
}

// list returns the records, oldest first.
func (r *records) list() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]record{}, r.ring[r.next:]...), r.ring[:r.next]...)
}
