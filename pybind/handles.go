package pybind

import (
	"maps"
	"slices"
	"sync"
)

// handles are what numbers stand for that Python holds. Go pointers never reach it.
type handles[T any] struct {
	what string // each is called

	mu   sync.Mutex
	last int64
	open map[int64]T
}

// closedError says that something was closed.
type closedError struct{ what string }

func (e *closedError) Error() string { return e.what + " is closed: open it again" }

func (h *handles[T]) add(value T) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[int64]T{}
	}
	h.last++
	h.open[h.last] = value
	return h.last
}

// get returns what a number stands for, or a *closedError.
func (h *handles[T]) get(number int64) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := h.open[number]
	if !ok {
		return value, &closedError{h.what}
	}
	return value, nil
}

// take is get, and the number stands for nothing any more.
func (h *handles[T]) take(number int64) (T, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := h.open[number]
	delete(h.open, number)
	return value, ok
}

// takeAll is take of all there are.
func (h *handles[T]) takeAll() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Collect(maps.Values(h.open))
	clear(h.open)
	return all
}
