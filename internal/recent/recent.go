// Package recent has a map that forgets what was put into it first.
package recent

// Map is a map of at most a number of entries: beyond it the oldest goes. [New] makes one. It is used by one goroutine at a time.
type Map[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // a ring, the oldest at next once it is full
	next   int
}

// New returns an empty map of at most limit entries, one at least.
func New[K comparable, V any](limit int) Map[K, V] {
	return Map[K, V]{limit: limit, values: make(map[K]V)}
}

// Get returns what was put there.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.values[k]
	return v, ok
}

// Put puts a value there. One that replaces another is as old as that.
func (m *Map[K, V]) Put(k K, v V) {
	_, known := m.values[k]
	m.values[k] = v
	switch {
	case known:
	case len(m.order) < m.limit:
		m.order = append(m.order, k)
	default:
		delete(m.values, m.order[m.next])
		m.order[m.next] = k
		m.next = (m.next + 1) % m.limit
	}
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.values) }
